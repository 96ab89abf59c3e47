"""DequantizeLinear of a constant weight, ``w = (q − zero)·scale``: its scale takes an affine's, q stays integers."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Edit, SetAttr, SetConstant, Step
from bnfold.ir.evaluators import spread
from bnfold.ir.tensor import Exact, Float64, InMemory
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """``scale' = |s|·scale``; where ``s`` is negative, ``q' = 2·zero − q``, and where it is zero, ``q' = zero``."""
    stored = ir.constant(node.input(0))
    zero = ir.constant(node.input(2))
    if stored is None or (node.input(2) is not None and zero is None):
        raise Declined(Reason.DYNAMIC_WEIGHT, facts.where(node))
    if not affine.is_scale_only:
        raise Declined(Reason.SHIFT_NO_ROOM, facts.where(node))
    edits = _rescaled(node, stored, zero, np.where(affine.s == 0, 1.0, np.abs(affine.s)))
    if (affine.s <= 0).any():
        edits.append(SetConstant(node, 0, _mirrored(node, stored, zero, np.sign(affine.s))))
    return Step(tuple(edits))


def _rescaled(node: ir.Node, stored: ir.Tensor, zero: ir.Tensor | None, factor: Float64) -> list[Edit]:
    """The scale times ``factor``; one for all becomes one for each slice, with as many zero points.

    Raises Declined where the scales cannot vary along the axes that the factor varies along.
    """
    scale = facts.weight(node, 1)
    axis, block = int(node.attr("axis", 1)) % max(factor.ndim, 1), int(node.attr("block_size", 0))
    varying = [place for place, size in enumerate(factor.shape) if size > 1]
    if block:
        return [_scale(node, scale, scale.float64() * _of_blocks(node, factor, axis, block))]
    if not varying or (scale.size > 1 and varying == [axis]):
        return [_scale(node, scale, scale.float64() * factor.reshape(-1 if varying else ()))]
    if scale.size > 1 or len(varying) > 1 or node.graph.opset() < 13 or factor.size == stored.size:
        raise Declined(Reason.QUANTIZED_WEIGHT, f"{facts.where(node)} has no scale for each slice of that axis")
    fresh = scale.float64().reshape(()) * factor.reshape(-1)
    edits: list[Edit] = [_scale(node, scale, fresh), SetAttr(node, "axis", varying[0])]
    if zero is not None:
        edits.append(SetConstant(node, 2, InMemory(zero.dtype, np.broadcast_to(zero.numpy().reshape(()), fresh.shape))))
    return edits


def _scale(node: ir.Node, scale: ir.Tensor, values: Float64) -> SetConstant:
    """The edit of a scale. Raises Declined where one would round to zero, which no runtime expects."""
    fresh = Exact(scale.dtype, values)
    if not (fresh.numpy() > 0).all():
        raise Declined(Reason.RANGE, f"a scale of {facts.where(node)}")
    return SetConstant(node, 1, fresh)


def _of_blocks(node: ir.Node, factor: Float64, axis: int, block: int) -> Float64:
    """The factor of each block along ``axis``. Raises Declined where it varies within one."""
    if factor.shape[axis] == 1:
        return factor
    first = factor.take(range(0, factor.shape[axis], block), axis)
    if not np.array_equal(first.repeat(block, axis).take(range(factor.shape[axis]), axis), factor):
        raise Declined(Reason.QUANTIZED_WEIGHT, f"{facts.where(node)} has one scale for a block along that axis")
    return first


def _mirrored(node: ir.Node, stored: ir.Tensor, zero: ir.Tensor | None, sign: Float64) -> InMemory:
    """The numbers on the other side of their zero point, or at it, as ``sign`` says. Raises Declined without room.

    The zero point itself stays: runtimes want one for all channels.
    """
    centre = spread(node, zero.float64(), stored.dims) if zero is not None else np.zeros(())
    values = centre + sign * (stored.float64() - centre)
    with np.errstate(invalid="ignore"):
        fresh = values.astype(stored.numpy().dtype)
    if not np.array_equal(fresh.astype(np.float64), values):
        raise Declined(Reason.QUANTIZED_WEIGHT, f"the numbers of {facts.where(node)} have no negatives")
    return InMemory(stored.dtype, fresh)


register(DequantizeLinear=Handler(up))
