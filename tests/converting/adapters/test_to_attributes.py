"""Steps down from inputs to attributes: the same numbers in onnxruntime, or a reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

INPUTS = {("Sum", 17), ("Sum", 13)}
"""What has its axes as an input there."""


def constants(text: str, weights: str) -> str:
    """Put initializers into a model's text."""
    return text.replace(") { ", f") <{weights}> {{ ", 1)


@pytest.mark.parametrize("what", REDUCTIONS)
@pytest.mark.parametrize("axes", ["", "{-1}", "{0, -2}", "{2, 1}"])
@pytest.mark.parametrize(("shape", "target"), [("2, 3, 4", 17), ("2, n, 4", 13), ("2, 3, 4", 11), ("2, 3, 4", 9)])
def test_reduced_axes(lowered: Converted, text: Text, what: str, axes: str, shape: str, target: int) -> None:
    body = f"p = Abs (x) y = Reduce{what} <keepdims = {target % 4 // 2}> (p{', a' if axes else ''})"
    source = text(18, f"float[{shape}] x", body)
    if axes:
        source = constants(source, f"int64[{axes.count(',') + 1}] a = {axes}")
    outcome = lowered(source, target)
    assert outcome.ops == ["Abs", f"Reduce{what}"]
    assert ("a" in outcome.model.graph.values) == (bool(axes) and (what, target) in INPUTS)


@pytest.mark.parametrize("what", REDUCTIONS)
@pytest.mark.parametrize("target", [17, 12, 7])
@pytest.mark.parametrize("empty", [False, True])
def test_no_axes_reduce_nothing_if_so_said(
    lowered: Converted, text: Text, what: str, target: int, *, empty: bool
) -> None:
    body = f"y = Reduce{what} <noop_with_empty_axes = 1> (x{', a' if empty else ''})"
    source = text(18, "float[2, 3, 4] x", body)
    outcome = lowered(constants(source, "int64[0] a = {}") if empty else source, target)
    assert len(outcome.ops) == 1
    assert outcome.ops[0] in ("Identity", "Abs", "Log", "Mul", *["ReduceSum"] * ((what, target) in INPUTS))


@pytest.mark.parametrize("kind", ["int32", "int64", "double", "float16"])
@pytest.mark.parametrize("what", ["Max", "Mean", "Sum"])
def test_reductions_of_other_types(lowered: Converted, text: Text, kind: str, what: str) -> None:
    if (kind, what) == ("int64", "Mean"):
        pytest.skip("onnxruntime has no kernel")
    source = text(18, f"{kind}[2, 3, 4] x", f"y = Reduce{what} (x, a)", outputs=f"{kind}[] y")
    lowered(constants(source, "int64[1] a = {1}"), 12)


@pytest.mark.parametrize("node", ["Squeeze (x, a)", "Unsqueeze (x, a)"])
def test_axes_that_a_caller_gives_need_opset_9(lowered: Converted, text: Text, node: str) -> None:
    with pytest.raises(
        ConversionBlocked, match=rf"{node.split(maxsplit=1)[0]} \('y'\): its axes \('a'\) is not constant"
    ):
        lowered(text(18, "float[1, 3] x, int64[1] a", f"y = {node}"), 8)


@pytest.mark.parametrize("target", [12, 11, 9])
@pytest.mark.parametrize(
    ("node", "weights"),
    [
        ("Squeeze (x, a)", "int64[2] a = {-2, 0}"),
        ("Squeeze (x, a)", "int64[1] a = {2}"),
        ("Squeeze (x, a)", "int64[2] a = {2, 0}"),
        ("Squeeze (x)", ""),
        ("Unsqueeze (x, a)", "int64[2] a = {-1, 1}"),
        ("Unsqueeze (x, a)", "int64[1] a = {0}"),
    ],
)
def test_squeeze(lowered: Converted, text: Text, node: str, weights: str, target: int) -> None:
    source = text(13, "float[1, 3, 1, 4] x", f"y = {node}")
    lowered(constants(source, weights) if weights else source, target)


def test_axes_from_a_constant_node_that_others_read_stay(lowered: Converted, text: Text) -> None:
    body = "a = Constant <value_ints = [1]> () y = Squeeze (x, a) z = Identity (a)"
    outcome = lowered(text(13, "float[2, 1, 3] x", body, outputs="float[] y, int64[1] z"), 11)
    np.testing.assert_array_equal(outcome.results["z"], [1])


@pytest.mark.parametrize("target", [17, 13, 12, 9])
@pytest.mark.parametrize(
    ("node", "weights"),
    [
        ("<num_outputs = 3, axis = 1>", ""),
        ("<num_outputs = 3, axis = -1>", ""),
        ("<num_outputs = 3, axis = 2>", ""),
        ("<axis = 1>", "int64[3] l = {1, 2, 3}"),
    ],
)
def test_split(lowered: Converted, text: Text, node: str, weights: str, target: int) -> None:
    body = f"p, q, y = Split {node} (x{', l' if weights else ''})"
    source = text(18, "float[2, 6, 8] x", body, outputs="float[] p, float[] q, float[] y")
    outcome = lowered(constants(source, weights) if weights else source, target)
    assert outcome.ops == ["Split"]


def test_split_of_what_is_not_known(lowered: Converted, text: Text) -> None:
    outputs, feeds = "float[] p, float[] y", {"l": np.array([2, 3])}
    with pytest.raises(ConversionBlocked, match=r"its split \('l'\) is not constant"):
        lowered(
            text(13, "float[2, n] x, int64[2] l", "p, y = Split <axis = 1> (x, l)", outputs=outputs), 8, feeds=feeds
        )


