"""Weights that are only described, and computed when they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from bnfold.errors import MalformedModel
from bnfold.ir import tensor as module
from bnfold.ir.elements import TP, numpy_type, round_once
from bnfold.ir.tensor import Exact, Inline, InMemory, RangeViolation, Scaled
from tests.ir.build import stored


@pytest.mark.parametrize("dtype", [TP.FLOAT, TP.DOUBLE, TP.FLOAT16, TP.BFLOAT16])
def test_exact_values_are_rounded_once(dtype: int) -> None:
    values = np.array([[1 / 3, -2e-3], [1 + 2.0**-8 + 2.0**-40, 5.0]])
    tensor = Exact(dtype, values)
    assert tensor.float64() is tensor.values
    np.testing.assert_array_equal(tensor.numpy(), round_once(values, dtype))
    assert tensor.nbytes == 4 * numpy_type(dtype).itemsize
    (block,) = tensor.blocks()
    np.testing.assert_array_equal(block, round_once(values, dtype).reshape(-1))


def plain(values: np.ndarray[Any, Any], factors: Sequence[tuple[int, np.ndarray[Any, Any]]]) -> np.ndarray[Any, Any]:
    """The product in extended precision, factor by factor and element by element."""
    product = values.astype(np.longdouble)
    for axis, vector in factors:
        for index in range(values.shape[axis]):
            where = tuple(index if at == axis else slice(None) for at in range(values.ndim))
            product[where] = product[where] * np.longdouble(vector[index])
    return product


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_scaled_is_the_plain_product(data: st.DataObject) -> None:
    """For all shapes, axes and block sizes; a single rounding is at most half a unit in the last place off."""
    dims = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    dtype = data.draw(st.sampled_from([TP.FLOAT, TP.DOUBLE, TP.FLOAT16, TP.BFLOAT16]))
    axes = data.draw(st.lists(st.integers(0, len(dims) - 1), max_size=4))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = generator.normal(size=dims).astype(numpy_type(dtype))
    factors = [(axis, generator.normal(size=dims[axis])) for axis in axes]
    kind = data.draw(st.sampled_from(["stored", "inline", "in memory"]))
    base = {
        "stored": stored(values, dtype),
        "inline": Inline(numpy_helper.from_array(values)),
        "in memory": InMemory(dtype, values),
    }[kind]
    scaled = Scaled(base, factors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", 8 * data.draw(st.integers(1, 50)))
        blocks = list(scaled.blocks())
    assert all(block.size <= module.CHUNK // 8 for block in blocks)
    result = np.concatenate(blocks).reshape(dims)
    assert result.dtype == numpy_type(dtype)
    np.testing.assert_array_equal(result, scaled.numpy())
    expected = plain(values, factors)
    # Rounding the product of the factors to float64 costs a few units there, which only float64 itself can see.
    unit = np.spacing(np.abs(result)).astype(np.longdouble)
    slack = 3.0 if dtype == TP.DOUBLE else 0.5 + 2.0**-26
    assert (np.abs(result.astype(np.longdouble) - expected) <= slack * unit).all()


def test_descriptions_compose_without_rounding() -> None:
    values = np.array([[3.0, 5.0, 7.0]], dtype=np.float32)
    base = stored(values, TP.FLOAT)
    first = Scaled(base, [(1, np.array([1 / 3, 1 / 5, 1 / 7]))])
    second = Scaled(first, [(0, np.array([2.0])), (1, np.array([3.0, 5.0, 7.0]))])
    assert second.base is base
    assert [axis for axis, _ in second.factors] == [0, 1]
    np.testing.assert_array_equal(second.numpy(), [[6.0, 10.0, 14.0]])


def test_a_factor_on_one_axis_twice_is_multiplied() -> None:
    scaled = Scaled(
        stored(np.ones((2, 3), np.float32), TP.FLOAT), [(1, np.array([1.0, 2, 3])), (1, np.array([5.0, 7, 11]))]
    )
    np.testing.assert_array_equal(scaled.numpy(), [[5, 14, 33]] * 2)


@pytest.mark.parametrize("dtype", [TP.FLOAT, TP.DOUBLE, TP.FLOAT16, TP.BFLOAT16])
def test_an_overflow_is_found_in_whatever_block_it_is(dtype: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 8 * 4)
    largest = float(ml_dtypes.finfo(numpy_type(dtype)).max)
    for place in range(12):
        values = np.ones(12).astype(numpy_type(dtype))
        values[place] = largest
        scaled = Scaled(stored(values.reshape(3, 4), dtype), [(0, np.full(3, -1.5))])
        for use in (lambda tensor: list(tensor.blocks()), Scaled.numpy):
            with pytest.raises(RangeViolation) as caught:
                use(scaled)
            assert caught.value.tensor is scaled


def test_what_was_infinite_before_may_be_infinite_after() -> None:
    values = np.array([[np.inf, 2, np.nan, -np.inf]], dtype=np.float32)
    scaled = Scaled(stored(values, TP.FLOAT), [(0, np.array([2.0]))])
    np.testing.assert_array_equal(scaled.numpy(), [[np.inf, 4, np.nan, -np.inf]])
    overflowing = Scaled(stored(np.array([[np.inf, 3e38]], np.float32), TP.FLOAT), [(0, np.array([2.0]))])
    with pytest.raises(RangeViolation):
        overflowing.numpy()


def test_scalars_and_empty_tensors_can_be_scaled() -> None:
    assert Scaled(stored(np.array(3.0, np.float32), TP.FLOAT), []).numpy() == 3
    empty = Scaled(stored(np.zeros((2, 0, 3), np.float32), TP.FLOAT), [(0, np.ones(2))])
    assert empty.numpy().shape == (2, 0, 3)
    assert list(empty.blocks()) == []


@pytest.mark.parametrize("length", [2, 5])
def test_factors_that_do_not_fit_their_axis_are_no_description(length: int) -> None:
    with pytest.raises(ValueError, match=f"{length} factors along an axis of 3"):
        Scaled(Exact(TP.FLOAT, np.ones((3, 4))), [(0, np.ones(length))])


def test_more_axes_than_an_array_can_have_are_refused() -> None:
    proto = TP(name="w", data_type=TP.FLOAT, dims=[1] * 700, raw_data=bytes(4))
    with pytest.raises(MalformedModel, match="'w' has 700 dims"):
        Inline(proto).numpy()
    assert Inline(TP(name="w", data_type=TP.FLOAT, dims=[1] * 32, raw_data=bytes(4))).numpy().ndim == 32
