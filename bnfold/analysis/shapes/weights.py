"""The rank of a result whose data has an unknown type, from the weights and attributes of its producer.

Nothing is known of data that a plugin produces, but the result of a convolution has the rank of its kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import TypeProto

from bnfold.analysis.constants import known_shape
from bnfold.analysis.traits import KEEPS_RANK
from bnfold.errors import ReferenceAttribute
from bnfold.ir.elements import MAX_RANK
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.value import Value

DimList = list[int | str | None]


def type_by_weights(node: Node) -> TypeProto | None:
    """Return the type of the first output, with as many dims as are certain; None if the rank is unknown."""
    dims = dims_by_weights(node)
    if dims is None:
        return None
    dtype = next((value.dtype for value in node.inputs[:2] if value is not None and value.dtype is not None), None)
    if node.op_type == "Reshape":
        dtype = None if (data := node.input(0)) is None else data.dtype
    kind: TypeProto = onnx.helper.make_tensor_type_proto(dtype or 0, dims)
    return kind


def dims_by_weights(node: Node) -> DimList | None:
    """Return the dims of the first output, as far as they are certain; None if the rank is unknown."""
    tell = _TELLTALES.get(node.op_type) if node.is_known else None
    try:
        return tell(node) if tell is not None else None
    except ReferenceAttribute:
        return None


def contradicts_weights(model: Model) -> bool:
    """Whether the file gives a value another rank than weights and inputs do; runtimes go by those."""
    values = (value for graph in model.graphs() for value in graph.values.values() if value.producer is not None)
    shapes = ((value, value.shape) for value in values)
    return any(shape is not None and certain_rank(value) not in (None, len(shape)) for value, shape in shapes)


_FAR = 128
"""Nodes that a walk upward looks at."""


def certain_rank(value: Value) -> int | None:
    """Return the rank that a value has by the weights and inputs behind it; None where a few nodes do not say it."""
    at: Value | None = value
    for _ in range(_FAR):
        if at is None or (node := at.producer) is None:
            return len(at.shape) if at is not None and at.is_input and at.shape is not None else None
        told = dims_by_weights(node) if at.slot == 0 else None
        if told is not None or at.slot or not node.has_trait(KEEPS_RANK):
            return None if told is None else len(told)
        at = node.input(0)
    return None


def _convolution(node: Node) -> DimList | None:
    kernel = known_shape(node.input(1))
    return [None, kernel[0], *[None] * (len(kernel) - 2)] if kernel else None


def _transposed(node: Node) -> DimList | None:
    kernel = known_shape(node.input(1))
    if kernel is None:
        return None
    group = node.attr("group", 1)
    known = len(kernel) > 1 and isinstance(kernel[1], int) and isinstance(group, int)
    return [None, kernel[1] * group if known else None, *[None] * (len(kernel) - 2)]


def _product(node: Node) -> DimList | None:
    weight = known_shape(node.input(1))
    columns = None if weight is None or len(weight) != 2 else weight[0 if node.attr("transB", 0) else 1]
    return [None, columns]


def _stacked(node: Node) -> DimList | None:
    operands = [known_shape(node.input(slot)) for slot in (0, 1)]
    ranks = [len(shape) for shape in operands if shape is not None and len(shape) > 1]
    return [None] * max(ranks) if len(ranks) == len(operands) else None


def _pool(node: Node) -> DimList | None:
    window = node.attr("kernel_shape")
    return [None] * (len(window) + 2) if isinstance(window, list) and window else None


def _reshape(node: Node) -> DimList | None:
    target = known_shape(node.input(1))
    if target is None or len(target) != 1 or not isinstance(target[0], int) or target[0] > MAX_RANK:
        return None
    return [None] * target[0]


_TELLTALES: dict[str, Callable[[Node], DimList | None]] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "FusedConv": _convolution,
    "FusedMatMul": _stacked,
    "Gemm": _product,
    "Flatten": lambda _node: [None, None],
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "Reshape": _reshape,
}
