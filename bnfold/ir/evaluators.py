"""Operators that constants are computed with.

Rearranging ones keep the element type; arithmetic stays in float64 (`Exact`), to be rounded only when it is written.
An operator is evaluated only in the versions whose meaning is the one written here. Each evaluator takes a node and its
operands; any failure, like the result None, means that the node does not make a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from bnfold.ir.elements import finfo
from bnfold.ir.node import Node
from bnfold.ir.tensor import FLOATS, TP, Array, Exact, Float64, Inline, InMemory, Tensor, numpy_type, round_once

LIMIT = 1 << 26
"""Elements beyond which nothing is evaluated: a weight of that size that is computed at run time stays computed."""

Operands = list[Tensor | None]
Evaluator = Callable[["Node", Operands], Tensor | None]


def need(operands: Operands, index: int) -> Tensor:
    """Return the operand at ``index``. Raises ValueError where there is none."""
    operand = operands[index] if index < len(operands) else None
    if operand is None:
        raise ValueError("operand missing")
    return operand


def _small(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dims of a result, unless it would be too large."""
    if math.prod(dims) > LIMIT:
        raise ValueError("too large")
    return dims


def _integers(operand: Tensor) -> list[int]:
    return [int(number) for number in operand.numpy().reshape(-1)]


def _rearranged(source: Tensor, move: Callable[[Array], Array]) -> Tensor:
    if isinstance(source, Exact):
        return Exact(source.dtype, move(source.values))
    return InMemory(source.dtype, move(source.numpy()))


def _rounds_harmlessly(values: Float64, dtype: int) -> bool:
    """Whether the element type holds the values as the normal numbers they are.

    The model rounds after every step; where that makes an infinity, or nothing of a small number, float64 would go on
    with something else.
    """
    info = finfo(dtype)
    sizes = np.abs(values[values != 0])
    return bool(np.isfinite(values).all() and (sizes <= float(info.max)).all() and (sizes >= float(info.tiny)).all())


def exact(dtype: int, values: Array) -> Tensor | None:
    """Return values to be rounded when they are written; None where that would not be harmless."""
    values = np.asarray(values, dtype=np.float64)
    return Exact(dtype, values) if _rounds_harmlessly(values, dtype) else None


def _axes(node: Node, operands: Operands) -> tuple[int, ...]:
    if len(operands) > 1 and operands[1] is not None:
        return tuple(_integers(operands[1]))
    return tuple(node.attr("axes") or ())


def _identity(_: Node, operands: Operands) -> Tensor:
    return need(operands, 0)


def _cast(node: Node, operands: Operands) -> Tensor | None:
    source, to = need(operands, 0), node.attr("to")
    if isinstance(to, str):  # version 1 names the type
        to = TP.DataType.Value(to)
    if source.dtype in _INTEGERS and to in _INTEGERS:
        fresh = source.numpy().astype(numpy_type(to))
        return InMemory(to, fresh) if np.array_equal(fresh, source.numpy()) else None
    if source.dtype in FLOATS and to in FLOATS:
        # The model rounds here; what it computes with is the rounded value.
        return InMemory(to, round_once(source.numpy().astype(np.float64), to))
    return None


_INTEGERS = frozenset({TP.INT8, TP.UINT8, TP.INT16, TP.UINT16, TP.INT32, TP.INT64})


def _clip(node: Node, operands: Operands) -> Tensor:
    source = need(operands, 0)
    low, high = ((*operands[1:], None, None)[index] for index in (0, 1))
    bounds: list[Array | None] = [held.numpy().reshape(()) if held is not None else None for held in (low, high)]
    if len(operands) == 1:
        bounds = [np.asarray(node.attr(name)) if node.has_attr(name) else None for name in ("min", "max")]
    values = source.numpy()
    for bound, cut in zip(bounds, (np.maximum, np.minimum), strict=True):
        values = values if bound is None else cut(values, bound.astype(values.dtype))
    return InMemory(source.dtype, values)


def _reshape(node: Node, operands: Operands) -> Tensor:
    source = need(operands, 0)
    target = list(node.attr("shape")) if node.has_attr("shape") else _integers(need(operands, 1))
    if any(size < -1 for size in target):
        raise ValueError("no such size")
    if not node.attr("allowzero", 0):
        target = [source.dims[axis] if size == 0 else size for axis, size in enumerate(target)]
    return _rearranged(source, lambda array: array.reshape(target))


def _flatten(node: Node, operands: Operands) -> Tensor:
    source, axis = need(operands, 0), int(node.attr("axis", 1))
    rank = len(source.dims)
    if not -rank <= axis <= rank:
        raise ValueError("no such axis")
    axis += rank if axis < 0 else 0
    shape = (math.prod(source.dims[:axis]), math.prod(source.dims[axis:]))
    return _rearranged(source, lambda array: array.reshape(shape))


def _squeeze(node: Node, operands: Operands) -> Tensor:
    axes = _axes(node, operands) or None  # none given: all of size 1
    return _rearranged(need(operands, 0), lambda array: np.squeeze(array, axis=axes))


def _unsqueeze(node: Node, operands: Operands) -> Tensor:
    axes = _axes(node, operands)
    if not axes:
        raise ValueError("axes missing")
    return _rearranged(need(operands, 0), lambda array: np.expand_dims(array, axes))


def _transpose(node: Node, operands: Operands) -> Tensor:
    return _rearranged(need(operands, 0), lambda array: np.transpose(array, node.attr("perm")))


def _constant_of_shape(node: Node, operands: Operands) -> Tensor:
    return filled(node, _small(tuple(_integers(need(operands, 0)))))


def filled(node: Node, dims: tuple[int, ...]) -> Tensor:
    """Return what a ConstantOfShape makes, of any size: it takes no memory. Raises ValueError for what is no shape."""
    fill: onnx.TensorProto | None = node.attr("value")
    if fill is None:
        return InMemory(TP.FLOAT, np.broadcast_to(np.float32(0), dims))
    array = Inline(fill).numpy()
    if array.size != 1:
        raise ValueError("a fill has one value")
    return InMemory(fill.data_type, np.broadcast_to(array.reshape(()), dims))


def _expand(_: Node, operands: Operands) -> Tensor:
    source = need(operands, 0)
    dims = _small(np.broadcast_shapes(source.dims, tuple(_integers(need(operands, 1)))))
    return _rearranged(source, lambda array: np.broadcast_to(array, dims))


def _arithmetic(function: Callable[..., Any]) -> Evaluator:
    def evaluate(node: Node, operands: Operands) -> Tensor | None:
        sources = [need(operands, index) for index in range(len(operands))]
        dims = {source.dims for source in sources}
        if node.graph.opset() < 7 and (len(dims) > 1 or node.has_attr("broadcast")):
            return None  # broadcasting meant something else
        types = {source.dtype for source in sources}
        if not types <= FLOATS or (len(types) > 1 and node.op_type != "Pow"):
            return None
        _small(np.broadcast_shapes(*dims))
        with np.errstate(all="ignore"):
            return exact(sources[0].dtype, function(*(source.float64() for source in sources)))

    return evaluate


EVALUATORS: dict[str, Evaluator] = {
    "Identity": _identity,
    "Cast": _cast,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Clip": _clip,
    "Add": _arithmetic(np.add),
    "Sub": _arithmetic(np.subtract),
    "Mul": _arithmetic(np.multiply),
    "Div": _arithmetic(np.divide),
    "Pow": _arithmetic(np.power),
    "Neg": _arithmetic(np.negative),
    "Sqrt": _arithmetic(np.sqrt),
    "Reciprocal": _arithmetic(np.reciprocal),
}
