"""Tile, Expand, DepthToSpace, SpaceToDepth: elements repeated or dealt out anew, each with its own factor."""

from __future__ import annotations

import math

import numpy as np

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine, bounded
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.ir.tensor import Float64
from bnfold.report.reasons import Declined, Reason


def tile_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """The factors repeat as the elements do."""
    repeats = _repeats(node, affine.rank)
    tiled = [times if size > 1 else 1 for times, size in zip(repeats, affine.shape, strict=True)]
    bounded(math.prod(tiled) * math.prod(affine.shape))
    return leaves(affine.map(lambda block: np.tile(block, _only_where_it_varies(block, tiled))))


def _only_where_it_varies(block: Float64, tiled: list[int]) -> list[int]:
    return [times if size > 1 else 1 for times, size in zip(tiled, block.shape, strict=True)]


def tile_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Legal iff the affine repeats as the elements do."""
    repeats = _repeats(node, affine.rank)
    for axis, (times, size) in enumerate(zip(repeats, affine.shape, strict=True)):
        if times == 1 or size == 1:
            continue
        if times < 1 or size % times:
            raise Declined(Reason.AXIS, facts.where(node))
        head = affine.expanded(axis, size).map(lambda block: block.take(range(size // times), axis))  # noqa: B023
        again = head.map(lambda block: np.concatenate([block] * times, axis) if block.shape[axis] > 1 else block)  # noqa: B023
        if not again.same(affine):
            raise Declined(Reason.AXIS, f"{facts.where(node)} repeats elements with different scales or shifts")
        affine = head
    return wants(affine)


def _repeats(node: ir.Node, rank: int) -> list[int]:
    repeats = facts.integers(node, 1)
    if repeats is None or len(repeats) != rank or node.graph.opset() < 6:
        raise Declined(Reason.NO_HANDLER, facts.where(node))
    return repeats


def expand_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Broadcasting adds axes in front; those that are stretched had size 1, where nothing varies."""
    output = node.output(0)
    if output is None:
        raise Declined(Reason.NO_HANDLER, f"{facts.where(node)} has no output")
    missing = facts.rank(output) - affine.rank
    return leaves(affine.map(lambda block: block.reshape((1,) * missing + block.shape)))


def expand_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Legal iff the axes that the affine varies along are there in full before."""
    x = node.input(0)
    dims = facts.dims(x) if x is not None else ()
    missing, shape = affine.rank - len(dims), affine.shape
    full = all(size == 1 for size in shape[:missing]) and all(
        size in (1, dim) for size, dim in zip(shape[missing:], dims, strict=True)
    )
    if not full:
        raise Declined(Reason.AXIS, f"{facts.where(node)} repeats elements with different scales or shifts")
    return wants(affine.map(lambda block: block.reshape(block.shape[missing:])))


def to_space(node: ir.Node, _: int, affine: Affine) -> Step:
    """Up DepthToSpace: each output channel's factor goes to the channels that were dealt out into it."""
    area = _area(node, affine)
    if node.attr("mode", "DCR") == "CRD":
        return wants(affine.map(lambda block: _per_channel(block, np.repeat, area)))
    return wants(affine.map(lambda block: _per_channel(block, np.tile, area)))


def from_depth(node: ir.Node, _: int, affine: Affine) -> Step:
    """Down DepthToSpace: legal iff the channels that are dealt out into one have one factor."""
    return leaves(_gathered(node, affine, node.attr("mode", "DCR") == "CRD"))


def to_depth(node: ir.Node, _: int, affine: Affine) -> Step:
    """Up SpaceToDepth, which deals one channel out into several: as down DepthToSpace, in its DCR order."""
    return wants(_gathered(node, affine, False))


def from_space(node: ir.Node, _: int, affine: Affine) -> Step:
    """Down SpaceToDepth."""
    area = _area(node, affine)
    return leaves(affine.map(lambda block: _per_channel(block, np.tile, area)))


def _per_channel(block: Float64, spread: object, area: int) -> Float64:
    assert callable(spread)
    if block.shape[1] == 1:
        return block
    bounded(block.size * area)
    moved: Float64 = spread(block.reshape(-1), area)
    return moved.reshape(1, -1, 1, 1)


def _gathered(node: ir.Node, affine: Affine, depth_last: bool) -> Affine:
    area, channels = _area(node, affine), affine.shape[1]
    if channels == 1:
        return affine
    if channels % area:
        raise Declined(Reason.UNREADABLE, facts.where(node))

    def gather(block: Float64) -> Float64:
        if block.shape[1] == 1:
            return block
        grid = block.reshape(-1, area).T if depth_last else block.reshape(area, -1)
        if (grid != grid[:1]).any():
            raise Declined(Reason.AXIS, f"{facts.where(node)} mixes channels with different scales or shifts")
        return np.ascontiguousarray(grid[0]).reshape(1, -1, 1, 1)

    return affine.map(gather)


def _area(node: ir.Node, affine: Affine) -> int:
    if affine.rank != 4 or not affine.varies_only_on(1):
        raise Declined(Reason.AXIS, f"{facts.where(node)} mixes the axes behind the channel")
    size = int(node.attr("blocksize", 0))
    if size < 1:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    return size * size


register(
    Tile=Handler(tile_up, tile_down),
    Expand=Handler(expand_up, expand_down),
    DepthToSpace=Handler(to_space, from_depth),
    SpaceToDepth=Handler(to_depth, from_space),
)
