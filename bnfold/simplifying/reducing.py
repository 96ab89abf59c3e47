"""A reduction, and the node behind it that puts its axes back or takes them out, as one node."""

from __future__ import annotations

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.traits import REDUCING
from bnfold.ir.value import Dim
from bnfold.report import rewrites
from bnfold.simplifying.parameters import numbers
from bnfold.simplifying.plan import Plan, Respell, only_above


def find_reduction(node: ir.Node, known: Proven) -> Plan | None:
    """Plan a reduction that keeps its axes in place of one before Unsqueeze, or that drops them before Squeeze."""
    keeps, first = node.is_op("Unsqueeze"), only_above(node)
    if not node.is_op("Squeeze", "Unsqueeze") or first is None or not first.has_trait(REDUCING):
        return None
    if bool(first.attr("keepdims", 1)) == keeps:
        return None
    reduced, other, dims = numbers(first, "axes", known), numbers(node, "axes", known), known.dims(first.input(0))
    if not reduced or not other or len(reduced) != len(other) or _places(reduced, dims) != _places(other, dims):
        return None  # of as many axes, negative ones count from the same rank
    attrs = {name: first.attr(name) for name in first.attrs} | {"keepdims": int(keeps)}
    joined = rewrites.REDUCTION_AXES.of(first.op_type, node.op_type)
    return Respell(joined, node, first.op_type, first.inputs, attrs)


def _places(axes: list[int], dims: tuple[Dim, ...] | None) -> set[int]:
    """Return axes counted from the front, where the rank is known."""
    return {axis + len(dims) if axis < 0 and dims is not None else axis for axis in axes}
