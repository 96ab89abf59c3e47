"""Tile, Expand, DepthToSpace, SpaceToDepth: elements repeated or dealt out anew, each with its own factor."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bnfold import ir
from bnfold.folding import facts, shapes
from bnfold.folding.affine import Affine, bounded
from bnfold.folding.ops import elementwise_nary
from bnfold.folding.ops.registry import carrier, register
from bnfold.ir.tensor import Float64
from bnfold.report.reasons import Declined, Reason


def tile_down(node: ir.Node, affine: Affine) -> Affine:
    """Repeat the factors as the elements do."""
    repeats = _repeats(node, affine.rank)

    def tiled(block: Float64) -> Float64:
        times = [count if size > 1 else 1 for count, size in zip(repeats, block.shape, strict=True)]
        bounded(math.prod(times) * block.size)
        return np.tile(block, times)

    return affine.map(tiled)


def tile_up(node: ir.Node, affine: Affine) -> Affine:
    """Pass, legal iff the affine repeats as the elements do."""
    head = affine
    for axis, times in enumerate(_repeats(node, affine.rank)):
        first = range(affine.shape[axis] // max(times, 1))
        if times != 1 and affine.shape[axis] > 1:
            head = head.expanded(axis, affine.shape[axis]).map(lambda block: block.take(first, axis))  # noqa: B023
    if not tile_down(node, head).same(affine):
        raise Declined(Reason.AXIS, f"{facts.where(node)} repeats elements with different scales or shifts")
    return head


def _repeats(node: ir.Node, rank: int) -> list[int]:
    repeats = facts.integers(node, 1)
    if repeats is None or len(repeats) != rank or node.graph.opset() < 6:
        raise Declined(Reason.NO_HANDLER, facts.where(node))
    return repeats


def expand_down(node: ir.Node, affine: Affine) -> Affine:
    """Pass: broadcasting adds axes in front; those that are stretched had size 1, where nothing varies."""
    if (output := node.output(0)) is None:
        raise Declined(Reason.NO_HANDLER, f"{facts.where(node)} has no output")
    return affine.lifted(shapes.rank(output))


def expand_up(node: ir.Node, affine: Affine) -> Affine:
    """Pass, legal iff the axes that the affine varies along are there in full before."""
    return elementwise_nary.fitted(node, facts.operand(node, 0), affine)


def dealt(node: ir.Node, affine: Affine) -> Affine:
    """Go from each channel of the shallow side to all those of the deep one that have its elements."""
    area, deal = _area(node, affine), np.repeat if _is_depth_last(node) else np.tile
    return affine.map(lambda block: _per_channel(block, deal, area))


def gathered(node: ir.Node, affine: Affine) -> Affine:
    """Go from the deep side to the shallow one, legal iff the channels that make up one have one factor."""
    area, channels = _area(node, affine), affine.shape[1]
    if channels == 1:
        return affine
    if channels % area:
        raise Declined(Reason.UNREADABLE, facts.where(node))

    def gather(block: Float64) -> Float64:
        if block.shape[1] == 1:
            return block
        grid = block.reshape(-1, area).T if _is_depth_last(node) else block.reshape(area, -1)
        if (grid != grid[:1]).any():
            raise Declined(Reason.AXIS, f"{facts.where(node)} mixes channels with different scales or shifts")
        return np.ascontiguousarray(grid[0]).reshape(1, -1, 1, 1)

    return affine.map(gather)


def _is_depth_last(node: ir.Node) -> bool:
    return bool(node.op_type == "DepthToSpace" and node.attr("mode", "DCR") == "CRD")


def _per_channel(block: Float64, spread: Callable[[Float64, int], Float64], area: int) -> Float64:
    if block.shape[1] == 1:
        return block
    bounded(block.size * area)
    return spread(block.reshape(-1), area).reshape(1, -1, 1, 1)


def _area(node: ir.Node, affine: Affine) -> int:
    if affine.rank != 4 or not affine.varies_only_on(1):
        raise Declined(Reason.AXIS, f"{facts.where(node)} mixes the axes behind the channel")
    size = int(node.attr("blocksize", 0))
    if size < 1:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    return size * size


register(
    Tile=carrier(tile_up, tile_down),
    Expand=carrier(expand_up, expand_down),
    DepthToSpace=carrier(dealt, gathered),
    SpaceToDepth=carrier(gathered, dealt),
)
