"""Normalizations in primitive operators: the same numbers in onnxruntime, centred before they are squared."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]
PLAIN = ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]


@pytest.mark.parametrize("axis", [-1, 1, -2, 0])
@pytest.mark.parametrize("shape", ["2, 3, 4", "n, 3, 4"])
@pytest.mark.parametrize("target", [16, 13, 11, 9, 7])
@pytest.mark.parametrize("bias", [False, True])
def test_layer(lowered: Converted, text: Text, axis: int, shape: str, target: int, *, bias: bool) -> None:
    dims = "2, 3, 4" if axis == 0 else ("3, 4" if axis in (1, -2) else "4")
    body = f"y = LayerNormalization <axis = {axis}, epsilon = 0.25> (x, s{', b' if bias else ''})"
    source = text(17, f"float[{'2, 3, 4' if axis == 0 else shape}] x, float[{dims}] s, float[{dims}] b", body)
    draw = np.random.default_rng(0).normal
    sizes = [int(size) for size in dims.split(", ")]
    feeds = {name: draw(size=sizes).astype(np.float32) for name in "sb"}
    ops = lowered(source, target, feeds=feeds | {"x": draw(size=(2, 3, 4)).astype(np.float32)}).ops
    assert ops == (PLAIN if bias else PLAIN[:-1])


def test_layer_of_an_unknown_rank(lowered: Converted, text: Text) -> None:
    body = "p = Reshape (x, r) y = LayerNormalization (p, s)"
    source = text(17, "float[2, 3, 4] x, int64[k] r, float[4] s", body, outputs="float[a, b, c] y")
    feeds = {"r": np.array([3, 2, 4])}
    lowered(source, 13, feeds=feeds)
    with pytest.raises(ConversionBlocked, match="and the rank is not known"):
        lowered(source, 10, feeds=feeds)


def test_layer_makes_its_other_outputs(lowered: Converted, text: Text) -> None:
    outputs = "float[] y, float[] m, float[] i"
    source = text(17, "float[2, 3, 4] x, float[4] s", "y, m, i = LayerNormalization (x, s)", outputs=outputs)
    assert len(lowered(source, 13).ops) == len(PLAIN)  # no bias, one node for 1/deviation
    unread = text(17, "float[2, 3, 4] x, float[4] s", "y, m, i = LayerNormalization (x, s)")
    assert len(lowered(unread, 13).ops) == len(PLAIN) - 1


@pytest.mark.parametrize("outputs", ["", "m, i"])
@pytest.mark.parametrize("kind", ["double", "float16"])
def test_layer_of_other_types(lowered: Converted, text: Text, kind: str, outputs: str) -> None:
    names = f"y, {outputs}".rstrip(", ")
    more = "".join(f", float[] {name}" for name in outputs.replace(",", "").split())
    if kind == "double" and outputs:
        pytest.skip("onnxruntime makes them of another type than the text says")
    body = f"{names} = LayerNormalization (x, s, s)"
    source = text(17, f"{kind}[2, 3, 4] x, {kind}[4] s", body, outputs=f"{kind}[] y{more}")
    ops = lowered(source, 13).ops
    assert ops.count("Cast") == (2 if kind == "float16" else 0)


def test_layer_of_double_makes_float32_statistics(text: Text) -> None:
    """As the text says of the two outputs; onnxruntime makes them double."""
    body = "y, m, i = LayerNormalization (x, s)"
    source = text(17, "double[2, 4] x, double[4] s", body, outputs="double[2, 4] y, float[2, 1] m, float[2, 1] i")
    model = ir.load(onnx.parser.parse_model(source))
    upgrade(model, 13)
    model.sync()
    onnx.checker.check_model(model.proto, full_check=True)
    data = np.random.default_rng(0).normal(size=(2, 4))
    made = ReferenceEvaluator(model.proto).run(None, {"x": data, "s": np.ones(4)})
    y, mean, inverse = (np.asarray(each) for each in made)
    assert [str(each.dtype) for each in (y, mean, inverse)] == ["float64", "float32", "float32"]
    np.testing.assert_allclose(mean, data.mean(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(data.var(1, keepdims=True) + 1e-5), rtol=1e-6)
    np.testing.assert_allclose(y, (data - data.mean(1, keepdims=True)) * inverse, rtol=1e-6)


@pytest.mark.parametrize("target", [16, 11])
def test_large_means_do_not_cancel(text: Text, target: int) -> None:
    source = text(17, "float[4, 64] x, float[64] s", "y = LayerNormalization (x, s)", outputs="float[4, 64] y")
    model = ir.load(onnx.parser.parse_model(source))
    upgrade(model, target)
    model.sync()
    data = (1e4 + np.random.default_rng(0).normal(size=(4, 64))).astype(np.float32)
    (y,) = map(np.asarray, ReferenceEvaluator(model.proto).run(None, {"x": data, "s": np.ones(64, np.float32)}))
    exact = data.astype(np.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, exact, atol=2e-3)  # of the mean's last digit, 1e-3 of what is left


@pytest.mark.parametrize("node", ["LayerNormalization <stash_type = 16>", "LayerNormalization <axis = 5>"])
def test_layers_that_are_refused(text: Text, node: str) -> None:
    source = text(17, "float[2, 3] x, float[3] s", f"y = {node} (x, s)")
    with pytest.raises(ConversionBlocked, match=r"has stash_type=16|has axis 5"):
        upgrade(ir.load(onnx.parser.parse_model(source)), 16)


def test_layer_states_how_it_broadcasts(upgraded: Converted, text: Text) -> None:
    upgraded(text(17, "float[2, 3] x, float[3] s", "y = LayerNormalization (x, s)"), 6)


@pytest.mark.parametrize("axis", ["", "<axis = 1, epsilon = 0.5>", "<axis = -1>"])
@pytest.mark.parametrize("kind", ["float", "float16"])
@pytest.mark.parametrize("target", [22, 17, 11, 7])
def test_rms(lowered: Converted, text: Text, axis: str, kind: str, target: int) -> None:
    source = text(23, f"{kind}[2, 3, 4] x, {kind}[4] s", f"y = RMSNormalization {axis} (x, s)", outputs=f"{kind}[] y")
    assert len(lowered(source, target).ops) == (8 if kind == "float16" else 6)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", ["2, 6, 4", "n, 6, 4, 3", "n, 6, h, w"])
@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("target", [17, 11, 9])
def test_group(lowered: Converted, text: Text, groups: int, shape: str, opset: int, target: int) -> None:
    size = groups if opset == 18 else 6
    inputs = f"float[{shape}] x, float[{size}] s, float[{size}] b"
    body = f"y = GroupNormalization <num_groups = {groups}, epsilon = 0.25> (x, s, b)"
    ops = lowered(text(opset, inputs, body), target).ops
    assert ("Shape" in ops) == ("h, w" in shape)


@pytest.mark.parametrize("shape", ["2, c, 4", "2, 6"])
def test_groups_of_unknown_channels(text: Text, shape: str) -> None:
    source = text(21, f"float[{shape}] x, float[6] s", "y = GroupNormalization <num_groups = 2> (x, s, s)")
    with pytest.raises(ConversionBlocked, match="unknown channels, or less than three axes"):
        upgrade(ir.load(onnx.parser.parse_model(source)), 17)


def test_the_epsilon_that_is_left_out_is_a_float32(text: Text) -> None:
    """Attributes are float32: what a float64 input meets is not 1e-5."""
    inputs, body = "double[2, 4] x, double[4] s", "y = LayerNormalization (x, s)"
    model = ir.load(onnx.parser.parse_model(text(17, inputs, body, outputs="double[2, 4] y")))
    upgrade(model, 16)
    stored = [value.tensor for value in model.graph.values.values() if value.tensor_proto is not None]
    assert float(np.float32(1e-5)) in [tensor.numpy().item() for tensor in stored if tensor is not None]
