"""What is known about values: rank, dims, weights. Shape inference runs once, and only when a question needs it."""

from __future__ import annotations

import weakref

from bnfold import ir
from bnfold.ir.tensor import FLOATS
from bnfold.ir.value import Dim
from bnfold.reasons import Declined, Reason

_inferred: weakref.WeakSet[ir.Model] = weakref.WeakSet()


def dims(value: ir.Value) -> tuple[Dim, ...]:
    """The dims of a value, unknown ones as None or by name. Raises Declined where not even the rank is known."""
    known = known_dims(value)
    if known is None:
        raise Declined(Reason.RANK_UNKNOWN, f"value {value.name!r}")
    return known


def known_dims(value: ir.Value) -> tuple[Dim, ...] | None:
    """As `dims`; None where not even the rank is known."""
    shape = value.shape
    if shape is None or None in shape:
        model = value.graph.model
        if model not in _inferred:
            _inferred.add(model)
            model.infer_shapes()
            shape = value.shape
    return shape


def rank(value: ir.Value) -> int:
    """The rank of a value. A convolution's follows from its weight, without any inference."""
    if value.shape is not None:
        return len(value.shape)
    node = value.producer
    if node is not None and node.is_op("Conv", "ConvTranspose") and (kernel := ir.constant(node.input(1))):
        return len(kernel.dims)
    if node is not None and node.is_op("Gemm"):
        return 2
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


def only_output(node: ir.Node) -> None:
    """Decline unless the node's first output is the only one it names."""
    if any(value is not None for value in node.outputs[1:]):
        raise Declined(Reason.UNUSED_OUTPUT, f"{node.op_type} {node.label!r}")
