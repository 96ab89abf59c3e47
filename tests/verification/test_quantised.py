"""Quantisation that was decomposed: the reference takes each tie to the side that the composition takes it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import bnfold

Fault = Callable[[onnx.ModelProto], None]


def proto(body: str, opset: int, **stored: Any) -> onnx.ModelProto:
    text = (
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[1, 2, 8, 8] x) => (float[a, b, c, d] y) {{ {body} }}'
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(n), name) for name, n in stored.items())
    model.ir_version = 10 if opset > 20 else 8
    return model


def around(body: str, axis: str = "") -> str:
    return f"""a = QuantizeLinear {axis} (x, s, z) d = DequantizeLinear {axis} (a, s, z) {body}
    q = QuantizeLinear {axis} (e, s, z) y = DequantizeLinear {axis} (q, s, z)"""


WEIGHT = np.random.default_rng(3).integers(-127, 127, (2, 2, 3, 3)).astype(np.int8)
CONV = "k = DequantizeLinear (w, t, n) e = Conv <pads = [1, 1, 1, 1]> (d, k)"
ONE: dict[str, Any] = {"s": np.float32(0.0035), "z": np.uint8(135), "half": np.float32(0.5)}
EACH = {"s": np.array([0.0035, 0.0071], np.float32), "z": np.array([128, 100], np.uint8), "half": np.float32(0.5)}
MODELS: dict[str, tuple[onnx.ModelProto, int]] = {
    "Conv": (proto(around(CONV), 13, **ONE, w=WEIGHT, t=np.float32(0.004), n=np.int8(0)), 9),
    "Mul": (proto(around("e = Mul (d, half)"), 13, **ONE), 9),
    "AveragePool": (proto(around("e = AveragePool <kernel_shape = [2, 2]> (d)"), 13, **ONE), 9),
    "AveragePool, signed": (
        proto(around("e = AveragePool <kernel_shape = [3, 3]> (d)"), 13, **ONE | {"z": np.int8(3)}),
        9,
    ),
    "a scale for each channel": (proto(around("e = Mul (d, half)", "<axis = 1>"), 13, **EACH), 12),
    "int16": (proto(around("e = Mul (d, half)"), 21, **ONE | {"z": np.int16(7)}), 20),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("command", [bnfold.convert, bnfold.optimize])
def test_it_is_verified(name: str, command: Callable[..., bnfold.Outcome]) -> None:
    """With both scales gone, a mean of bytes reaches no limit of a byte: a fault there would not show."""
    source, target = MODELS[name]
    outcome = command(source, target_opset=target)
    has_idle_limit = command is bnfold.optimize and name.startswith("AveragePool")
    assert outcome.verdict is not None
    assert outcome.verdict.status == ("unverified" if has_idle_limit else "verified"), outcome.verdict
    assert "Floor" in {node.op_type for node in outcome.to_proto().graph.node} or target > 9


def _nodes(model: onnx.ModelProto, op_type: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == op_type]


def _up_at_ties(model: onnx.ModelProto) -> None:
    """Let each half go up."""
    for node in _nodes(model, "Where"):
        (goes_up,) = [other for other in model.graph.node if other.output[0] == node.input[0]]
        (is_odd_half,) = [other for other in _nodes(model, "And") if other.output[0] in goes_up.input]
        goes_up.input[1] = next(name for name in is_odd_half.input if "half_or_over" in name)


def _to_zero(model: onnx.ModelProto) -> None:
    for node in _nodes(model, "Round"):
        node.op_type = "Floor"


def _other_limit(model: onnx.ModelProto) -> None:
    """Let the smallest integers be two above what the type holds."""
    for node in _nodes(model, "Clip"):
        for attribute in node.attribute:
            attribute.f += 2 * (attribute.name == "min")
        for tensor in model.graph.initializer:
            if tensor.name in node.input[1:2]:
                tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) + 2, tensor.name))
                return


FAULTS: dict[str, tuple[str, Fault]] = {
    "half up": ("Mul", _up_at_ties),
    "half up behind a mean": ("AveragePool", _up_at_ties),
    "limit behind a convolution": ("Conv", _other_limit),
    "down, each channel": ("a scale for each channel", _to_zero),
    "down, int16": ("int16", _to_zero),
    "limit, each channel": ("a scale for each channel", _other_limit),
    "limit, int16": ("int16", _other_limit),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fails(name: str) -> None:
    model, fault = FAULTS[name]
    source, target = MODELS[model]
    wrong = _converted(source, target)
    right = wrong.SerializeToString()
    fault(wrong)
    assert wrong.SerializeToString() != right
    assert bnfold.verify(source, wrong).status == "failed"


def _converted(source: onnx.ModelProto, target: int) -> onnx.ModelProto:
    return bnfold.convert(source, target_opset=target, verify=bnfold.VerifyOptions(depth="none")).to_proto()
