"""Reshape with allowzero and Shape with bounds, lowered: the same shapes, also of what is empty."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]


def reshaped(text: Text, shape: str, inputs: str, weights: str = "", outputs: str = "float[] y") -> str:
    source = text(14, f"float[{shape}] x{inputs}", "y = Reshape <allowzero = 1> (x, s)", outputs=outputs)
    return source.replace(") { ", f") <{weights}> {{ ", 1) if weights else source


@pytest.mark.parametrize("target", [13, 11, 5])
@pytest.mark.parametrize(
    ("shape", "weights"),
    [
        ("2, 3, 4", "int64[2] s = {6, 4}"),
        ("2, 3, 4", "int64[2] s = {6, -1}"),
        ("n, 3, 4", "int64[2] s = {-1, 12}"),
        ("n, m", "int64[2] s = {5, -1}"),
    ],
)
def test_a_shape_without_zeros(lowered: Converted, text: Text, shape: str, weights: str, target: int) -> None:
    assert lowered(reshaped(text, shape, "", weights), target).ops == ["Reshape"]


def test_an_input_with_elements_has_no_zeros(lowered: Converted, text: Text) -> None:
    source = reshaped(text, "2, 3, 4", ", int64[2] s", outputs="float[a, b] y")
    assert lowered(source, 13, feeds={"s": np.array([4, 6])}).ops == ["Reshape"]


def test_sizes_that_stay_in_place_need_no_question(lowered: Converted, text: Text) -> None:
    source = reshaped(text, "n, m, 4", ", int64[4] s", outputs="float[n, m, 2, 2] y")
    for sizes in ([5, 7, 2, 2], [0, 7, 2, 2], [5, 0, 2, 2], [0, 0, 2, 2]):
        feeds = {"x": np.ones((*sizes[:2], 4), np.float32), "s": np.array(sizes)}
        assert lowered(source, 13, feeds=feeds).ops == ["Reshape"]


@pytest.mark.parametrize("sizes", [[2, 3, 4], [0, 3, 4], [2, 0, 4], [2, 3, 0], [0, 0, 4]])
@pytest.mark.parametrize("target", [13, 9])
def test_an_open_size_asks_whether_there_is_something(
    lowered: Converted, text: Text, sizes: list[int], target: int
) -> None:
    source = reshaped(text, "n, m, k", ", int64[2] s", outputs="float[a, b] y")
    feeds = {"x": np.ones(sizes, np.float32), "s": np.array([sizes[0] * sizes[2], sizes[1]])}
    assert lowered(source, target, feeds=feeds).ops == ["Size", "Equal", "If"]


def test_a_constant_zero_is_inferred_from_nothing(lowered: Converted, text: Text) -> None:
    source = reshaped(text, "n, 3", "", "int64[2] s = {3, 0}")
    outcome = lowered(source, 13, feeds={"x": np.ones((0, 3), np.float32)})
    assert (outcome.ops, outcome.results["y"].shape) == (["Reshape"], (3, 0))
    copied = reshaped(text, "2, 0", "", "int64[2] s = {7, 0}", outputs="float[7, 0] y")
    assert lowered(copied, 13, feeds={"x": np.ones((2, 0), np.float32)}).results["y"].shape == (7, 0)


@pytest.mark.parametrize("target", [13, 10, 8])
@pytest.mark.parametrize("sizes", ["0, 0", "0, 3, 0", "2, 0, 4, 0"])
def test_several_constant_zeros_are_spread_from_one(lowered: Converted, text: Text, sizes: str, target: int) -> None:
    source = reshaped(text, "n", "", f"int64[{sizes.count(',') + 1}] s = {{{sizes}}}")
    outcome = lowered(source, target, feeds={"x": np.ones(0, np.float32)})
    assert outcome.ops == ["Reshape", "Expand"]
    assert str(outcome.results["y"].shape) == f"({sizes})"


def test_a_zero_beside_computed_sizes_is_spread(lowered: Converted, text: Text) -> None:
    body = "i = Shape (x) o = Constant <value_ints = [0]> () s = Concat <axis = 0> (i, o)"
    source = text(15, "float[n, m] x", f"{body} y = Reshape <allowzero = 1> (x, s)", outputs="float[a, b, c] y")
    outcome = lowered(source, 12, feeds={"x": np.ones((5, 0), np.float32)})
    assert outcome.ops.count("If") == 0
    assert outcome.results["y"].shape == (5, 0, 0)


@pytest.mark.parametrize("target", [13, 9])
@pytest.mark.parametrize("declared", ["float y", "float[a, b, c] y"])
def test_a_false_rank_inside_is_dropped(lowered: Converted, text: Text, declared: str, target: int) -> None:
    body = "y = Reshape <allowzero = 1> (x, s) z = Flatten (y)"
    source = text(14, "float[n, m] x, int64[2] s", body, outputs="float[a, b] z")
    source = source.replace(") { ", f") <{declared}> {{ ", 1)
    outcome = lowered(source, target, feeds={"x": np.ones((0, 3), np.float32), "s": np.array([3, 0])})
    assert outcome.ops == ["Size", "Equal", "If", "Flatten"]
    assert not outcome.model.proto.graph.value_info


def test_a_false_rank_of_an_output_is_refused(lowered: Converted, text: Text) -> None:
    source = reshaped(text, "n, m", ", int64[2] s", outputs="float[a, b, c] y")
    with pytest.raises(ConversionBlocked, match="its output 'y' is declared with 3 axes and has 2"):
        lowered(source, 13, feeds={"s": np.array([7, 5])})


def test_sizes_that_may_be_zero_below_opset_9(lowered: Converted, text: Text) -> None:
    source = reshaped(text, "n, m", ", int64[2] s", outputs="float[a, b] y")
    lowered(source, 8, feeds={"s": np.array([7, 5])})
    lowered(source, 8, feeds={"x": np.zeros((0, 5), np.float32), "s": np.array([0, 3])})


@pytest.mark.parametrize("bounds", ["start = 1", "end = -1", "start = -2, end = 2", "start = 0, end = 9", ""])
@pytest.mark.parametrize("target", [14, 12, 9])
def test_shape(lowered: Converted, text: Text, bounds: str, target: int) -> None:
    source = text(15, "float[2, n, 4] x", f"y = Shape {f'<{bounds}>' if bounds else ''} (x)", outputs="int64[k] y")
    assert lowered(source, target).ops[0] == "Shape"


SIZES = "i = Shape <end = 1> (x) j = Shape <start = 1, end = 2> (x)"


@pytest.mark.parametrize("sizes", [(2, 3, 4), (0, 3, 4), (2, 0, 4)])
@pytest.mark.parametrize("target", [13, 9])
def test_one_computed_size_beside_others_is_what_is_left(
    lowered: Converted, text: Text, sizes: tuple[int, ...], target: int
) -> None:
    body = f"{SIZES} k = Mul (i, j) o = Constant <value_ints = [2, 2]> () s = Concat <axis = 0> (k, o)"
    source = text(15, "float[n, m, 4] x", f"{body} y = Reshape <allowzero = 1> (x, s)", outputs="float[a, b, c] y")
    outcome = lowered(source, target, feeds={"x": np.ones(sizes, np.float32)})
    assert outcome.ops == ["Reshape"]
    assert outcome.results["y"].shape == (sizes[0] * sizes[1], 2, 2)


def test_beside_what_is_inferred_there_is_no_zero(lowered: Converted, text: Text) -> None:
    body = f"{SIZES} o = Constant <value_ints = [-1]> () s = Concat <axis = 0> (o, i)"
    source = text(15, "float[n, m, 4] x", f"{body} y = Reshape <allowzero = 1> (x, s)", outputs="float[a, b] y")
    assert lowered(source, 13).ops.count("If") == 0


@pytest.mark.parametrize("parts", ["j, i, o", "k, l, o"])
def test_two_computed_sizes_may_both_be_zero(lowered: Converted, text: Text, parts: str) -> None:
    body = f"{SIZES} k = Mul (i, j) l = Div (i, i) o = Constant <value_ints = [4]> () s = Concat <axis = 0> ({parts})"
    source = text(15, "float[n, m, 4] x", f"{body} y = Reshape <allowzero = 1> (x, s)", outputs="float[a, b, c] y")
    assert lowered(source, 13).ops.count("If") == 1


@pytest.mark.parametrize(("shape", "dims"), [("1, 3", "2, 2, 3"), ("2, 1", "1, 4"), ("", "2")])
def test_expand_to_known_sizes_repeats(
    lowered: Converted, upgraded: Converted, text: Text, shape: str, dims: str
) -> None:
    source = text(
        13, f"float{f'[{shape}]' if shape else ''} x", f"s = Constant <value_ints = [{dims}]> () y = Expand (x, s)"
    )
    assert set(lowered(source, 7).ops) <= {"Constant", "Identity", "Reshape", "Tile"}
    upgraded(source, 6)
    with pytest.raises(ConversionBlocked, match="needs Tile: has another form before opset 6"):
        upgraded(source, 5, compare=False)


def test_expand_of_open_sizes_needs_opset_8(upgraded: Converted, text: Text) -> None:
    source = text(13, "float[n, 1] x", "s = Constant <value_ints = [1, 4]> () y = Expand (x, s)")
    with pytest.raises(ConversionBlocked, match="has an input of open sizes, or none"):
        upgraded(source, 7, compare=False)


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_operands_of_known_sizes_are_repeated(lowered: Converted, text: Text, op_type: str) -> None:
    source = text(13, "float[2, 1, 3] x, float[4, 1] z", f"y = {op_type} (x, z, x)")
    assert "Tile" in lowered(source, 7).ops


@pytest.mark.parametrize("op_type", ["Max", "Sum"])
def test_operands_of_open_sizes_need_opset_8(upgraded: Converted, text: Text, op_type: str) -> None:
    with pytest.raises(ConversionBlocked, match="demands inputs of one shape, which these are not known to have"):
        upgraded(text(13, "float[n, 3] x, float[3] z", f"y = {op_type} (x, z)"), 7, compare=False)
