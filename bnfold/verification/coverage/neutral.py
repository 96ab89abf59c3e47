"""Constants beside which arithmetic is equivalent to a copy of its other operand."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.ir.traits import NEUTRAL, SWAPPABLE
from bnfold.verification.changes.partly import known_of
from bnfold.verification.tolerance.floats import is_float

_OPERANDS = 2
_BROADCASTS = 7
"""The opset since which operands of different ranks are aligned at their last axes."""


def are_neutral(value: ir.Value, tensor: ir.Tensor, uses: Sequence[tuple[ir.Node, int]]) -> bool:
    """Whether every operator that reads a constant is equivalent to a copy of its other operand.

    Another number in the constant need not show: a product and a quotient by one constant cancel.
    """
    is_certain = not value.graph.model.is_overridable(value)
    return is_certain and bool(uses) and all(_is_neutral(node, slot, tensor) for node, slot in uses)


def _is_neutral(node: ir.Node, slot: int, tensor: ir.Tensor) -> bool:
    """Whether a constant multiplies or divides by 1, or is a 0 that is subtracted, or added to an integer."""
    number = NEUTRAL.get(node.op_type) if not (node.domain or node.has_references or node.is_call) else None
    if number is None or len(node.inputs) != _OPERANDS or not (slot or node.has_trait(SWAPPABLE)):
        return False
    if node.graph.opset() < _BROADCASTS or tensor.size != 1 or tensor.numpy().item() != number:
        return False
    other = node.inputs[1 - slot]
    dims = known_of(node.graph.model).dims(other) if other is not None else None
    has_axes = not tensor.dims or (dims is not None and len(tensor.dims) <= len(dims))
    return has_axes and not (node.is_op("Add") and is_float(tensor.dtype))
