"""Nodes that leave the order of the elements alone, and give them the same shape in another way."""

from __future__ import annotations

from bnfold import ir
from bnfold.verification.changes.from_constants import fixed
from bnfold.verification.changes.partly import known_of

_KEEPING_ORDER = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_FAR = 64
"""How many such nodes in a row are followed back."""


def is_asked_for(old: ir.Node, new: ir.Node) -> bool:
    """Whether a Reshape of the rewritten model asks for the shape that is proven of the original's result.

    One size may be open. It is what the others leave of the elements, in both models.
    """
    made, target = old.output(0), fixed(new.input(1)) if new.is_op("Reshape") else None
    if not old.is_op(*_KEEPING_ORDER) or made is None or target is None:
        return False
    known, goals = known_of(old.graph.model), target.numpy().reshape(-1).tolist()
    dims = known.dims(made)
    if dims is None or len(dims) != len(goals) or goals.count(-1) > 1:
        return False
    read = new.input(0) if not new.attr("allowzero", 0) else None
    given = old.graph.values.get(read.name) if read is not None else None
    copied = (*((known.dims(given) if given is not None else None) or ()), *[None] * len(goals))
    sizes = (copied[axis] if goal == 0 else goal for axis, goal in enumerate(goals))
    return all(goal == -1 or goal == dim is not None for goal, dim in zip(sizes, dims, strict=True))


def in_order(value: ir.Value | None) -> ir.Value | None:
    """Return the value whose elements these are, in the same order, through any number of nodes."""
    for _ in range(_FAR):
        producer = value.producer if value is not None else None
        if producer is None or not (producer.is_op(*_KEEPING_ORDER) or _moves_ones(producer)):
            break
        value = producer.input(0)
    return value


def _moves_ones(node: ir.Node) -> bool:
    """Whether a node is a Transpose that moves only axes of one element."""
    source = node.input(0) if node.is_op("Transpose") else None
    dims = known_of(node.graph.model).dims(source) if source is not None else None
    if dims is None:
        return False
    order = [axis for axis in node.attr("perm", range(len(dims) - 1, -1, -1)) if dims[axis] != 1]
    return order == sorted(order)
