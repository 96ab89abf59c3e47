"""Two Unsqueezes, Squeezes or Concats in a row that are one; Unsqueezes before a Concat that one Reshape replaces."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.edits.edit import NewNode
from bnfold.ir.value import Dim
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import integers
from bnfold.simplifying.parameters import numbers, replacement
from bnfold.simplifying.plan import Simplification, replace


def find_axes(node: ir.Node, known: Proven) -> Simplification | None:
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
    return replacement(rewrites.SQUEEZE_PAIR.of(node.op_type), node, node.op_type, source, {"axes": integers(merged)})


def _can_follow(other: ir.Node, first: ir.Node, known: Proven) -> bool:
    """Whether this consumer of the first node is one that can take its place as well."""
    is_alike = other.is_op(first.op_type) and other.graph is first.graph and not other.has_references
    return is_alike and other.inputs[0] is first.outputs[0] and _axes(other, known) is not None


def find_joined(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan one Concat in place of two along one axis, if nothing else reads what the first one joins."""
    for slot, value in enumerate(node.inputs):
        first = value.producer if value is not None and value.only_consumer is node else None
        if first is None or value is None or not first.is_op("Concat") or first.has_references:
            continue
        if _place(node, known.dims(value)) == _place(first, known.dims(value)) is not None:
            inputs = [*node.inputs[:slot], *first.inputs, *node.inputs[slot + 1 :]]
            return replace(rewrites.CONCAT_AFTER_CONCAT, node, "Concat", inputs)
    return None


def find_stacked(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to join values as they are, and part the axis by one Reshape, if each gets the axis along which they join.

    Behind that axis there is another one, along which they are joined. At least two Unsqueezes have no other consumer.
    """
    firsts = [value.producer if value is not None else None for value in node.inputs]
    sources = [first.input(0) if first is not None and _is_plain(first, node) else None for first in firsts]
    values = [source for source in sources if source is not None]
    own = {value for value in node.inputs if value is not None and {*value.consumers} == {node}}
    if len(values) < len(firsts) or sum(not value.is_output for value in own) < 2:
        return None
    axes = {axis for first in firsts if first is not None for axis in _axes(first, known) or (-1,)}
    axis = _place(node, known.dims(node.output(0)))
    if axis is None or axes != {axis} or any(len(_axes(first, known) or ()) != 1 for first in firsts if first):
        return None
    targets = (_parted(known.dims(value), axis, len(values), known) for value in values)
    target = next((target for target in targets if target is not None), None)
    if target is None:
        return None
    joined = NewNode("Concat", values, {"axis": axis})
    return replacement(rewrites.STACKED, node, "Reshape", joined, {"shape": integers(target)})


def _is_plain(first: ir.Node, node: ir.Node) -> bool:
    return first.is_op("Unsqueeze") and first.graph is node.graph and not first.has_references


def _parted(dims: Sequence[Dim] | None, axis: int, count: int, known: Proven) -> list[int] | None:
    """Return the target of a Reshape that parts an axis into ``count`` and what a value of these dims has there.

    One size that is not known may be -1, where no other size can be zero.
    """
    if dims is None or axis >= len(dims):
        return None
    behind = [size if isinstance(size, int) else -1 for size in dims[axis:]]
    copied = all(size > 0 if isinstance(size, int) else size in known.positive for size in dims[:axis])
    if 0 in behind or behind.count(-1) > copied:
        return None
    return [*[0] * axis, count, *behind]


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
