"""What widens, and what rounds."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from bnfold.reference.precision import (
    as_array,
    as_declared,
    computed_type,
    is_float,
    jittered,
    rounded,
    widen,
    workable,
)
from tests.reference.models import Array


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_floats_widen_exactly(dtype: type) -> None:
    array: Array = np.array([1 / 3, 6e-5, 1e4]).astype(dtype)
    wide = widen(array)
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide.astype(dtype), array)


def test_what_is_no_such_float_stays_itself() -> None:
    for array in (np.array([1]), np.array([True]), np.array([1.0]), np.array([1], ml_dtypes.float8_e4m3fn)):
        assert widen(array) is array
    assert widen(None) is None
    assert widen([np.ones(1, np.float32)])[0].dtype == np.float64


def test_computed_types() -> None:
    assert computed_type(TensorProto.BFLOAT16, "float64") == np.float64
    assert computed_type(TensorProto.BFLOAT16, "stored") == ml_dtypes.bfloat16
    assert computed_type(TensorProto.INT8, "float64") == np.int8
    assert computed_type(TensorProto.STRING, "float64").kind == "O"


def test_feeds_take_the_declared_float_type() -> None:
    third = np.array([1 / 3])
    assert as_declared(third, TensorProto.BFLOAT16).dtype == ml_dtypes.bfloat16
    assert as_declared(third, None) is third
    assert as_declared(third, TensorProto.INT32) is third
    assert as_declared(np.array([3]), TensorProto.FLOAT).dtype == np.int64


def test_results_round_to_the_type_of_a_model_array_if_both_are_floats() -> None:
    like = np.zeros(1, np.float16)
    assert rounded(np.array([1 / 3]), like).dtype == np.float16
    assert rounded(np.array([1]), like).dtype == np.int64
    assert rounded(np.array([1 / 3]), None).dtype == np.float64
    assert rounded(np.array([1 / 3]), np.array([1])).dtype == np.float64


def test_halves_are_worked_on_in_float32() -> None:
    assert workable(np.zeros(1, np.float16)).dtype == np.float32
    assert workable(np.zeros(1)).dtype == np.float64


def test_scalars_become_arrays() -> None:
    assert as_array(np.float64(2)).shape == ()
    assert as_array(None) is None
    assert is_float(np.zeros(1, ml_dtypes.bfloat16))
    assert not is_float(np.zeros(1, np.int32))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_jitter_moves_what_is_between_integers_to_either_neighbour(dtype: type[np.generic]) -> None:
    kept = np.array([0.0, -0.0, 3.0, np.inf, -np.inf, 2.0**60])
    between = np.linspace(-2.4, 2.3, 1001)[:-1:2]
    with np.errstate(over="ignore"):  # 2**60 is no float16
        whole = np.concatenate([kept, [np.nan], between]).astype(dtype)
    moved = jittered(whole, np.random.default_rng(0))
    assert isinstance(moved, np.ndarray)
    assert moved.dtype == dtype
    assert moved[: kept.size].tolist() == whole[: kept.size].tolist()
    assert np.isnan(moved[kept.size].astype(np.float64))
    bits = np.dtype(f"i{whole.itemsize}")
    is_whole = whole.astype(np.float64) == np.rint(whole.astype(np.float64))
    steps = moved.view(bits).astype(np.int64) - whole.view(bits).astype(np.int64)
    shares = [np.mean(steps[kept.size + 1 :][~is_whole[kept.size + 1 :]] == step) for step in (-1, 0, 1)]
    assert min(shares) > 0.25
    assert sum(shares) == pytest.approx(1.0)


def test_jitter_of_integers_and_sequences() -> None:
    """Whole numbers may be sizes; members of a sequence move one by one."""
    counts, floats = np.array([1, 2]), np.full(200, 0.5)
    same, moved = jittered([counts, floats], np.random.default_rng(0))
    assert same is counts
    assert len(set(moved.tolist())) == 3
