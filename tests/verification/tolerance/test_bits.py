from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.ir.tensor import InMemory
from bnfold.verification.tolerance.bits import same
from tests.verification.graphs import Array, model

SIZE = (1 << 16) + 3
NAN = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)


def constant_of(array: Array) -> ir.Tensor:
    return InMemory(onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array)


def fill(number: Any, dtype: Any = np.float32, dims: tuple[int, ...] = (SIZE,)) -> ir.Tensor:
    return constant_of(np.broadcast_to(np.array(number, dtype), dims))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int64, bool])
def test_a_fill_is_the_constant_that_it_fills(dtype: Any) -> None:
    stored = constant_of(np.full(SIZE, 1, dtype))
    assert same(fill(1, dtype), stored)
    assert same(stored, fill(1, dtype))
    assert same(fill(1, dtype), fill(1, dtype))
    assert not same(fill(1, dtype), fill(0, dtype))


@pytest.mark.parametrize("place", [0, 1, SIZE // 2, (1 << 16) - 1, 1 << 16, SIZE - 1])
def test_one_element_that_differs_is_found(place: int) -> None:
    stored = np.full(SIZE, 0.5, np.float32)
    stored[place] = np.nextafter(np.float32(0.5), np.float32(1))
    assert not same(fill(0.5), constant_of(stored))
    assert not same(constant_of(stored), fill(0.5))


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(np.zeros(SIZE, np.float16), id="type"),
        pytest.param(np.zeros(SIZE, np.int32), id="type of the same bits"),
        pytest.param(np.zeros((SIZE, 1), np.float32), id="rank"),
        pytest.param(np.zeros(SIZE + 1, np.float32), id="size"),
        pytest.param(-np.zeros(SIZE, np.float32), id="sign of zero"),
        pytest.param(np.full(SIZE, np.nan, np.float32), id="NaN"),
    ],
)
def test_what_is_nearly_a_fill_is_none(stored: Array) -> None:
    assert not same(fill(0.0), constant_of(stored))
    assert not same(constant_of(stored), fill(0.0))


def test_a_nan_is_the_same_only_with_the_same_bits() -> None:
    assert same(fill(NAN[0]), constant_of(np.full(SIZE, NAN[0])))
    assert not same(fill(NAN[0]), constant_of(np.full(SIZE, NAN[1])))


def test_two_fills_are_compared_without_making_either() -> None:
    huge = (1 << 20, 1 << 20)
    assert same(fill(2.0, dims=huge), fill(2.0, dims=huge))
    assert not same(fill(0.0, dims=huge), fill(-0.0, dims=huge))


def test_rows_that_repeat_are_no_fill() -> None:
    rows = np.broadcast_to(np.array([1.0, 2.0], np.float32), (3, 2))
    assert same(constant_of(rows), constant_of(np.array(rows)))
    assert not same(constant_of(rows), constant_of(np.ones((3, 2), np.float32)))


def test_words_and_nothing_at_all() -> None:
    assert same(fill("a", object, (3,)), constant_of(np.array(["a"] * 3, object)))
    assert not same(fill("a", object, (3,)), constant_of(np.array(["a", "a", "b"], object)))
    assert same(constant_of(np.array("a", object)), constant_of(np.array("a", object)))
    assert not same(constant_of(np.array("a", object)), constant_of(np.array("b", object)))
    assert same(fill(1, dims=(0, 3)), constant_of(np.zeros((0, 3), np.float32)))


def test_a_fill_is_compared_with_what_lies_in_a_file(tmp_path: Path) -> None:
    stored = np.full((4, SIZE), 0.25, np.float32)
    for array, is_same in ((stored, True), (np.where(np.arange(SIZE) == 7, 0.5, stored), False)):
        onnx.save(model("(float[4] x) => (float[4] y) { y = Neg (x) }", {"w": array}), tmp_path / "m.onnx")
        tensor = ir.load(tmp_path / "m.onnx").graph.values["w"].tensor
        assert tensor is not None
        assert same(fill(0.25, dims=stored.shape), tensor) is is_same
