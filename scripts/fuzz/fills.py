"""Constants of one repeated number, boolean or string, and wrong ones in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Array, Builder, Drawn
from fuzz.parts import nodes, pick, reads

WORDS = ("a", "b", "word")
TYPES = (
    *[(TensorProto.STRING, 19)] * 4, (TensorProto.FLOAT, 9), (TensorProto.FLOAT16, 9), (TensorProto.INT64, 9),
    (TensorProto.INT8, 9), (TensorProto.UINT64, 9), (TensorProto.BOOL, 9), (TensorProto.BFLOAT16, 20),
    (TensorProto.FLOAT8E4M3FN, 20), (TensorProto.UINT4, 21),
)  # fmt: skip
"""Element types, and the opset since which ConstantOfShape (strings: Equal) takes them."""
NARROW = (TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.UINT4)
"""Not for Expand and Where."""
FILLING = {("Expand", 0), ("Where", 1), ("Where", 2), ("Equal", 0), ("Equal", 1), ("Clip", 1), ("Clip", 2)}
"""Operators that take one number, boolean or string for all elements."""
LARGEST = 4096


def filled(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a sum of a value and a constant of any type; strings are first compared with one."""
    if b.opset < 9 or not x.rank:
        return None
    dtype = b.pick([dtype for dtype, since in TYPES if since <= b.opset])
    shape = [size if b.chance(0.7) else 1 for size in x.shape][int(b.rng.integers(x.rank)) if b.chance(0.3) else 0 :]
    ways = [_constant_of_shape, _constant_of_shape, _stored, *[_expand, _expand, _where] * (dtype not in NARROW)]
    name = b.pick(ways)(b, dtype, shape)
    if dtype == TensorProto.STRING:
        name = b.derive("Equal", [name, b.weight(_one(b, dtype, ()), "fill")], TensorProto.BOOL, shape)
    number = b.derive("Cast", [name], b.dtype, shape, to=b.dtype)
    return b.node(b.pick(["Add", "Mul", "Sub"]), [x.name, number])


def _one(b: Builder, dtype: int, shape: tuple[int, ...] = (1,)) -> Array:
    """Append a constant with one small number, boolean or string in every element."""
    if dtype == TensorProto.STRING:
        return np.full(shape, b.pick(WORDS), object)
    return np.full(shape, b.pick([0, 1, 2, 3])).astype(helper.tensor_dtype_to_np_dtype(dtype))


def _constant_of_shape(b: Builder, dtype: int, shape: list[int]) -> str:
    """Append a ConstantOfShape, maybe of strings: ONNX does not allow these, but reading the model must not fail."""
    value = numpy_helper.from_array(_one(b, dtype), "value")
    return b.derive("ConstantOfShape", [b.integers(shape)], dtype, shape, value=value)


def _expand(b: Builder, dtype: int, shape: list[int]) -> str:
    return b.derive("Expand", [b.weight(_one(b, dtype), "fill"), b.integers(shape)], dtype, shape)


def _where(b: Builder, dtype: int, shape: list[int]) -> str:
    """Append a Where of two constants."""
    choice = b.weight(b.rng.random(shape) < 0.5, "fill")
    return b.derive("Where", [choice, *(b.weight(_one(b, dtype), "fill") for _ in range(2))], dtype, shape)


def _stored(b: Builder, dtype: int, shape: list[int]) -> str:
    return b.weight(_one(b, dtype, tuple(shape)), "fill")


def change_filled(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Change the number, boolean or string of a fill or of a comparison, or a bound."""
    read = {node.input[slot] for node in nodes(model) for op, slot in FILLING if reads(node, op, slot)}
    held = [entry.t for node in nodes(model) if node.op_type == "ConstantOfShape" for entry in node.attribute]
    tensor = pick(rng, [*held, *(tensor for tensor in model.graph.initializer if tensor.name in read)])
    if tensor is not None:
        change_one(tensor, rng)


def store_filled(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Store the result of a fill, as other tools do, with one element changed."""
    held: dict[str, Array] = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    made = [(node, array) for node in model.graph.node if (array := _made(node, held)) is not None]
    if not made:
        return
    node, array = pick(rng, made)
    tensor = numpy_helper.from_array(array, node.output[0])
    change_one(tensor, rng)
    model.graph.node.remove(node)
    model.graph.initializer.append(tensor)


def _made(node: onnx.NodeProto, held: dict[str, Array]) -> Array | None:
    if node.op_type == "ConstantOfShape" and node.input[0] in held and node.attribute:
        value, shape = numpy_helper.to_array(node.attribute[0].t), held[node.input[0]]
    elif node.op_type == "Expand" and all(name in held for name in node.input):
        value, shape = (held[name] for name in node.input)
    else:
        return None
    return np.array(np.broadcast_to(value, shape)) if value.size == 1 and np.prod(shape) <= LARGEST else None


def change_one(tensor: onnx.TensorProto, rng: np.random.Generator) -> None:
    """Change one row or element: another number or string, or the inverted boolean."""
    array = numpy_helper.to_array(tensor).copy()
    if not array.size or array.dtype.kind not in "fiubOV":
        return
    rows: Any = array if array.ndim and rng.random() < 0.6 else array.reshape(-1)
    at = int(pick(rng, (0, -1, int(rng.integers(len(rows))))))
    if array.dtype.kind == "b":
        rows[at] = ~rows[at]
    elif array.dtype.kind == "O":
        rows[at] = pick(rng, WORDS)
    else:
        with np.errstate(all="ignore"):
            rows[at] = (2 * rows[at].astype(np.float64) + 1).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
