"""Transpose: one that moves nothing, and two in a row."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.ir.value import moves_ones
from bnfold.simplifying.no_effect import skip
from bnfold.simplifying.plan import LeaveOut, Plan, Respell, can_skip


def find_transpose(node: ir.Node, known: Proven) -> Plan | None:
    """Plan to leave out a Transpose that moves nothing, or to make one of two."""
    order = _order(node, known)
    if order is None:
        return None
    return skip(node) if order == sorted(order) else _one_of_two(node, order, known)


def keeps_order(node: ir.Node, known: Proven) -> bool:
    """Whether a Transpose moves only axes of one element, so that it is a Reshape."""
    dims, order = known.dims(node.input(0)), _order(node, known)
    return dims is not None and order is not None and moves_ones(order, dims)


def _one_of_two(node: ir.Node, order: list[int], known: Proven) -> Plan | None:
    middle = node.input(0)
    first = middle.producer if middle is not None else None
    if first is None or not first.is_op("Transpose") or first.graph is not node.graph or first.has_references:
        return None
    inner, source = _order(first, known), first.input(0)
    if middle is None or inner is None or source is None or len(inner) != len(order):
        return None
    both = [inner[axis] for axis in order]
    if both == sorted(both):
        return LeaveOut("Transpose pair", node, source) if can_skip(node, source) else None
    is_alone = middle.only_consumer is node
    return Respell("Transpose after another", node, "Transpose", [source], {"perm": both}) if is_alone else None


def _order(node: ir.Node, known: Proven) -> list[int] | None:
    order = node.attr("perm")
    if order is None:  # all axes the other way round
        dims = known.dims(node.input(0))
        return None if dims is None else [*reversed(range(len(dims)))]
    return order if sorted(order) == [*range(len(order))] else None
