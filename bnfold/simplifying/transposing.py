"""Transpose: one that moves nothing, two in a row, and one of axes that are joined for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.traits import RESHAPING
from bnfold.ir.value import Dim, moves_ones
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import skip
from bnfold.simplifying.plan import Simplification, bypass, only_above, replace


def find_transpose(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to leave out a Transpose that moves nothing, or to make one of two."""
    order = _order(node, known)
    if order is None:
        return None
    return skip(node, rewrites.TRANSPOSE_NOTHING) if order == sorted(order) else _one_of_two(node, order, known)


def keeps_order(node: ir.Node, known: Proven) -> bool:
    """Whether a Transpose moves only axes of one element, so that it is a Reshape."""
    dims, order = known.dims(node.input(0)), _order(node, known)
    return dims is not None and order is not None and moves_ones(order, dims)


def _one_of_two(node: ir.Node, order: list[int], known: Proven) -> Simplification | None:
    middle = node.input(0)
    first = middle.producer if middle is not None else None
    if first is None or not first.is_op("Transpose") or first.graph is not node.graph or first.has_references:
        return None
    inner, source = _order(first, known), first.input(0)
    if middle is None or inner is None or source is None or len(inner) != len(order):
        return None
    both = [inner[axis] for axis in order]
    if both == sorted(both):
        return bypass(rewrites.TRANSPOSE_PAIR, node, source)
    if middle.only_consumer is not node:
        return None
    return replace(rewrites.TRANSPOSE_AFTER_TRANSPOSE, node, "Transpose", [source], {"perm": both})


def _order(node: ir.Node, known: Proven) -> list[int] | None:
    order = node.attr("perm")
    if order is None:  # all axes the other way round
        dims = known.dims(node.input(0))
        return None if dims is None else [*reversed(range(len(dims)))]
    return order if sorted(order) == [*range(len(order))] else None


def find_joined_axes(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan one Transpose in place of a Reshape that joins axes, a Transpose, and a Reshape that parts them again.

    PyTorch exports the transposed keys of attention so, because it joins the batch and the heads before.
    """
    turned = only_above(node)
    joined = only_above(turned) if turned is not None and turned.is_op("Transpose") else None
    if turned is None or joined is None or not joined.is_op(*RESHAPING) or joined.graph is not node.graph:
        return None
    source, order = joined.input(0), _order(turned, known)
    dims, between, made = known.dims(source), known.dims(joined.output(0)), known.dims(node.output(0))
    if dims is None or between is None or made is None or order is None or len(order) != len(between):
        return None
    groups = _groups(dims, between)
    perm = [axis for place in order for axis in groups[place]] if groups is not None else []
    if not perm or None in made or [dims[axis] for axis in perm] != [*made]:
        return None
    return replace(rewrites.JOINED_AXES, node, "Transpose", [source], {"perm": perm})


def _groups(dims: Sequence[Dim], joined: Sequence[Dim]) -> list[range] | None:
    """Return the axes that became each of the ``joined`` ones; one of these may stand for several.

    Where the others have their sizes, its size is the product of those that are left, or there are no elements at all.
    """
    front = _equal(dims, joined)
    back = _equal(dims[front:][::-1], joined[front:][::-1])
    if front + back != len(joined) - 1 or front + back > len(dims):
        return None
    behind = len(dims) - back
    return [
        *(range(axis, axis + 1) for axis in range(front)),
        range(front, behind),
        *(range(axis, axis + 1) for axis in range(behind, len(dims))),
    ]


def _equal(dims: Sequence[Dim], others: Sequence[Dim]) -> int:
    """Return how many sizes are equal from the front on."""
    pairs = takewhile(lambda pair: pair[0] is not None and pair[0] == pair[1], zip(dims, others, strict=False))
    return len([*pairs])
