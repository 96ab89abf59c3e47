from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from bnfold import ir, reference
from bnfold.converting import convert as upgrade
from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
COERCED = [
    (shape, axis)
    for shape in ("4, 5", "4, 5, 1, 1", "2, 3, 4, 5", "n, c, h, w", "3, 1, 5", "1, 1, 1", "7")
    for axis in (None, 0, 1, 2, 3)
    if (1 if axis is None else axis) <= shape.count(",")
]


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(("shape", "axis"), COERCED)
@pytest.mark.parametrize("opset", [1, 11])
def test_coerced_axes(upgraded: Converted, text: Text, op_type: str, shape: str, axis: int | None, opset: int) -> None:
    attrs = "" if axis is None else f"<axis = {axis}>"
    upgraded(text(opset, f"float[{shape}] x", f"y = {op_type} {attrs} (x)"))


@pytest.mark.parametrize("axis", [-1, -2, -4])
def test_negative_axes(upgraded: Converted, text: Text, axis: int) -> None:
    upgraded(text(11, "float[2, 3, 4, 5] x", f"y = Softmax <axis = {axis}> (x)"))


def test_one_wide_axis_needs_no_flatten(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(11, "float[n, 10, 1, 1] x", "y = Softmax (x)"))
    assert outcome.ops == ["Softmax"]
    assert outcome.model.graph.nodes[0].attr("axis") == 1


def test_static_shapes_need_no_shape_node(upgraded: Converted, text: Text) -> None:
    static = upgraded(text(11, "float[n, 3, 4] x", "y = Softmax (x)"))
    assert static.ops == ["Flatten", "Softmax", "Reshape"]
    symbolic = upgraded(text(11, "float[n, c, 4] x", "y = Softmax (x)"))
    assert symbolic.ops == ["Flatten", "Shape", "Softmax", "Reshape"]


@pytest.mark.parametrize("axis", [-1, -2])
def test_the_last_axis_is_the_last_of_any_rank(axis: int) -> None:
    proto = onnx.parser.parse_model(
        f"""<ir_version: 7, opset_import: ["" : 11]> g (float[N, M] x, int64[R] t) => (float y) {{
            r = Reshape (x, t)  y = Softmax <axis = {axis}> (r)
        }}"""
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    model = ir.load(proto.SerializeToString())
    upgrade(model, 13)
    ops = [node.op_type for node in model.graph.nodes]
    assert (ops == ["Reshape", "Softmax"]) == (axis == -1)


def test_below_13_nothing_changes(upgraded: Converted, text: Text) -> None:
    assert upgraded(text(1, "float[2, 3, 4] x", "y = Softmax (x)"), 12).ops == ["Softmax"]


@pytest.mark.parametrize("target", [13, 15, 21])
@pytest.mark.parametrize("dims", [(2, 3, 0), (2, 0, 4), (0, 3, 4)])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
def test_sizes_of_zero_stay_what_they_are(
    upgraded: Converted, text: Text, op_type: str, axis: int, dims: tuple[int, ...], target: int
) -> None:
    for shape in ("a, b, c", ", ".join(map(str, dims))):
        source = text(11, f"float[{shape}] x", f"y = {op_type} <axis = {axis}> (x)", ir=6)
        model = upgraded(source, target, compare=False).model
        feeds = {"x": np.ones(dims, np.float32)}
        assert reference.evaluate(model, feeds)["y"].shape == dims
        session = onnxruntime.InferenceSession(ir.encode(model))
        assert session.run(None, feeds)[0].shape == dims


def test_opset_13_asks_whether_anything_is_there(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(11, "float[n, c, 4] x", "y = Softmax (x)"), 13)
    assert "If" in outcome.ops


@pytest.mark.parametrize("target", [13, 21])
@pytest.mark.parametrize("shape", ["0, 3, 4", "0, 3, 0"])
def test_a_declared_size_of_zero_may_be_an_unknown_one(
    upgraded: Converted, text: Text, shape: str, target: int
) -> None:
    source = text(11, f"float[{shape}] x", "y = Softmax (x)", ir=6)
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 4))}
    expected = reference.evaluate(ir.load(onnx.parser.parse_model(source)), feeds)
    found = reference.evaluate(upgraded(source, target, compare=False).model, feeds)
    np.testing.assert_allclose(found["y"], expected["y"])


