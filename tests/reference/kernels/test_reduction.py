"""Sums and extremes along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.reference.models import Array, compute, floats

X = np.abs(floats(1, 2, 3, 4)) + np.float32(0.5)
FORMULAS: dict[str, Callable[[Array, tuple[int, ...]], Any]] = {
    "ReduceL1": lambda x, axes: np.abs(x).sum(axes),
    "ReduceL2": lambda x, axes: np.sqrt((x * x).sum(axes)),
    "ReduceLogSum": lambda x, axes: np.log(x.sum(axes)),
    "ReduceLogSumExp": lambda x, axes: np.log(np.exp(x).sum(axes)),
    "ReduceMax": lambda x, axes: x.max(axes),
    "ReduceMean": lambda x, axes: x.sum(axes) / np.prod([x.shape[axis] for axis in axes]),
    "ReduceMin": lambda x, axes: x.min(axes),
    "ReduceProd": lambda x, axes: x.prod(axes),
    "ReduceSum": lambda x, axes: x.sum(axes),
    "ReduceSumSquare": lambda x, axes: (x * x).sum(axes),
}


@pytest.mark.parametrize("op", FORMULAS)
@pytest.mark.parametrize("opset", [1, 11, 13, 18, 20])
def test_axes_as_attribute_and_as_input(op: str, opset: int) -> None:
    by_input = opset >= (13 if op == "ReduceSum" else 18)
    given: list[Array | None] = [X, np.array([2, 0])] if by_input else [X]
    said: dict[str, Any] = {} if by_input else {"axes": [2, 0]}
    expected = FORMULAS[op](X.astype(np.longdouble), (0, 2)).astype(float)
    y = compute(op, opset, given, keepdims=0, **said)
    np.testing.assert_allclose(y, expected, rtol=1e-14)
    assert compute(op, opset, given, **said).shape == (1, 3, 1)


def test_no_axes_means_all_or_none() -> None:
    assert compute("ReduceSum", 11, [X]).shape == (1, 1, 1)
    assert compute("ReduceSum", 13, [X, np.zeros(0, np.int64)]).shape == (1, 1, 1)
    np.testing.assert_array_equal(compute("ReduceSum", 13, [X], noop_with_empty_axes=1), X)
    # Over no axis the square of each element, as onnxruntime and onnx's reference have it.
    np.testing.assert_array_equal(
        compute("ReduceSumSquare", 18, [X], noop_with_empty_axes=1), np.square(X.astype(np.float64))
    )
    np.testing.assert_array_equal(compute("ReduceL1", 18, [X], noop_with_empty_axes=1), np.abs(X))


def test_log_sum_exp_of_large_numbers_and_of_minus_infinity() -> None:
    x = np.array([[800, 801], [-np.inf, -np.inf]], np.float32)
    y = compute("ReduceLogSumExp", 13, [x], axes=[1], keepdims=0)
    np.testing.assert_allclose(y, [801 + np.log1p(np.exp(-1)), -np.inf])


def test_integers_stay_integers() -> None:
    y = compute("ReduceMean", 13, [np.array([[1, 2], [4, 8]])], axes=[1], keepdims=0)
    assert [y.dtype, y.tolist()] == [np.int64, [1, 6]]


def test_extremes_of_nothing() -> None:
    nothing = np.zeros((2, 0), np.float32)
    assert compute("ReduceMax", 20, [nothing, np.array([1])], keepdims=0).tolist() == [-np.inf, -np.inf]
    assert compute("ReduceMin", 13, [nothing.astype(np.int32)], axes=[1], keepdims=0).tolist() == [2**31 - 1] * 2


def test_arguments_of_extremes() -> None:
    x = np.array([[3, 1, 3], [2, 2, 0]], np.float32)
    assert compute("ArgMax", 11, [x], axis=1).tolist() == [[0], [0]]
    assert compute("ArgMax", 12, [x], axis=1, keepdims=0, select_last_index=1).tolist() == [2, 1]
    assert compute("ArgMin", 13, [x], axis=-1, keepdims=0).tolist() == [1, 2]


def test_cumulative_products() -> None:
    x = np.array([[2, 0, 3], [4, 5, np.inf]], np.float32)
    assert compute("CumProd", 26, [x, np.array(1)]).tolist() == [[2, 0, 0], [4, 20, np.inf]]
    attrs = {"exclusive": 1, "reverse": 1}
    assert compute("CumProd", 26, [x[:, :2], np.array(-1)], **attrs).tolist() == [[0, 1], [5, 1]]


def test_exclusive_sums_behind_infinity_are_infinite() -> None:
    x = np.array([1, np.inf, 2], np.float32)
    assert compute("CumSum", 14, [x, np.array(0)], exclusive=1).tolist() == [0, 1, np.inf]


def test_the_logarithm_of_the_sum_of_nothing() -> None:
    assert compute("ReduceLogSumExp", 18, [np.zeros((2, 0), np.float32), np.array([1])]).tolist() == [[-np.inf]] * 2


def test_cumulative_sums() -> None:
    x = np.array([1, 2, 3], np.float32)
    axis = np.array(0)
    assert compute("CumSum", 14, [x, axis]).tolist() == [1, 3, 6]
    assert compute("CumSum", 14, [x, axis], exclusive=1).tolist() == [0, 1, 3]
    assert compute("CumSum", 11, [x, axis], reverse=1).tolist() == [6, 5, 3]
    assert compute("CumSum", 11, [x, axis], reverse=1, exclusive=1).tolist() == [5, 3, 0]
