"""Concat and Split: every part gets its own slice of the affine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine, concatenate, make
from bnfold.folding.ops.registry import ALL, Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.report.reasons import Declined, Reason


def concat_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Ask each part for its slice."""
    axis = axis_of(node, affine.rank)
    if affine.shape[axis] == 1:
        return Step(requested=tuple((slot, affine) for slot in range(len(node.inputs))))
    sizes = sizes_of(node, axis)
    return Step(requested=tuple(enumerate(_slices(affine, axis, sizes))))


def concat_down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Leave the other parts what they are."""
    return concat_joint(node, {slot: affine})


def concat_joint(node: ir.Node, pending: Mapping[int, Affine]) -> Step:
    """Take several parts at once, by slot."""
    rank = next(iter(pending.values())).rank
    axis = axis_of(node, rank)
    sizes = sizes_of(node, axis)
    untouched = identity(rank)
    parts = [pending.get(part, untouched) for part in range(len(sizes))]
    return leaves(concatenate(parts, sizes, axis))


def split_up(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Leave the other outputs what they are."""
    axis, sizes = _split(node, affine.rank)
    parts = [affine if part == slot else identity(affine.rank) for part in range(len(sizes))]
    return wants(concatenate(parts, sizes, axis))


def split_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Let each output pass its slice on."""
    axis = int(node.attr("axis", 0)) % affine.rank
    if affine.shape[axis] == 1:
        parts = [affine] * len(node.outputs)
    else:
        axis, sizes = _split(node, affine.rank)
        parts = _slices(affine, axis, sizes)
    named = [part for part, value in enumerate(node.outputs) if value is not None]
    return Step(pending=tuple((part, parts[part]) for part in named))


def identity(rank: int) -> Affine:
    """Return the affine that leaves everything alone."""
    return Affine(np.ones((1,) * rank), np.zeros((1,) * rank))


def _slices(affine: Affine, axis: int, sizes: list[int]) -> list[Affine]:
    if affine.shape[axis] != sum(sizes):
        raise Declined(Reason.NOT_STATIC, f"parts of {sizes} do not make up {affine.shape[axis]}")
    whole = affine.expanded(axis, sum(sizes))
    found, stop = [], 0
    for size in sizes:
        start, stop = stop, stop + size
        part = (slice(None),) * axis + (slice(start, stop),)
        found.append(make(whole.s[part], whole.t[part]))
    return found


def axis_of(node: ir.Node, rank: int) -> int:
    """Return the axis, which is required since opset 4, and 1 before."""
    axis = int(node.attr("axis", 1))
    if not -rank <= axis < rank:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    return axis % rank


def sizes_of(node: ir.Node, axis: int) -> list[int]:
    """Return the static sizes of all parts along an axis. Raises Declined."""
    return [facts.static_size(node, slot, axis) for slot in range(len(node.inputs))]


def _split(node: ir.Node, rank: int) -> tuple[int, list[int]]:
    """Return the axis, and the size of each output.

    Without given sizes Split cuts evenly, the last piece may be smaller.
    """
    axis, count = int(node.attr("axis", 0)) % rank, len(node.outputs)
    sizes = facts.integers(node, 1, "split")
    if sizes is None:
        whole = facts.static_size(node, 0, axis)
        piece = -(-whole // count)
        sizes = [piece] * (count - 1) + [whole - piece * (count - 1)]
        if sizes[-1] != piece and not node.has_attr("num_outputs"):
            raise Declined(Reason.UNREADABLE, f"{facts.where(node)} does not cut evenly")
    if len(sizes) != count or min(sizes) < 0:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    return axis, sizes


register(
    Concat=Handler(concat_up, concat_down, concat_joint, inputs=ALL),
    Split=Handler(split_up, split_down, reads_parts=True, outputs=ALL),
)
