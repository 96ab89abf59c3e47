"""Two Unsqueezes or Squeezes in a row that are one."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.simplifying.no_effect import integers
from bnfold.simplifying.plan import Operand, Plan, Respell, can_respell, only_above

_AXES_READ = 13
"""The opset since which Squeeze and Unsqueeze have their axes as an input."""


def find_axes(node: ir.Node, known: Proven) -> Plan | None:
    """Plan one Squeeze or Unsqueeze in place of two, whatever the shapes, if nothing else reads what is between."""
    first = only_above(node)
    if first is None or not first.is_op(node.op_type):
        return None
    before, behind = _axes(first, known), _axes(node, known)
    if before is None or behind is None:
        return None
    inner, outer = (behind, before) if node.op_type == "Unsqueeze" else (before, behind)
    merged = sorted([*inner, *_places(outer, inner)])
    source = first.input(0)
    is_read = node.graph.opset() >= _AXES_READ
    inputs: list[Operand] = [source, integers(merged)] if is_read else [source]
    attrs = {} if is_read else {"axes": merged}
    return Respell(f"{node.op_type} pair", node, node.op_type, inputs, attrs) if can_respell(node, inputs) else None


def _axes(node: ir.Node, known: Proven) -> list[int] | None:
    """Return the axes of a Squeeze or Unsqueeze; None if they are not stated, or counted from the back."""
    axes = node.attr("axes") if node.graph.opset() < _AXES_READ else known.numbers(node.input(1))
    return None if not axes or min(axes) < 0 or len(set(axes)) < len(axes) else axes


def _places(axes: Sequence[int], others: Sequence[int]) -> list[int]:
    """Return where axes are once the ``others`` are there as well: each is the n-th place that none of these takes."""
    free = [place for place in range(max(axes) + len(others) + 1) if place not in others]
    return [free[axis] for axis in axes]
