"""Reductions whose axes the model computes, which older versions have as an attribute."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]
REDUCTIONS = [
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
]
DATA = np.abs(np.sin(np.arange(30, dtype=np.float32))).reshape(2, 3, 5) + np.float32(0.1)


@pytest.mark.parametrize("axes", [[1], [-1, 0], [0, 1, 2], []])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_every_reduction(lowered: Lowered, text: Text, op_type: str, keepdims: int, axes: list[int]) -> None:
    source = text(18, "float[2, 3, 5] x, int64[k] i", f"y = {op_type} <keepdims = {keepdims}> (x, i)")
    feeds = {"x": DATA, "i": np.array(axes, np.int64)}
    for target in (12, 9):
        made = lowered(source, target, feeds=feeds)
        assert made.ops.count(op_type) == 1 + (op_type == "ReduceSum")


@pytest.mark.parametrize("axes", [[-1], []])
@pytest.mark.parametrize("op_type", ["ReduceL2", "ReduceLogSum", "ReduceMean", "ReduceSumSquare"])
def test_no_axes_that_mean_none(lowered: Lowered, text: Text, op_type: str, axes: list[int]) -> None:
    source = text(18, "float[2, 3, 5] x, int64[k] i", f"y = {op_type} <noop_with_empty_axes = 1> (x, i)")
    lowered(source, 11, feeds={"x": DATA - 1 if op_type == "ReduceL2" else DATA, "i": np.array(axes, np.int64)})


def test_a_mean_of_integers_is_rounded_once(lowered: Lowered, text: Text) -> None:
    source = text(18, "int32[2, 3] x, int64[k] i", "y = ReduceMean (x, i)", outputs="int32[] y")
    data = np.array([[1, 2, 2], [2, 2, 2]], np.int32)
    assert lowered(source, 13, feeds={"x": data, "i": np.array([0, 1])}).results["y"] == 1


@pytest.mark.parametrize("keepdims", [0, 1])
def test_open_sizes_may_be_zero(lowered: Lowered, text: Text, keepdims: int) -> None:
    source = text(18, "float[n, 3] x, int64[k] i", f"y = ReduceSumSquare <keepdims = {keepdims}> (x, i)")
    for rows in (4, 0):
        for target in (14, 13, 9):
            lowered(source, target, feeds={"x": np.ones((rows, 3), np.float32), "i": np.array([1])})


def test_below_where(lowered: Lowered, text: Text) -> None:
    source = text(18, "float[2, 3] x, int64[1] i", "y = ReduceMax (x, i)")
    with pytest.raises(ConversionBlocked, match=r"its axes \('i'\) is not constant; needs Less: version 7 does not"):
        lowered(source, 8, feeds={"i": np.array([1])})


@pytest.mark.parametrize("axes", [[1], [-1, 1], [3, 0], [-4]])
@pytest.mark.parametrize("target", [12, 10, 9])
def test_computed_axes_are_inserted(lowered: Lowered, text: Text, axes: list[int], target: int) -> None:
    source = text(13, f"float[3, 2, 5] x, int64[{len(axes)}] a", "y = Unsqueeze (x, a)")
    lowered(source, target, feeds={"a": np.array(axes)})


@pytest.mark.parametrize("axes", [[1], [-1, 1], [-3]])
@pytest.mark.parametrize("target", [12, 10, 9])
def test_computed_axes_are_removed(lowered: Lowered, text: Text, axes: list[int], target: int) -> None:
    source = text(13, "float[3, 1, 5, 1] x, int64[k] a", "y = Squeeze (x, a)")
    lowered(source, target, feeds={"a": np.array(axes)})


@pytest.mark.parametrize(
    ("inputs", "node", "target", "why"),
    [
        ("float[2, 1] x, int64[1] a", "Squeeze (x, a)", 8, "is not constant; needs Less: version 7 does not take"),
        ("float[2, 3] x, int64[k] a", "Unsqueeze (x, a)", 12, "an unknown number of axes"),
    ],
)
def test_axes_that_stay_unknown(lowered: Lowered, text: Text, inputs: str, node: str, target: int, why: str) -> None:
    with pytest.raises(ConversionBlocked, match=why):
        lowered(text(13, inputs, f"y = {node}"), target, feeds={"a": np.array([1])})


@pytest.mark.parametrize("target", [13, 12, 9])
@pytest.mark.parametrize("columns", [3, 0])
def test_computed_axes_of_what_may_have_no_elements(lowered: Lowered, text: Text, target: int, columns: int) -> None:
    source = text(13, "float[2, n] x, int64[1] a", "y = Unsqueeze (x, a)", outputs="float[a, b, c] y")
    lowered(source, target, feeds={"x": np.ones((2, columns), np.float32), "a": np.array([1])})
