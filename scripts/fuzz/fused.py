"""onnxruntime's own operators, as its optimisation writes them to a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import helper

from fuzz.builder import Builder, Drawn
from fuzz.convolutions import conv

DOMAIN = "com.microsoft"
KINDS: tuple[tuple[str, list[float]], ...] = (
    ("Relu", []),
    ("Relu", []),
    ("LeakyRelu", [0.25]),
    ("Tanh", []),
    ("Clip", [-0.5, 1.0]),
)
"""Activations and their numbers."""


def own(b: Builder, op_type: str, operands: Sequence[str], shape: Sequence[int], **attributes: Any) -> Drawn:
    """Append a node whose result has this shape: onnx cannot infer it."""
    made = Drawn(b.fresh("v"), b.dtype, tuple(shape))
    name = b.fresh(op_type.lower())
    b.nodes.append(helper.make_node(op_type, operands, [made.name], name, domain=DOMAIN, **attributes))
    b.values.append(made)
    return made


def fused_conv(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Conv under this name; some add a value, and most end in an activation."""
    made = conv(b, x)
    if made is None:
        return None
    node = b.nodes[-1]
    node.op_type, node.domain = "FusedConv", DOMAIN
    alike = [value for value in b.values[:-1] if (value.shape, value.dtype) == (made[0].shape, made[0].dtype)]
    if alike and b.chance(0.5):
        node.input.extend([""] * (3 - len(node.input)))
        node.input.append(b.pick(alike).name)
    if b.chance(0.6):
        name, numbers = b.pick(KINDS)
        node.attribute.append(helper.make_attribute("activation", name))
        node.attribute.extend([helper.make_attribute("activation_params", numbers)] if numbers else [])
    return made


def fused_matmul(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a product with a constant on either side; both may be transposed."""
    if x.rank < 2:
        return None
    size, is_right = int(b.rng.integers(1, 6)), b.chance(0.4)
    turned, constant_turned = b.chance(0.5), b.chance(0.5)
    first, last = x.shape[-2:][:: -1 if turned else 1]
    shape = [size, first] if is_right else [last, size]
    weight = b.weight(b.numbers(shape[:: -1 if constant_turned else 1]))
    operands, flags = [x.name, weight], [turned, constant_turned]
    step = -1 if is_right else 1
    about = dict(zip(("transA", "transB"), map(int, flags[::step]), strict=True), alpha=b.pick([1.0, 0.5, -1.25]))
    shape = [*x.shape[:-2], *((size, last) if is_right else (first, size))]
    return [own(b, "FusedMatMul", operands[::step], shape, **about)]
