"""Legacy operators with drawn shapes and attributes: whatever is legal computes the same afterwards."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

Converted = Callable[..., Any]
FLOAT = onnx.TensorProto.FLOAT
TARGETS = st.sampled_from([7, 9, 11, 13, 15, 18, 22, 28])
SHAPES = st.lists(st.integers(1, 4), min_size=2, max_size=5)
drawn = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    # The fixture only lends a folder whose one file is written anew by every example.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def symbolic(draw: st.DrawFn, shape: list[int], *, static: int = 99) -> list[int | str]:
    """The shape with some dims named instead of known; drawn sizes must not matter to the operator there."""
    return [f"d{axis}" if axis != static and draw(st.booleans()) else dim for axis, dim in enumerate(shape)]


def one_node(
    node: onnx.NodeProto, opset: int, inputs: dict[str, list[Any]], weights: dict[str, np.ndarray[Any, Any]]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in node.output if name],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@st.composite
def broadcasts(draw: st.DrawFn) -> onnx.ModelProto:
    """Any legal use of ``broadcast`` and ``axis``, the right operand an input or a constant."""
    shape = draw(SHAPES)
    start = draw(st.integers(0, len(shape)))
    stop = draw(st.integers(start, len(shape)))
    right = shape[start:stop]
    explicit = stop < len(shape) or draw(st.booleans())
    attrs: dict[str, Any] = {"axis": start} if explicit else {}
    op_type = draw(st.sampled_from(["Add", "Sub", "Mul", "Div"]))
    node = helper.make_node(op_type, ["a", "b"], ["y"], broadcast=1, **attrs)
    if draw(st.booleans()):
        weight = np.random.default_rng(prod(shape)).uniform(0.5, 2, right).astype(np.float32)
        return one_node(node, draw(st.sampled_from([1, 6])), {"a": shape}, {"b": weight})
    return one_node(node, draw(st.sampled_from([1, 6])), {"a": shape, "b": right}, {})


@drawn
@given(model=broadcasts(), target=TARGETS)
def test_broadcasting(upgraded: Converted, model: onnx.ModelProto, target: int) -> None:
    upgraded(model, target)


@st.composite
def softmaxes(draw: st.DrawFn) -> onnx.ModelProto:
    shape = draw(SHAPES)
    op_type = draw(st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"]))
    node = helper.make_node(op_type, ["x"], ["y"], axis=draw(st.integers(0, len(shape) - 1)))
    return one_node(node, draw(st.sampled_from([1, 11])), {"x": symbolic(draw, shape)}, {})


@drawn
@given(model=softmaxes(), target=st.sampled_from([13, 15, 28]))
def test_softmax(upgraded: Converted, model: onnx.ModelProto, target: int) -> None:
    upgraded(model, target)


@st.composite
def batchnorms(draw: st.DrawFn) -> onnx.ModelProto:
    """Any legal BatchNormalization of any version, both modes, both layouts."""
    opset = draw(st.sampled_from([1, 6, 7, 8, 9, 13, 14, 15]))
    shape = draw(SHAPES)
    spatial = opset > 8 or draw(st.booleans())
    params = [shape[1]] if spatial else shape[1:]
    if not spatial and draw(st.booleans()):
        params = [prod(params)]
    training = draw(st.booleans())
    outputs, attrs = mode_of(draw, opset, training=training)
    if opset < 9:
        attrs["spatial"] = int(spatial)
    generator = np.random.default_rng(prod(shape))
    weights = {name: generator.uniform(0.5, 2, params).astype(np.float32) for name in ("s", "b", "m", "v")}
    attrs |= {"epsilon": draw(st.sampled_from([1e-5, 0.25])), "momentum": draw(st.sampled_from([0.9, 0.25, 0.0]))}
    node = helper.make_node("BatchNormalization", ["x", *weights], outputs, **attrs)
    known = shape if not spatial else [shape[0], shape[1], *symbolic(draw, shape)[2:]]
    return one_node(node, opset, {"x": known}, weights)


def mode_of(draw: st.DrawFn, opset: int, *, training: bool) -> tuple[list[str], dict[str, Any]]:
    """The outputs and attributes that say the mode at ``opset``."""
    if opset >= 14:
        return (["y", "rm", "rv"] if training else ["y"]), ({"training_mode": 1} if training else {})
    attrs = {"is_test": int(not training)} if opset < 7 else {}
    if not training:
        return ["y"], attrs
    named = draw(st.lists(st.booleans(), min_size=4, max_size=4).filter(lambda flags: opset < 7 or any(flags)))
    return ["y", *(name if flag else "" for name, flag in zip(("rm", "rv", "sm", "sv"), named, strict=True))], attrs


@settings(drawn, max_examples=120)
@given(model=batchnorms(), target=st.sampled_from([15, 18, 22, 28]))
def test_batchnorm(upgraded: Converted, model: onnx.ModelProto, target: int) -> None:
    upgraded(model, target)


@st.composite
def reductions(draw: st.DrawFn) -> onnx.ModelProto:
    shape = draw(SHAPES)
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    attrs: dict[str, Any] = {"keepdims": draw(st.integers(0, 1))} | ({"axes": axes} if axes else {})
    what = draw(st.sampled_from(["Mean", "Max", "Min", "Sum", "Prod", "L1", "L2", "SumSquare", "LogSumExp"]))
    node = helper.make_node(f"Reduce{what}", ["x"], ["y"], **attrs)
    return one_node(node, draw(st.sampled_from([1, 11])), {"x": symbolic(draw, shape)}, {})


@drawn
@given(model=reductions(), target=TARGETS)
def test_reductions(upgraded: Converted, model: onnx.ModelProto, target: int) -> None:
    if target >= model.opset_import[0].version:
        upgraded(model, target)


@st.composite
def windows(draw: st.DrawFn) -> onnx.ModelProto:
    """Slice-1 and Pad-2: bounds as attributes, negative and beyond the end."""
    shape = draw(SHAPES)
    if draw(st.booleans()):
        pads = draw(st.lists(st.integers(0, 2), min_size=2 * len(shape), max_size=2 * len(shape)))
        node = helper.make_node("Pad", ["x"], ["y"], pads=pads, value=draw(st.sampled_from([0.0, -1.5])))
        return one_node(node, 2, {"x": symbolic(draw, shape)}, {})
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    starts = [draw(st.integers(-shape[axis], shape[axis] - 1)) for axis in axes]
    ends = [draw(st.integers(-2, 2 * shape[axis])) for axis in axes]
    node = helper.make_node("Slice", ["x"], ["y"], starts=starts, ends=ends, axes=axes)
    return one_node(node, draw(st.sampled_from([1, 9])), {"x": shape}, {})


@drawn
@given(model=windows(), target=st.sampled_from([10, 11, 13, 15, 18, 28]))
def test_windows(upgraded: Converted, model: onnx.ModelProto, target: int) -> None:
    upgraded(model, target)


@pytest.mark.parametrize("seed", range(3))
def test_other_numbers_agree_as_well(upgraded: Converted, seed: int) -> None:
    node = helper.make_node("PRelu", ["x", "s"], ["y"])
    upgraded(one_node(node, 6, {"x": [2, 3, 4], "s": [3]}, {}), seed=seed)
