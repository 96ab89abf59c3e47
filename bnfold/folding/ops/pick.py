"""Slice and Gather: elements picked by constant indices. Elements that nobody picks stay what they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine, bounded, make
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.ir.tensor import Array, Float64
from bnfold.report.reasons import Declined, Reason


def slice_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """What was cut out gets its factors back, what was left aside stays."""
    for axis, window in _windows(node, affine.rank).items():
        if affine.shape[axis] != 1:
            affine = _spread(node, affine, axis, np.arange(_size(node, axis))[window])
    return wants(affine)


def slice_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """The factors are cut as the elements are."""
    for axis, window in _windows(node, affine.rank).items():
        picked = np.arange(affine.shape[axis])[window]
        if affine.shape[axis] != 1:
            affine = affine.expanded(axis, affine.shape[axis]).map(lambda block: block.take(picked, axis))  # noqa: B023
    return leaves(affine)


def _windows(node: ir.Node, rank: int) -> dict[int, slice]:
    """By axis: start, stop and step, as numpy takes them. Bounds beyond the ends are cut, as there."""
    starts, ends = facts.integers(node, 1, "starts"), facts.integers(node, 2, "ends")
    if starts is None or ends is None:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    axes = facts.integers(node, 3, "axes") or list(range(len(starts)))
    steps = facts.integers(node, 4) or [1] * len(starts)
    found = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise Declined(Reason.UNREADABLE, facts.where(node))
        found[axis % rank] = slice(start, end, step)
    return found


def gather_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """The picked axes of the output make one axis of the data."""
    axis, picked = _axis(node), facts.rank(_indices(node))
    shape = affine.shape
    if all(size == 1 for size in shape[axis : axis + picked]):
        return wants(affine.map(lambda block: block.reshape(*shape_without(block, axis, picked))))
    indices = _constant_indices(node)
    full = [*shape[:axis], *indices.shape, *shape[axis + picked :]]
    flat = [*shape[:axis], indices.size, *shape[axis + picked :]]
    lined = affine.map(lambda block: _stretched(block, axis, picked, full).reshape(_line(block, axis, picked, flat)))
    size = _size(node, axis)
    return wants(_spread(node, lined, axis, indices.reshape(-1) % size))


def shape_without(block: Float64, axis: int, picked: int) -> list[int]:
    """The block's shape with one axis of size 1 in the place of the picked ones."""
    return [*block.shape[:axis], 1, *block.shape[axis + picked :]]


def _stretched(block: Float64, axis: int, picked: int, full: list[int]) -> Float64:
    target = [*block.shape[:axis], *full[axis : axis + picked], *block.shape[axis + picked :]]
    return np.broadcast_to(block, target)


def _line(block: Float64, axis: int, picked: int, flat: list[int]) -> list[int]:
    return [*block.shape[:axis], flat[axis], *block.shape[axis + picked :]]


def gather_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """The factors are picked as the elements are; the indices' axes take the place of the one."""
    axis, picked = _axis(node), facts.rank(_indices(node))
    if affine.shape[axis] == 1:
        ones = (1,) * picked
        return leaves(affine.map(lambda block: block.reshape(*block.shape[:axis], *ones, *block.shape[axis + 1 :])))
    indices = _constant_indices(node)
    whole = affine.expanded(axis, affine.shape[axis])
    return leaves(whole.map(lambda block: block.take(indices, axis)))


def _spread(node: ir.Node, affine: Affine, axis: int, picked: Array) -> Affine:
    """The affine that picking ``picked`` along ``axis`` gives; identity where nothing is picked."""
    size, count = _size(node, axis), affine.shape[axis]
    if picked.size != count:
        raise Declined(Reason.NOT_STATIC, f"{facts.where(node)} picks {picked.size} elements of {count}")
    whole = affine.expanded(axis, count)

    def place(block: Float64, neutral: float) -> Float64:
        shape = list(block.shape)
        shape[axis] = size
        bounded(math.prod(shape))
        placed = np.full(shape, neutral)
        window: list[Any] = [slice(None)] * len(shape)
        window[axis] = picked
        placed[tuple(window)] = block
        if not np.array_equal(placed.take(picked, axis), block):
            raise Declined(Reason.SHARED_VALUE, f"{facts.where(node)} picks an element twice, scaled differently")
        return placed

    return make(place(whole.s, 1.0), place(whole.t, 0.0))


def _axis(node: ir.Node) -> int:
    data = node.input(0)
    rank = facts.rank(data) if data is not None else 0
    return int(node.attr("axis", 0)) % rank if rank else 0


def _indices(node: ir.Node) -> ir.Value:
    value = node.input(1)
    if value is None:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    return value


def _constant_indices(node: ir.Node) -> Array:
    held = ir.constant(_indices(node))
    if held is None:
        raise Declined(Reason.AXIS, f"{facts.where(node)} picks along the scaled axis, by indices computed at run time")
    return held.numpy().astype(np.int64)


def _size(node: ir.Node, axis: int) -> int:
    value = node.input(0)
    size = facts.size(value, axis) if value is not None else None
    if not isinstance(size, int):
        raise Declined(Reason.NOT_STATIC, f"the size of what {facts.where(node)} picks from")
    return bounded(size)


register(Slice=Handler(slice_up, slice_down, picks=True), Gather=Handler(gather_up, gather_down, picks=True))
