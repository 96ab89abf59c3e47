"""Operators of a domain of their own, com.acme, for tests that register some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from onnx import parser

import bnfold
from bnfold.operators import AffineRule, AffineStep, ChannelAffine, OperatorNode, ValueType

DOMAIN = "com.acme"
Array = np.ndarray[Any, Any]


def gain(x: Array, w: Array, b: Array | None = None) -> Array:
    """A factor and a shift for each channel."""
    y = x * w.reshape(1, -1, 1, 1)
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def same_type(x: ValueType, *_: ValueType | None, **__: object) -> list[ValueType]:
    return [x]


def gain_rule(lie: float = 1.0) -> AffineRule:
    def up(node: OperatorNode, affine: ChannelAffine) -> AffineStep:
        weight = node.constant(1)
        affine = affine.of(weight.size)
        bias = node.constant(2) if node.has_constant(2) else 0.0
        return AffineStep({1: lie * affine.scale * weight, 2: affine.scale * bias + affine.shift})

    return AffineRule(up)


@contextmanager
def registered(op_type: str = "Gain", **said: Any) -> Iterator[None]:
    """Register an operator, by default Gain as it is, and take it back."""
    given = {"kernel": gain, "shape": same_type, "affine": gain_rule(), **said}
    bnfold.register_operator(DOMAIN, op_type, **given)
    try:
        yield
    finally:
        bnfold.operators.unregister_operator(DOMAIN, op_type)


_PARAMETERS = (
    "float[4] s = {1,2,3,0.5}, float[4] b = {0.1,0.2,0.3,0.4}, float[4] m = {1,0,1,0}, "
    "float[4] v = {1,2,1,2}, float[4] w = {1,-2,3,4}"
)
_GAIN = "c = com.acme.Gain(x, w)  z = BatchNormalization(c, s, b, m, v)"
_HEAD = '<ir_version: 8, opset_import: ["": 15, "com.acme": 1, "f": 1]> '


def model(nodes: str = _GAIN, inputs: str = "float[2,4,3,3] x", functions: str = "") -> onnx.ModelProto:
    """A model of these nodes, by default a Gain and a BatchNormalization behind it."""
    text = f"{_HEAD} g ({inputs}) => (float[A,4,B,C] z) <{_PARAMETERS}> {{ {nodes} }} {functions}"
    return parser.parse_model(text)


def in_branch() -> onnx.ModelProto:
    inner = _GAIN.replace("z =", "o =")
    branches = f"then_branch = t () => (o) {{ {inner} }}, else_branch = e () => (p) {{ p = Identity(x) }}"
    return model(f"z = If(q) <{branches}>", "float[2,4,3,3] x, bool q")


def in_loop() -> onnx.ModelProto:
    inner = _GAIN.replace("z =", "o =").replace("(x, w)", "(y, w)")
    body = f"t (int64 i, bool k, float[2,4,3,3] y) => (k2, o) {{ k2 = Identity(k) {inner} }}"
    return model(f"z = Loop(n, , x) <body = {body}>", "float[2,4,3,3] x, int64 n")


def in_function() -> onnx.ModelProto:
    nodes = "a = Relu(x) y = com.acme.Gain(a, w)"
    function = f'<domain: "f", opset_import: ["": 15, "com.acme": 1]> F (x, w) => (y) {{ {nodes} }}'
    return model(_GAIN.replace("com.acme.Gain", "f.F"), functions=function)


def open_sizes() -> onnx.ModelProto:
    return model(inputs="float[N,4,K,L] x")
