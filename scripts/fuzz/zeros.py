"""Zeros of both signs, operands that change at most their sign, and operators that read it: 1/x is ∞ or -∞."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Array, Builder, Drawn
from fuzz.operators import batchnorm
from fuzz.parts import nodes, pick, tensors
from fuzz.weights import VariedBuilder

SIDES = {"Add": 2, "Sub": 2, "Mul": 2, "Div": 1, "Pow": 1, "Sum": 2}
"""Operators with a neutral operand, or one that is neutral but for the sign of zero, and on how many sides it is drawn:
0 - x is no Neg."""


def draw(seed: int, *, are_fed: bool = True) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Draw a model of zeros in front of a pole, and its inputs; a BatchNormalization only behind the pole.

    Unless zeros ``are_fed``, operators make all of them: verification draws no zeros of both signs.
    """
    rng = np.random.default_rng([seed, 37])
    dtype = int(rng.choice([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16], p=[0.7, 0.2, 0.1]))
    b = VariedBuilder(rng, opset=int(rng.choice([13, 15, 17, 19, 21])), dtype=dtype)
    shape = [int(size) for size in rng.choice([2, 3, 4, 5], int(rng.integers(2, 5)), replace=False)]
    x = _zeros(b, shape, ["Relu", "Ceil", "Mul", *["fed"] * are_fed])
    for _ in range(int(rng.integers(1, 4))):
        x = _neutral(b, x)
    y = _pole(b, x)
    if b.chance(0.4):
        batchnorm(b, y)
    ends = [b.values[-1], *([x] if b.chance(0.2) else [])]
    return b.model(ends), {value.name: b.fed[value.name] for value in b.inputs}


def _number(b: Builder, number: float, x: Drawn) -> str:
    shape = b.pick([(), (1,), x.shape[-1:], x.shape])
    return b.weight(np.full(shape, number, helper.tensor_dtype_to_np_dtype(b.dtype)), "neutral")


def _zeros(b: Builder, shape: list[int], kinds: list[str]) -> Drawn:
    """Append a value some of whose elements are zero: fed so, or as an operator makes them."""
    numbers = b.numbers(shape)
    kind = b.pick(kinds)
    if kind == "fed":
        numbers[b.rng.random(shape) < 0.3] = 0.0
        numbers[b.rng.random(shape) < 0.3] = -0.0
    x = b.feed(numbers)
    if kind == "Mul":
        return b.node("Mul", [x.name, b.weight((b.rng.random(shape) < 0.5).astype(numbers.dtype), "mask")])[0]
    return x if kind == "fed" else b.node(kind, [x.name])[0]


def _neutral(b: Builder, x: Drawn) -> Drawn:
    """Append an operator that leaves numbers as they are, or as their negatives, but perhaps not the sign of zero."""
    kind = b.rng.random()
    if kind < 0.15:
        return b.node(b.pick(["Neg", "Identity", "Sqrt"] if kind < 0.02 else ["Neg", "Identity"]), [x.name])[0]
    if kind < 0.3:
        return b.node("Transpose", [x.name], perm=[*map(int, b.rng.permutation(x.rank))])[0]
    if kind < 0.4:
        end = _number(b, b.pick([-np.inf, np.inf]), Drawn("", x.dtype, ()))
        return b.node("Clip", [x.name, end] if np.signbit(_stored(b, end)) else [x.name, "", end])[0]
    op_type = b.pick([*SIDES])
    number = b.pick([0.0, -0.0]) if op_type in ("Add", "Sub", "Sum") else b.pick([1.0, 1.0, -1.0])
    operands = [x.name, _number(b, 1.0 if op_type == "Pow" else number, x)]
    return b.node(op_type, operands[::-1] if SIDES[op_type] == 2 and b.chance(0.3) else operands)[0]


def _stored(b: Builder, name: str) -> Any:
    held = {tensor.name: tensor for tensor in b.weights}
    held |= {node.output[0]: node.attribute[0].t for node in b.nodes if node.op_type == "Constant"}
    held |= {node.output[0]: held[node.input[0]] for node in b.nodes if node.input and node.input[0] in held}
    return numpy_helper.to_array(held[name])


def _pole(b: Builder, x: Drawn) -> Drawn:
    """Append what turns the sign of zero into a number: something of 1/x that is bounded."""
    kind = b.pick(["Reciprocal", "Div", "Pow"])
    operands = {"Div": [_number(b, b.pick([1.0, -2.0]), x), x.name], "Pow": [x.name, _number(b, -1.0, x)]}
    made = b.node(kind, operands.get(kind, [x.name]))[0]
    return b.node(b.pick(["Sign", "Tanh", "Sigmoid"]), [made.name])[0]


def change_zero(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change the sign of a stored zero, or leave out what adds or subtracts one."""
    zeros = [tensor for tensor in tensors(model) if _is_zero(tensor)]
    tensor = pick(rng, zeros)
    if tensor is None:
        return
    readers = [node for node in nodes(model) if tensor.name in node.input and node.op_type in ("Add", "Sub", "Sum")]
    if readers and len(readers[0].input) == 2 and rng.random() < 0.5:
        others = [name for name in readers[0].input if name != tensor.name]
        readers[0].op_type = "Identity"
        readers[0].input[:] = others[:1] or [tensor.name]
        return
    tensor.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(tensor), tensor.name))


def _is_zero(tensor: onnx.TensorProto) -> bool:
    if tensor.data_type not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
        return False
    array = numpy_helper.to_array(tensor)
    return bool(array.size) and not array.any()
