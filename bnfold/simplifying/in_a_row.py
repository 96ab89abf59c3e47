"""Two nodes of one operator in a row that are one: Slices of different axes, Unsqueezes, Squeezes."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.simplifying.no_effect import integers
from bnfold.simplifying.plan import Operand, Plan, Respell, can_respell

_FIRST = 10
"""The opset since which a Slice has its numbers as inputs."""
_AXES_READ = 13
"""The same of the axes of Squeeze and Unsqueeze."""


def find_slices(node: ir.Node, known: Proven) -> Plan | None:
    """Plan one Slice in place of two of different axes, if all that reads the first one is such Slices."""
    middle = node.input(0)
    first = middle.producer if middle is not None else None
    if middle is None or first is None or not first.is_op("Slice") or middle.is_output or node.graph.opset() < _FIRST:
        return None
    rows = _slices(first, known)
    if rows is None or not all(_is_beside(consumer, middle, rows, known) for consumer in middle.consumers):
        return None
    mine = _slices(node, known)
    if mine is None:
        return None
    numbers: list[Operand] = [integers([*one, *two]) for one, two in zip(rows, mine, strict=True)]
    inputs = [first.input(0), *numbers]
    return Respell("Slice pair", node, "Slice", inputs, {}) if can_respell(node, inputs) else None


def _slices(node: ir.Node, known: Proven) -> list[list[int]] | None:
    """Return starts, ends, axes and steps; None if one is not known, or an axis is counted from the back."""
    starts, ends = known.numbers(node.input(1)), known.numbers(node.input(2))
    if starts is None or ends is None:
        return None
    axes = [*range(len(starts))] if node.input(3) is None else known.numbers(node.input(3))
    steps = [1] * len(starts) if node.input(4) is None else known.numbers(node.input(4))
    if (
        axes is None
        or steps is None
        or min(axes, default=-1) < 0
        or len(set(map(len, (starts, ends, axes, steps)))) > 1
    ):
        return None
    return [starts, ends, axes, steps]


def _is_beside(consumer: ir.Node, middle: ir.Value, rows: list[list[int]], known: Proven) -> bool:
    """Whether a consumer is a Slice of this value, of other axes than the rows have, in the same graph."""
    first = middle.producer
    if first is None or not consumer.is_op("Slice") or consumer.graph is not first.graph or consumer.has_references:
        return False
    mine = _slices(consumer, known)
    is_once = consumer.inputs.count(middle) == 1 and consumer.input(0) is middle
    return mine is not None and is_once and set(mine[2]).isdisjoint(rows[2])


def find_axes(node: ir.Node, known: Proven) -> Plan | None:
    """Plan one Squeeze or Unsqueeze in place of two, whatever the shapes, if nothing else reads what is between."""
    middle = node.input(0)
    first = middle.producer if middle is not None else None
    if middle is None or first is None or not first.is_op(node.op_type) or middle.only_consumer is not node:
        return None
    if first.graph is not node.graph or first.has_references:
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