@pytest.mark.parametrize("bounds", ["l, h", "l", ", h", ""])
def test_clip(lowered: Converted, text: Text, bounds: str) -> None:
    source = constants(text(13, "float[2, 3] x", f"y = Clip (x, {bounds})"), "float l = {-0.5}, float h = {0.25}")
    source = source.replace("(x, )", "(x)")
    feeds = {"x": np.array([[np.inf, -np.inf, 3e38], [0.1, -3, 3]], np.float32)}
    assert lowered(source, 10, feeds=feeds).ops == ["Clip"]


@pytest.mark.parametrize(
    ("inputs", "weights"),
    [
        ("float[3] x, float l", ""),  # a caller gives it
        ("double[3] x", "double l = {0.1}"),  # no float32
        ("double[3] x", "double l = {0.5}"),  # the other bound is left to the type
    ],
)
def test_clip_to_what_no_attribute_says(upgraded: Converted, text: Text, inputs: str, weights: str) -> None:
    source = text(13, inputs, "y = Clip (x, l)", outputs=f"{inputs.split('[', maxsplit=1)[0]}[] y")
    assert upgraded(constants(source, weights) if weights else source, 7).ops[-1] == "Min"


@pytest.mark.parametrize("target", [10, 9, 8])
@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("bounds", ["l, h", "l", ", h", "h, l"])
def test_clip_between_computed_bounds(lowered: Converted, text: Text, bounds: str, dtype: str, target: int) -> None:
    kind = np.float32 if dtype == "float" else np.float64
    source = text(13, f"{dtype}[4] x, {dtype} l, {dtype} h", f"y = Clip (x, {bounds})", outputs=f"{dtype}[4] y")
    feeds = {"x": np.array([np.inf, -np.inf, 0.1, -3]), "l": np.array(-0.1), "h": np.array(0.3)}
    lowered(source, target, feeds={name: value.astype(kind) for name, value in feeds.items()})


@pytest.mark.parametrize("target", [17, 13, 10, 9])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(lowered: Converted, text: Text, mode: str, target: int) -> None:
    source = text(18, "float[2, 3, 4] x", f'y = Pad <mode = "{mode}"> (x, p, v, a)')
    lowered(constants(source, "int64[4] p = {1, 2, 1, 0}, float v = {1.5}, int64[2] a = {-1, 1}"), target)


def test_pads_that_are_computed(lowered: Converted, text: Text) -> None:
    source = text(11, "float[2, 3, 4] x, int64[6] p", "y = Pad (x, p)")
    with pytest.raises(ConversionBlocked, match=r"its pads \('p'\) is not constant"):
        lowered(source, 10)


@pytest.mark.parametrize("node", ["Dropout (x)", "Dropout (x, r)", "Dropout (x, r, t)", "Dropout <seed = 3> (x)"])
def test_dropout(lowered: Converted, text: Text, node: str) -> None:
    source = constants(text(13, "float[2, 3] x", f"y = {node}"), "float r = {0.25}, bool t = {0}")
    assert lowered(source, 11).ops == ["Dropout"]


def test_dropout_in_training(lowered: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="may drop at random"):
        lowered(text(13, "float[2, 3] x, bool t", "y = Dropout (x, , t)"), 11)


@pytest.mark.parametrize("weights", ["int64[2] a = {1, -1}, int64[2] s = {1, 1}", "int64[2] a = {0, 2}"])
def test_slice(lowered: Converted, text: Text, weights: str) -> None:
    rest = "a, s" if "s =" in weights else "a"
    source = text(13, "float[3, 4, 5] x", f"y = Slice (x, b, e, {rest})")
    weights = f"int64[2] b = {{1, -3}}, int64[2] e = {{9, -1}}, {weights}"
    assert lowered(constants(source, weights), 9).ops == ["Slice"]


def test_top_k(lowered: Converted, text: Text) -> None:
    source = text(11, "float[3, 9] x", "y, i = TopK <axis = 1> (x, k)", outputs="float[] y, int64[] i")
    assert lowered(constants(source, "int64[1] k = {4}"), 9).ops == ["TopK"]
    with pytest.raises(ConversionBlocked, match="largest is newer"):
        lowered(constants(source.replace("axis = 1", "axis = 1, largest = 0"), "int64[1] k = {4}"), 9)


def test_dropout_with_a_mask(lowered: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="has a mask"):
        lowered(text(13, "float[2, 3] x", "y, m = Dropout (x)", outputs="float[] y, bool[] m"), 11)
    assert lowered(text(13, "float[2, 3] x", "y, m = Dropout (x)"), 11).ops == ["Dropout"]


@pytest.mark.parametrize("value", ["value_int = 3", "value_ints = [1, 2]", "value_floats = [0.5]", "value_float = 2.5"])
def test_constants(lowered: Converted, text: Text, value: str) -> None:
    kind = "int64" if "int" in value else "float"
    source = text(12, "float[2] x", f"z = Abs (x) y = Constant <{value}> ()", outputs=f"float[2] z, {kind}[] y")
    assert "Constant" in lowered(source, 11).ops


def test_a_product_without_a_bias(lowered: Converted, text: Text) -> None:
    lowered(text(13, "float[2, 3] x, float[3, 4] w", "y = Gemm (x, w)"), 9)


@pytest.mark.parametrize("target", [9, 7])
def test_dropout_without_a_mask(lowered: Converted, text: Text, target: int) -> None:
    lowered(text(13, "float[2, 3] x", "y = Dropout (x)"), target)