ODD = [
    'kernel_shape = [2, 2], dilations = [3, 3], auto_pad = "SAME_LOWER"',
    "kernel_shape = [2, 2], strides = [5, 5], pads = [0, 0, 1, 1], ceil_mode = 1",
    'kernel_shape = [2, 2], auto_pad = "SAME_UPPER", pads = [0, 0, 0, 0]',
]


def behind_a_pool(text: Text, attributes: str, batch: str) -> ir.Model:
    return ir.load(
        onnx.parser.parse_model(
            text(11, f"float[{batch}, 3, 9, 9] x", f"p = MaxPool <{attributes}> (x) r = Relu (p) y = Hardmax (r)", ir=6)
        )
    )


@pytest.mark.parametrize("attributes", ODD)
@pytest.mark.parametrize("is_annotated", [False, True])
def test_sizes_that_inference_tells_and_runtimes_do_not_make(text: Text, attributes: str, is_annotated: bool) -> None:
    """What they infer stands for a Shape in onnxruntime: whatever is reshaped to it does not run."""
    model = behind_a_pool(text, attributes, "2")
    if is_annotated:
        model = ir.load(onnx.shape_inference.infer_shapes(model.proto))
    with pytest.raises(ConversionBlocked, match=r"Hardmax \('y'\): runtimes infer other sizes of 'r' than they make"):
        upgrade(model, 13)


@pytest.mark.parametrize("attributes", ODD)
@pytest.mark.parametrize("is_annotated", [False, True])
@pytest.mark.parametrize("target", [13, 21])
def test_where_nothing_is_inferred_the_value_tells_its_shape(
    text: Text, attributes: str, is_annotated: bool, target: int
) -> None:
    model = behind_a_pool(text, attributes, "n")
    if is_annotated:
        model = ir.load(onnx.shape_inference.infer_shapes(model.proto))
    before = onnxruntime.InferenceSession(ir.encode(model))
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3, 9, 9)).astype(np.float32)}
    upgrade(model, target)
    after = onnxruntime.InferenceSession(ir.encode(model))
    np.testing.assert_array_equal(after.run(None, feeds)[0], before.run(None, feeds)[0])


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("shape", ["2, 3, 4", "n, 3, m", "2, 3, 1", "n, 1, 1"])
@pytest.mark.parametrize("target", [12, 11, 9])
def test_down_to_coerced_axes(
    lowered: Converted, text: Text, op_type: str, axis: int | None, shape: str, target: int
) -> None:
    attrs = "" if axis is None else f"<axis = {axis}>"
    ops = lowered(text(13, f"float[{shape}] x", f"y = {op_type} {attrs} (x)"), target).ops
    assert ops in ([op_type], ["Transpose", op_type, "Transpose"])


def test_down_along_the_last_axis_needs_no_rank(lowered: Converted, text: Text) -> None:
    source = text(13, "float[2, 3] x, int64[k] r", "p = Reshape (x, r) y = Softmax (p)", outputs="float[a, b] y")
    feeds = {"r": np.array([3, 2])}
    assert lowered(source, 11, feeds=feeds).ops == ["Reshape", "Softmax"]
    with pytest.raises(ConversionBlocked, match="and the rank is not known"):
        lowered(source, 10, feeds=feeds)


def test_down_with_an_axis_that_is_not_there(text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="has axis 4, over an input of rank 2"):
        upgrade(ir.load(onnx.parser.parse_model(text(13, "float[2, 3] x", "y = Softmax <axis = 4> (x)"))), 12)


@pytest.mark.parametrize(("op_type", "only"), [("Softmax", 1), ("LogSoftmax", 0), ("Hardmax", 1)])
@pytest.mark.parametrize(("shape", "attrs"), [("7", ""), ("2, 3", "<axis = 2>"), ("n", ""), ("n, m", "<axis = 2>")])
@pytest.mark.parametrize("target", [11, 12, 13])
def test_an_axis_behind_the_last_makes_rows_of_one_number(
    upgraded: Converted, text: Text, op_type: str, only: int, shape: str, attrs: str, target: int
) -> None:
    outcome = upgraded(text(10, f"float[{shape}] x", f"y = {op_type} {attrs} (x)"), target)
    assert "Flatten" in outcome.ops
    assert np.array_equal(next(iter(outcome.results.values())), np.full_like(next(iter(outcome.feeds.values())), only))
