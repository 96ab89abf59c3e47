"""Two Unsqueezes, Squeezes or Concats in a row that are one."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.ir.value import Dim
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import integers
from bnfold.simplifying.parameters import numbers, respelled
from bnfold.simplifying.plan import Plan, Respell


def find_axes(node: ir.Node, known: Proven) -> Plan | None:
    """Plan one Squeeze or Unsqueeze in place of two, whatever the shapes.

    Nothing else reads what is between, or only such nodes, which need it no longer either.
    """
    middle = node.input(0)
    first = middle.producer if middle is not None and not middle.is_output else None
    if middle is None or first is None or first.graph is not node.graph or first.has_references:
        return None
    if not first.is_op(node.op_type) or not all(_can_follow(other, first, known) for other in middle.consumers):
        return None
    before, behind = _axes(first, known), _axes(node, known)
    if before is None or behind is None:
        return None
    inner, outer = (behind, before) if node.op_type == "Unsqueeze" else (before, behind)
    merged = sorted([*inner, *_places(outer, inner)])
    source = first.input(0)
    return respelled(rewrites.SQUEEZE_PAIR.of(node.op_type), node, node.op_type, source, {"axes": integers(merged)})


def _can_follow(other: ir.Node, first: ir.Node, known: Proven) -> bool:
    """Whether this consumer of the first node is one that can take its place as well."""
    is_alike = other.is_op(first.op_type) and other.graph is first.graph and not other.has_references
    return is_alike and other.inputs[0] is first.outputs[0] and _axes(other, known) is not None


def find_joined(node: ir.Node, known: Proven) -> Plan | None:
    """Plan one Concat in place of two along one axis, if nothing else reads what the first one joins."""
    for slot, value in enumerate(node.inputs):
        first = value.producer if value is not None and value.only_consumer is node else None
        if first is None or value is None or not first.is_op("Concat") or first.has_references:
            continue
        if _place(node, known.dims(value)) == _place(first, known.dims(value)) is not None:
            inputs = [*node.inputs[:slot], *first.inputs, *node.inputs[slot + 1 :]]
            return Respell(rewrites.CONCAT_AFTER_CONCAT, node, "Concat", inputs, None)
    return None


def _place(node: ir.Node, dims: Sequence[Dim] | None) -> int | None:
    """Return the axis of a Concat, which counts from the front where the rank is known."""
    axis: int | None = node.attr("axis")
    return axis + len(dims) if axis is not None and axis < 0 and dims is not None else axis


def _axes(node: ir.Node, known: Proven) -> list[int] | None:
    """Return the axes of a Squeeze or Unsqueeze; None if they are not stated, or counted from the back."""
    axes = numbers(node, "axes", known)
    return None if not axes or min(axes) < 0 or len(set(axes)) < len(axes) else axes


def _places(axes: Sequence[int], others: Sequence[int]) -> list[int]:
    """Return where axes are once the ``others`` are there as well: each is the n-th place that none of these takes."""
    free = [place for place in range(max(axes) + len(others) + 1) if place not in others]
    return [free[axis] for axis in axes]
