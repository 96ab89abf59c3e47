"""Nodes that leave the order of the elements alone, and give them the same shape in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import numpy as np

from bnfold import ir
from bnfold.ir.value import Dims, moves_ones
from bnfold.reference.operators import RESHAPING
from bnfold.verification.changes.from_constants import fixed
from bnfold.verification.changes.partly import Partly, known_of

_FAR = 64
"""How many such nodes in a row are followed back."""


def is_asked_for(old: ir.Node, new: ir.Node, are_equal: Callable[[ir.Value, ir.Value | None], bool]) -> bool:
    """Whether a Reshape of the rewritten model asks for the shape that is proven of the original's result.

    It reads what the original's node reads, or what that is made from by such nodes; ``are_equal`` compares values. One
    size may be open. It is what the others leave of the elements, in both models.
    """
    made, target = old.output(0), fixed(new.input(1)) if new.is_op("Reshape") else None
    if not old.has_trait(RESHAPING) or made is None or target is None or old.has_references or new.has_references:
        return False
    known, goals = known_of(old.graph.model), target.numpy().reshape(-1).tolist()
    dims = _proven(old, made)
    if dims is None or len(dims) != len(goals) or goals.count(-1) > 1:
        return False
    if -1 in goals and 0 in goals and not _is_open(old, goals.index(-1)):
        return False  # of no elements, it would not be known how many are left
    data = next((value for value in _in_order(old.input(0)) if are_equal(value, new.input(0))), None)
    if data is None:
        return False
    sizes = _asked(goals, () if new.attr("allowzero", 0) else known.dims(data) or ())
    return all(goal == -1 or goal == dim is not None for goal, dim in zip(sizes, dims, strict=True))


def _proven(node: ir.Node, made: ir.Value) -> Dims | None:
    """Return the sizes of a result, as inferred, or as the target of a Reshape states them."""
    known = known_of(node.graph.model)
    dims, target = known.dims(made), _target(node)
    if target is None or (dims is not None and len(dims) != target.elements.size):
        return dims
    stated = np.where(target.unknown, 0, target.elements).tolist()
    return tuple(size if size > 0 else dim for size, dim in zip(stated, dims or [None] * len(stated), strict=True))


def _target(node: ir.Node) -> Partly | None:
    """Return what is known of the target of a Reshape."""
    stated = node.input(1) if node.is_op("Reshape") else None  # up to opset 4, it is an attribute
    found = known_of(node.graph.model).of(stated) if stated is not None else None
    return found if found is not None and found.elements.ndim == 1 else None


def _asked(goals: Sequence[int], given: Dims) -> Iterator[int | str | None]:
    """Yield the sizes of a target; 0 stands for the size that is ``given`` on this axis, None for one not known."""
    for goal, size in zip_longest(goals, given[: len(goals)]):
        yield size if goal == 0 else goal


def _is_open(node: ir.Node, axis: int) -> bool:
    """Whether a Reshape leaves the size of an axis to be inferred as well."""
    target = _target(node)
    return target is not None and not target.unknown[axis] and target.elements[axis] == -1


def _in_order(value: ir.Value | None) -> Iterator[ir.Value]:
    """Yield the value, and those whose elements it has in the same order, through any number of nodes."""
    for _ in range(_FAR):
        if value is None:
            return
        yield value
        producer = value.producer
        if producer is None or not (producer.has_trait(RESHAPING) or _moves_ones(producer)):
            return
        value = producer.input(0)


def _moves_ones(node: ir.Node) -> bool:
    """Whether a node is a Transpose that moves only axes of one element."""
    source = node.input(0) if node.is_op("Transpose") else None
    dims = known_of(node.graph.model).dims(source) if source is not None else None
    if dims is None or node.has_references:
        return False
    return moves_ones(node.attr("perm", [*reversed(range(len(dims)))]), dims)
