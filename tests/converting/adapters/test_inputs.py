from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize("what", REDUCTIONS)
@pytest.mark.parametrize("attrs", ["", "axes = [1]", "axes = [2, 0]", "axes = [1], keepdims = 0", "keepdims = 0"])
@pytest.mark.parametrize("target", [15, 18, 28])
def test_reductions(upgraded: Converted, text: Text, what: str, attrs: str, target: int) -> None:
    body = f"p = Abs (x) y = Reduce{what} <{attrs}> (p)" if attrs else f"p = Abs (x) y = Reduce{what} (p)"
    upgraded(text(6, "float[2, 3, 4] x", body), target)


@pytest.mark.parametrize(("op_type", "axes"), [("Squeeze", "[1, 3]"), ("Squeeze", ""), ("Unsqueeze", "[0, 3]")])
@pytest.mark.parametrize("opset", [1, 11])
def test_axes(upgraded: Converted, text: Text, op_type: str, axes: str, opset: int) -> None:
    attrs = f"<axes = {axes}>" if axes else ""
    upgraded(text(opset, "float[3, 1, 5, 1] x", f"y = {op_type} {attrs} (x)"))


def test_equal_constants_are_stored_once(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(9, "float[3, 5] x", "p = Unsqueeze <axes = [0]> (x) y = Unsqueeze <axes = [0]> (p)"))
    assert sum(value.is_initializer for value in outcome.model.graph.values.values()) == 1


@pytest.mark.parametrize(
    ("opset", "target", "attrs"),
    [
        (opset, target, attrs)
        for opset, target in ((1, 15), (2, 15), (11, 15), (13, 18), (2, 28))
        for attrs in ("axis = 1", "axis = 1, split = [2, 4]", "axis = 0", "axis = 0, split = [1, 3]", "split = [3, 1]")
        if opset < 13 or "split" not in attrs  # an input from 13 on
    ],
)
def test_split(upgraded: Converted, text: Text, attrs: str, opset: int, target: int) -> None:
    call = f"y, z = Split <{attrs}> (x)"
    upgraded(text(opset, "float[4, 6] x", call, outputs="float[] y, float[] z"), target)


def test_split_lengths_as_an_input_of_version_1(upgraded: Converted, text: Text) -> None:
    body = "<float[2] s = {1, 3}> { y, z = Split <axis = 0> (x, s) }"
    head = text(1, "float[4, 6] x", "", outputs="float[] y, float[] z").removesuffix("{  }")
    upgraded(head + body)


def test_split_lengths_that_are_computed_are_an_error(upgraded: Converted, text: Text) -> None:
    body = "y, z = Split <axis = 0> (x, s)"
    with pytest.raises(ConversionBlocked, match=r"its split lengths .* is not constant"):
        upgraded(text(1, "float[4, 6] x, float[2] s", body, outputs="float[] y, float[] z"))


@pytest.mark.parametrize(
    "attrs",
    [
        "starts = [1], ends = [3]",
        "starts = [0, 1], ends = [-1, 1000]",
        "starts = [-3, 0], ends = [9223372036854775807, 2], axes = [2, 0]",
    ],
)
@pytest.mark.parametrize("target", [9, 15])
def test_slice(upgraded: Converted, text: Text, attrs: str, target: int) -> None:
    upgraded(text(1, "float[4, 5, 6] x", f"y = Slice <{attrs}> (x)"), target)


@pytest.mark.parametrize("target", [10, 15])
def test_top_k(upgraded: Converted, text: Text, target: int) -> None:
    call = "y, i = TopK <k = 2, axis = 1> (x)"
    upgraded(text(1, "float[3, 5] x", call, outputs="float[] y, int64[] i"), target)


@pytest.mark.parametrize("shape", ["[6, 2]", "[0, -1]", "[-1]"])
@pytest.mark.parametrize("target", [5, 15, 28])
def test_reshape(upgraded: Converted, text: Text, shape: str, target: int) -> None:
    upgraded(text(1, "float[3, 4] x", f"y = Reshape <shape = {shape}> (x)"), target)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("value", ["", ", value = 1.5"])
@pytest.mark.parametrize(("opset", "name"), [(1, "paddings"), (2, "pads")])
def test_pad(upgraded: Converted, text: Text, opset: int, name: str, mode: str, value: str) -> None:
    call = f'y = Pad <{name} = [0, 1, 1, 0, 2, 1], mode = "{mode}"{value}> (x)'
    upgraded(text(opset, "float[2, 3, 4] x", call))


