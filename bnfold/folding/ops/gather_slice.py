"""Slice and Gather: elements picked by constant indices. Elements that are not selected stay as they are."""

from __future__ import annotations

import math

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.shapes.disputed import LARGEST_END
from bnfold.folding import facts, shapes
from bnfold.folding.affine import Affine, bounded, make
from bnfold.folding.ops.registry import carrier, register
from bnfold.ir.tensor import Array, Float64
from bnfold.report.reasons import Declined, Reason


def slice_up(node: ir.Node, affine: Affine) -> Affine:
    """Return what was cut out gets its factors back, what was left aside stays."""
    for axis, window in _windows(node, affine.rank).items():
        if affine.shape[axis] != 1:
            affine = _spread(node, affine, axis, np.arange(_size(node, axis))[window])
    return affine


def slice_down(node: ir.Node, affine: Affine) -> Affine:
    """Cut the factors as the elements are."""
    for axis, window in _windows(node, affine.rank).items():
        taken = np.arange(affine.shape[axis])[window]
        if affine.shape[axis] != 1:
            affine = affine.expanded(axis, affine.shape[axis]).map(lambda block: block.take(taken, axis))  # noqa: B023
    return affine


def _windows(node: ir.Node, rank: int) -> dict[int, slice]:
    """Return windows by axis: start, stop and step, as numpy takes them. Bounds beyond the ends are cut, as there."""
    starts, ends = facts.integers(node, 1, "starts"), facts.integers(node, 2, "ends")
    if starts is None or ends is None:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    axes = facts.integers(node, 3, "axes") or list(range(len(starts)))
    steps = facts.integers(node, 4) or [1] * len(starts)
    found = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise Declined(Reason.UNREADABLE, facts.where(node))
        if step < 0 and end >= LARGEST_END:
            raise Declined(Reason.NOT_STATIC, f"{facts.where(node)} goes backward to an end beyond all elements")
        found[axis % rank] = slice(start, end, step)
    return found


def gather_up(node: ir.Node, affine: Affine) -> Affine:
    """Make the picked axes of the output one axis of the data."""
    axis, added = _axis(node), shapes.rank(facts.operand(node, 1))
    if all(size == 1 for size in affine.shape[axis : axis + added]):
        return affine.map(lambda block: block.reshape((*block.shape[:axis], 1, *block.shape[axis + added :])))
    indices = _constant_indices(node)

    def lined(block: Float64) -> Float64:
        before, behind = block.shape[:axis], block.shape[axis + added :]
        return np.broadcast_to(block, (*before, *indices.shape, *behind)).reshape((*before, indices.size, *behind))

    return _spread(node, affine.map(lined), axis, indices.reshape(-1) % _size(node, axis))


def gather_down(node: ir.Node, affine: Affine) -> Affine:
    """Pick the factors as the elements are; the indices' axes take the place of the one."""
    axis, added = _axis(node), shapes.rank(facts.operand(node, 1))
    if affine.shape[axis] == 1:
        ones = (1,) * added
        return affine.map(lambda block: block.reshape((*block.shape[:axis], *ones, *block.shape[axis + 1 :])))
    indices = _constant_indices(node)
    return affine.expanded(axis, affine.shape[axis]).map(lambda block: block.take(indices, axis))


def _spread(node: ir.Node, affine: Affine, axis: int, indices: Array) -> Affine:
    """Return the affine that picking ``indices`` along ``axis`` gives; identity where nothing is picked."""
    size, count = _size(node, axis), affine.shape[axis]
    if indices.size != count:
        raise Declined(Reason.NOT_STATIC, f"{facts.where(node)} picks {indices.size} elements of {count}")
    whole = affine.expanded(axis, count)

    def place(block: Float64, neutral: float) -> Float64:
        shape = list(block.shape)
        shape[axis] = size
        bounded(math.prod(shape))
        placed = np.full(shape, neutral)
        np.moveaxis(placed, axis, 0)[indices] = np.moveaxis(block, axis, 0)
        if not np.array_equal(placed.take(indices, axis), block):
            raise Declined(Reason.SHARED_VALUE, f"{facts.where(node)} picks an element twice, scaled differently")
        return placed

    return make(place(whole.s, 1.0), place(whole.t, 0.0))


def _axis(node: ir.Node) -> int:
    return int(node.attr("axis", 0)) % shapes.rank(facts.operand(node, 0))


def _constant_indices(node: ir.Node) -> Array:
    held = analysis.constant(facts.operand(node, 1))
    if held is None:
        raise Declined(Reason.AXIS, f"{facts.where(node)} picks along the scaled axis, by indices computed at run time")
    if held.size and 0 in (facts.operand(node, 0).shape or ()):
        raise Declined(Reason.UNREADABLE, f"{facts.where(node)} picks from an axis without elements")
    return held.numpy().astype(np.int64)


def _size(node: ir.Node, axis: int) -> int:
    return bounded(facts.static_size(node, 0, axis))


register(
    Slice=carrier(slice_up, slice_down, reads_parts=True), Gather=carrier(gather_up, gather_down, reads_parts=True)
)
