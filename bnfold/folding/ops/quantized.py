"""DequantizeLinear of a constant weight, ``w = (q − zero)·scale``: its scale takes an affine's, q stays integers."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine, vector
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import SetAttr, SetConstant, Step
from bnfold.ir.tensor import Array, Exact, Float64, Inline
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """``scale' = |s|·scale`` along the one axis; where ``s`` is negative, ``q' = 2·zero − q``."""
    scale, weight = facts.weight(node, 1), ir.constant(node.input(0))
    if weight is None or node.attr("block_size", 0):
        raise Declined(Reason.DYNAMIC_WEIGHT, facts.where(node))
    if not affine.is_scale_only:
        raise Declined(Reason.SHIFT_NO_ROOM, facts.where(node))
    if (affine.s == 0).any():
        raise Declined(Reason.ZERO_SCALE, facts.where(node))
    axis = _axis(node, scale, affine)
    if axis is None:
        factor = affine.s.reshape(())
        return Step(
            (
                SetConstant(node, 1, Exact(scale.dtype, scale.float64() * np.abs(factor))),
                *_negated(node, weight, affine.s),
            )
        )
    s = vector(affine.s, axis, weight.dims[axis])
    widened = scale.size == 1
    fresh = np.broadcast_to(scale.float64().reshape(-1), s.shape) * np.abs(s)
    extra: tuple[SetConstant | SetAttr, ...] = (SetConstant(node, 1, Exact(scale.dtype, fresh)),)
    if widened:
        extra += (SetAttr(node, "axis", axis), *_widened_zero(node, s.size))
    return Step((*extra, *_negated(node, weight, affine.s)))


def _axis(node: ir.Node, scale: ir.Tensor, affine: Affine) -> int | None:
    """The axis along which the new scale varies; None for one scale for all."""
    varying = [axis for axis, size in enumerate(affine.shape) if size > 1]
    if scale.size == 1 and not varying:
        return None
    if scale.size == 1 and len(varying) == 1 and node.graph.opset() >= 13:
        return varying[0]
    axis = int(node.attr("axis", 1)) % affine.rank
    if scale.size == 1 or len(scale.dims) != 1 or any(other != axis for other in varying):
        raise Declined(Reason.AXIS, f"the scale of {facts.where(node)} belongs to another axis")
    return axis


def _widened_zero(node: ir.Node, size: int) -> tuple[SetConstant, ...]:
    """A zero point for each channel, as the scale now has."""
    zero = ir.constant(node.input(2))
    if node.input(2) is None:
        return ()
    if zero is None:
        raise Declined(Reason.DYNAMIC_WEIGHT, facts.where(node))
    return (SetConstant(node, 2, _integers(np.broadcast_to(zero.numpy().reshape(-1), (size,)))),)


def _negated(node: ir.Node, weight: ir.Tensor, s: Float64) -> tuple[SetConstant, ...]:
    """The integers mirrored at the zero point where ``s`` is negative. Raises Declined where the type has no room."""
    if (s > 0).all():
        return ()
    q = weight.numpy()
    if q.dtype.kind not in "iu" or q.dtype.itemsize > 2:
        raise Declined(Reason.NEGATIVE_SCALE, facts.where(node))
    zero = ir.constant(node.input(2))
    if node.input(2) is not None and zero is None:
        raise Declined(Reason.DYNAMIC_WEIGHT, facts.where(node))
    centre = np.zeros((), np.int64) if zero is None else zero.numpy().astype(np.int64)
    if centre.size > 1:
        shape = [1] * q.ndim
        shape[int(node.attr("axis", 1))] = -1
        centre = centre.reshape(shape)
    mirrored = np.where(s < 0, 2 * (centre if centre.size > 1 else centre.reshape(())) - q.astype(np.int64), q)
    limits = np.iinfo(q.dtype)
    if mirrored.min() < limits.min or mirrored.max() > limits.max:
        raise Declined(Reason.NEGATIVE_SCALE, f"the integers of {facts.where(node)} have no negatives")
    return (SetConstant(node, 0, _integers(mirrored.astype(q.dtype))),)


def _integers(array: Array) -> ir.Tensor:
    return Inline(onnx.numpy_helper.from_array(np.ascontiguousarray(array)))


register(DequantizeLinear=Handler(up))
