"""What is known about values: rank, dims, weights. Shape inference runs once, and only when a question needs it."""

from __future__ import annotations

import weakref

from bnfold import ir
from bnfold.ir.elements import MAX_RANK
from bnfold.ir.tensor import FLOATS
from bnfold.ir.value import Dim
from bnfold.reasons import Declined, Reason

_inferred: weakref.WeakSet[ir.Model] = weakref.WeakSet()


def dims(value: ir.Value) -> tuple[Dim, ...]:
    """The dims of a value, unknown ones as None or by name. Raises Declined where not even the rank is known."""
    known = known_dims(value)
    if known is None:
        raise Declined(Reason.RANK_UNKNOWN, f"value {value.name!r}")
    if len(known) > MAX_RANK:
        raise Declined(Reason.RANK_UNKNOWN, f"value {value.name!r} has {len(known)} dims, more than numpy can hold")
    return known


def known_dims(value: ir.Value) -> tuple[Dim, ...] | None:
    """As `dims`; None where not even the rank is known."""
    if value.shape is None or None in value.shape:
        _learn(value.graph.model)
    return _alike(value).shape


_SHAPE_KEEPING = (
    "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "Relu", "LeakyRelu",
    "PRelu", "Clip", "Sigmoid", "Tanh", "Elu", "Abs", "Neg", "Identity", "Dropout", "Cast", "Softmax",
)  # fmt: skip


def _alike(value: ir.Value) -> ir.Value:
    """A value of the same dims further up, where they are not known here: not every operator can be inferred."""
    node, seen = value.producer, set()
    while value.shape is None and node is not None and node.is_op(*_SHAPE_KEEPING) and (x := node.input(0)) is not None:
        if x in seen:
            return value  # a damaged file: the value depends on itself
        seen.add(x)
        value, node = x, x.producer
    return value


def _learn(model: ir.Model) -> None:
    if model not in _inferred:
        _inferred.add(model)
        model.infer_shapes()


def rank(value: ir.Value) -> int:
    """The rank of a value. A convolution's follows from its weight, without any inference."""
    value = _alike(value)
    if value.shape is not None:
        return len(dims(value)) if len(value.shape) > MAX_RANK else len(value.shape)
    node = value.producer
    if node is not None and node.is_op("Conv", "ConvTranspose") and (kernel := ir.constant(node.input(1))):
        return len(kernel.dims) if len(kernel.dims) <= MAX_RANK else len(dims(value))
    if node is not None and node.is_op("Gemm"):
        return 2
    if node is not None and node.is_op("Constant") and (held := ir.constant(value)):
        return len(held.dims) if len(held.dims) <= MAX_RANK else len(dims(value))
    return len(dims(value))


def weight(node: ir.Node, slot: int) -> ir.Tensor:
    """The constant float tensor that ``node`` reads at ``slot``. Raises Declined for anything else."""
    value = node.input(slot)
    tensor = ir.constant(value)
    if value is None or tensor is None:
        raise Declined(Reason.DYNAMIC_WEIGHT, f"input {slot} of {node.op_type} {node.label!r}")
    if tensor.dtype not in FLOATS:
        raise Declined(Reason.TYPE, f"input {slot} of {node.op_type} {node.label!r} is not a float tensor")
    if value.producer is not None and value.producer.is_op("DequantizeLinear"):
        raise Declined(Reason.TYPE, f"the weight of {node.op_type} {node.label!r} is quantized")
    return tensor


def float_type(value: ir.Value | None) -> int:
    """The float type of a value. Raises Declined where it is not known, or is no float type."""
    if value is None:
        raise Declined(Reason.UNREADABLE)
    if value.dtype is None:
        _learn(value.graph.model)
    dtype = value.dtype
    if dtype not in FLOATS:
        raise Declined(Reason.TYPE, f"the element type of value {value.name!r}")
    return dtype


def integers(node: ir.Node, slot: int, attribute: str = "") -> list[int] | None:
    """Integers from an attribute of older versions or from a constant input; None where there are neither.

    Raises Declined where they are computed.
    """
    if attribute and node.has_attr(attribute):
        return [int(number) for number in node.attr(attribute)]
    value = node.input(slot)
    if value is None:
        return None
    held = ir.constant(value)
    if held is None:
        raise Declined(Reason.NOT_STATIC, f"input {slot} of {node.op_type} {node.label!r} is computed")
    return [int(number) for number in held.numpy().reshape(-1)]


def where(node: ir.Node) -> str:
    """How a refusal names a node."""
    return f"{node.op_type} {node.label!r}"


def only_output(node: ir.Node) -> None:
    """Decline unless the node's first output is the only one it names."""
    if any(value is not None for value in node.outputs[1:]):
        raise Declined(Reason.UNUSED_OUTPUT, f"{node.op_type} {node.label!r}")