def test_a_pad_value_has_the_datas_type(upgraded: Converted, text: Text) -> None:
    call = "p = Abs (x) y = Pad <pads = [1, 1], value = 2.5> (p)"
    outcome = upgraded(text(9, "double[4] x", call, outputs="double[] y"))
    assert outcome.model.graph.nodes[1].inputs[2].dtype == 11


@pytest.mark.parametrize("attrs", ["", "<min = -0.5>", "<max = 0.25>", "<min = -0.5, max = 0.25>"])
@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_clip(upgraded: Converted, text: Text, attrs: str, opset: int, kind: str) -> None:
    upgraded(text(opset, f"{kind}[3, 5] x", f"y = Clip {attrs} (x)", outputs=f"{kind}[] y"))


def test_clip_6_cut_doubles_at_the_largest_float(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(6, "double[3] x", "y = Clip (x)", outputs="double[] y"))
    bounds = [outcome.model.graph.nodes[0].inputs[index].tensor.numpy() for index in (1, 2)]
    assert [float(bound) for bound in bounds] == [-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)]


@pytest.mark.parametrize("axis", [0, 2])
def test_tile(upgraded: Converted, text: Text, axis: int) -> None:
    head = text(1, "float[2, 3, 4] x", "").removesuffix("{  }")
    upgraded(f"{head} <float[1] n = {{3}}, float[1] a = {{{axis}}}> {{ y = Tile (x, n, a) }}")


def test_tile_of_a_computed_count_is_an_error(upgraded: Converted, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match=r"tiles .* is not constant"):
        upgraded(text(1, "float[2, 3] x, float[1] n, float[1] a", "y = Tile (x, n, a)"))


@pytest.mark.parametrize("attrs", ["", "<axis = 0>"])
def test_concat(upgraded: Converted, text: Text, attrs: str) -> None:
    upgraded(text(1, "float[3, 3] a, float[3, 3] b", f"y = Concat {attrs} (a, b)"))


@pytest.mark.parametrize("attrs", ["", "axis = 2"])
def test_dft_axis_moves_to_an_input(upgraded: Converted, text: Text, attrs: str) -> None:
    call = f"y = DFT <{attrs}> (x)" if attrs else "y = DFT (x)"
    outcome = upgraded(text(17, "float[2, 5, 7, 1] x", call), 20, compare=False)
    node = outcome.model.graph.nodes[0]
    assert node.inputs[1] is None
    assert node.inputs[2].tensor.numpy() == (2 if attrs else 1)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("y = Slice (x)", "no starts or no ends"),
        ("y = Reshape (x)", "no shape"),
        ("y = Unsqueeze (x)", "no axes"),
        ("y = Pad (x)", "no paddings"),
    ],
)
def test_what_is_missing_is_named(upgraded: Converted, text: Text, call: str, reason: str) -> None:
    with pytest.raises(ConversionBlocked, match=reason):
        upgraded(text(1, "float[2, 3] x", call))


@pytest.mark.parametrize(
    ("opset", "inputs", "call"),
    [
        (6, "float[2, 3] x, float lo, float hi", "Clip (x, lo, hi)"),
        (1, "float[2, 3] x, float lo, float hi", "Clip (x, lo, hi)"),
        (9, "float[2, 3] x, int64[1] a", "Unsqueeze (x, a)"),
        (2, "float[2, 3] x, int64[2] p, int64[2] q", "Slice (x, p, q)"),
        (4, "float[2, 3] x, int64[2] p", "Reshape (x, p)"),
        (9, "float[2, 3] x, int64[4] p", "Pad (x, p)"),
        (9, "float[2, 3] x, int64[1] p", "TopK (x, p)"),
        (10, "float[1, 1, 2, 3] x, float[0] r, float[4] s", "Resize (x, r, s)"),
    ],
)
def test_the_later_form_at_an_earlier_opset_is_left_alone(
    upgraded: Converted, text: Text, opset: int, inputs: str, call: str
) -> None:
    outcome = upgraded(text(opset, inputs, f"y = {call}"), compare=False)
    (node,) = outcome.model.graph.nodes
    assert [value.name for value in node.inputs] == call.split("(")[1].strip(")").split(", ")
