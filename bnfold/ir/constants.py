"""What counts as a constant: initializers, Constant nodes, and chains over them that can be evaluated exactly.

Rearranging operators keep the element type; arithmetic stays in float64 (`Exact`), to be rounded only when written.
An operator is evaluated only in the versions whose meaning is the one written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from bnfold.ir.tensor import FLOATS, TP, Array, Exact, InMemory, Inline, Tensor, numpy_type

if TYPE_CHECKING:
    from bnfold.ir.node import Node
    from bnfold.ir.value import Value

LIMIT = 1 << 28
"""Elements beyond which a chain is not evaluated: a weight of 1 GB that is computed at run time stays computed."""


def constant(value: Value | None) -> Tensor | None:
    """The tensor that ``value`` is in every run of the model; None when that is not certain."""
    if value is None:
        return None
    model = value.graph.model
    if value.tensor_proto is not None:
        return value.tensor if model.is_constant_initializer(value) else None
    if value.producer is None or value.is_input:
        return None
    return _Evaluation().of(value)


class _Evaluation:
    """One evaluation; shared operands are visited once, long chains do not recurse."""

    def __init__(self) -> None:
        self._known: dict[Value, Tensor | None] = {}

    def of(self, target: Value) -> Tensor | None:
        stack = [target]
        while stack:
            value = stack[-1]
            if value in self._known:
                stack.pop()
                continue
            node = value.producer
            if node is None or value.tensor_proto is not None or node.op_type not in _EVALUATORS or node.domain:
                self._known[value] = self._leaf(value)
                continue
            waiting = [source for source in node.inputs if source is not None and source not in self._known]
            if any(self._known.get(source, self) is None for source in node.inputs if source is not None):
                self._known[value] = None
            elif waiting:
                if len(stack) > 64:
                    self._known[value] = None  # deep chains of constants do not occur; a hostile file may have one
                stack.extend(waiting)
            else:
                self._known[value] = self._evaluate(node)
        return self._known[target]

    @staticmethod
    def _leaf(value: Value) -> Tensor | None:
        if value.tensor_proto is not None:
            return value.tensor if value.graph.model.is_constant_initializer(value) else None
        node = value.producer
        return _constant_node(node) if node is not None and node.is_op("Constant") else None

    def _evaluate(self, node: Node) -> Tensor | None:
        operands = [self._known[source] if source is not None else None for source in node.inputs]
        if len(node.outputs) != 1 or node.has_references:
            return None
        if any(operand is not None and operand.size > LIMIT for operand in operands):
            return None
        try:
            return _EVALUATORS[node.op_type](node, operands)
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, ZeroDivisionError, MemoryError):
            return None  # an ill-formed chain is not a constant; whoever runs the model will say what is wrong with it


def _constant_node(node: Node) -> Tensor | None:
    output = node.outputs[0]
    if output is None or node.has_references:
        return None
    if (held := output.pending_tensor) is not None:
        return held
    attributes = node.attrs
    if "value" in attributes:
        return node.graph.model.tensor(attributes["value"].t)
    for name, dtype in (("value_float", TP.FLOAT), ("value_floats", TP.FLOAT), ("value_int", TP.INT64), ("value_ints", TP.INT64)):
        if name in attributes:
            return InMemory(dtype, np.array(node.attr(name), dtype=numpy_type(dtype)))
    return None


# -- evaluators: (node, operands) -> Tensor; any failure means "not a constant"

Operands = list[Tensor | None]
Evaluator = Callable[["Node", Operands], "Tensor | None"]


def _need(operands: Operands, index: int) -> Tensor:
    operand = operands[index] if index < len(operands) else None
    if operand is None:
        raise ValueError("operand missing")
    return operand


def _rearranged(source: Tensor, move: Callable[[Array], Array]) -> Tensor:
    if isinstance(source, Exact):
        return Exact(source.dtype, move(source.values))
    return InMemory(source.dtype, move(source.numpy()))


def _axes(node: Node, operands: Operands) -> tuple[int, ...] | None:
    if len(operands) > 1 and operands[1] is not None:
        return tuple(int(axis) for axis in operands[1].numpy().reshape(-1))
    axes = node.attr("axes")
    return tuple(axes) if axes is not None else None


def _identity(node: Node, operands: Operands) -> Tensor:
    return _need(operands, 0)


def _cast(node: Node, operands: Operands) -> Tensor | None:
    source, to = _need(operands, 0), node.attr("to")
    if isinstance(to, str):  # version 1 names the type
        to = TP.DataType.Value(to)
    if source.dtype in FLOATS and to in FLOATS:
        # The model rounds here; what it computes with is the rounded value.
        from bnfold.ir.tensor import round_once

        return InMemory(to, round_once(source.numpy().astype(np.float64), to))
    return None


def _reshape(node: Node, operands: Operands) -> Tensor:
    source = _need(operands, 0)
    target = [int(size) for size in (node.attr("shape") or _need(operands, 1).numpy())]
    if not node.attr("allowzero", 0):
        target = [source.dims[axis] if size == 0 else size for axis, size in enumerate(target)]
    return _rearranged(source, lambda array: array.reshape(target))


def _flatten(node: Node, operands: Operands) -> Tensor:
    source, axis = _need(operands, 0), int(node.attr("axis", 1))
    rows = int(np.prod(source.dims[:axis] if axis else ()))
    return _rearranged(source, lambda array: array.reshape(rows, -1 if array.size else source.size // max(rows, 1)))


def _squeeze(node: Node, operands: Operands) -> Tensor:
    axes = _axes(node, operands)
    return _rearranged(_need(operands, 0), lambda array: np.squeeze(array, axis=axes))


def _unsqueeze(node: Node, operands: Operands) -> Tensor:
    axes = _axes(node, operands)
    if axes is None:
        raise ValueError("axes missing")
    return _rearranged(_need(operands, 0), lambda array: np.expand_dims(array, axes))


def _transpose(node: Node, operands: Operands) -> Tensor:
    return _rearranged(_need(operands, 0), lambda array: np.transpose(array, node.attr("perm")))


def _constant_of_shape(node: Node, operands: Operands) -> Tensor:
    dims = tuple(int(size) for size in _need(operands, 0).numpy())
    fill: onnx.TensorProto | None = node.attr("value")
    if fill is None:
        return InMemory(TP.FLOAT, np.broadcast_to(np.float32(0), dims))
    scalar = Inline(fill).numpy().reshape(-1)[0]
    return InMemory(fill.data_type, np.broadcast_to(scalar, dims))


def _expand(node: Node, operands: Operands) -> Tensor:
    source = _need(operands, 0)
    dims = np.broadcast_shapes(source.dims, tuple(int(size) for size in _need(operands, 1).numpy()))
    return _rearranged(source, lambda array: np.broadcast_to(array, dims))


def _arithmetic(function: Callable[..., Any]) -> Evaluator:
    def evaluate(node: Node, operands: Operands) -> Tensor | None:
        if node.has_attr("broadcast") or node.has_attr("axis"):
            return None  # before opset 7 broadcasting meant something else
        sources = [_need(operands, index) for index in range(len(operands))]
        if any(source.dtype not in FLOATS for source in sources):
            return None
        with np.errstate(all="ignore"):
            result = function(*(source.float64() for source in sources))
        return Exact(sources[0].dtype, np.asarray(result, dtype=np.float64))

    return evaluate


def _dequantize(node: Node, operands: Operands) -> Tensor | None:
    source, scale = _need(operands, 0), _need(operands, 1)
    if node.attr("block_size", 0) or scale.dtype not in FLOATS:
        return None
    zero = _need(operands, 2).float64() if len(operands) > 2 and operands[2] is not None else np.zeros(())
    factor = scale.float64()
    shape = [1] * len(source.dims)
    if factor.size > 1:
        shape[int(node.attr("axis", 1))] = -1
    with np.errstate(all="ignore"):
        values = (source.float64() - (zero.reshape(shape) if zero.size > 1 else zero.reshape(()))) * (
            factor.reshape(shape) if factor.size > 1 else factor.reshape(())
        )
    return Exact(scale.dtype, values)


_EVALUATORS: dict[str, Evaluator] = {
    "Identity": _identity,
    "Cast": _cast,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "DequantizeLinear": _dequantize,
    "Add": _arithmetic(np.add),
    "Sub": _arithmetic(np.subtract),
    "Mul": _arithmetic(np.multiply),
    "Div": _arithmetic(np.divide),
    "Pow": _arithmetic(np.power),
    "Neg": _arithmetic(np.negative),
    "Sqrt": _arithmetic(np.sqrt),
    "Reciprocal": _arithmetic(lambda operand: 1.0 / operand),
}
