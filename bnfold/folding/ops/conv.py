"""Conv: ``y = W⋆x + b``, W of dims (Co, Ci/group, k…), any rank, group, stride, dilation and padding."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.edits.edit import Edit, ExtraAdd, SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import weights, window
from bnfold.folding.step import Step
from bnfold.ir.tensor import Exact, Float64, Tensor
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine, *, bias_slot: int = 2) -> Step:
    """Use ``W' = s·W`` on the output channels, ``b' = s·b + t``, where ``bias_slot`` is the input that holds ``b``."""
    kernel = weights.shape_of(node, 1)
    s, t = weights.on_channels(node, affine, kernel.dims[0])
    return weights.scaled(node, 1, kernel, 0, s).plus(*new_bias(node, kernel, s, t, bias_slot))


def new_bias(node: ir.Node, kernel: Tensor, s: Float64, t: Float64, slot: int = 2) -> tuple[Edit, ...]:
    """Return the edit ``b' = s·b + t``, or no edit if there is no bias and none is needed."""
    if node.input(slot) is None and not np.count_nonzero(t):
        return ()
    if node.input(slot) is not None:
        bias = facts.weight(node, slot).float64()
        if bias.ndim and bias.shape != t.shape:
            what = f"{bias.size} elements for {t.size} channels"
            raise Declined(Reason.AXIS, f"the bias of {facts.where(node)} has {what}")
        t = s * bias + t
    return (SetConstant(node, slot, Exact(kernel.dtype, t), hint="bias"),)


def bias(node: ir.Node, channels: int) -> Float64:
    """Return the bias of each channel. Raises Declined if it is no constant vector of length ``channels``."""
    if node.input(2) is None:
        return np.zeros(channels)
    added = facts.weight(node, 2).float64()
    if added.shape != (channels,):
        raise Declined(Reason.UNREADABLE, f"the bias of {facts.where(node)} has dims {list(added.shape)}")
    return added


def down(node: ir.Node, _: int, affine: Affine, *, reads_zeros: bool = False) -> Step:
    """Use ``W'[o,i] = W[o,i]·s[i]``, ``b' = b + Σ W[o,i,k]·t[i]``.

    With zero padding the shift cannot move into the bias, because the padding is not shifted: an Add of ``t/s`` is put
    in front of the node, and only the scale goes into the weight.
    """
    kernel, group = weights.shape_of(node, 1), int(node.attr("group", 1))
    outputs = kernel.dims[0]
    s, t = weights.on_channels(node, affine, kernel.dims[1] * group)
    scaled = weights.scaled_in_groups(node, kernel, s, group)
    if affine.is_scale_only:
        return scaled
    if reads_zeros or window.pads(node):
        return scaled.plus(shift_before(node, affine))
    if 0 in kernel.dims:
        raise Declined(Reason.UNREADABLE, f"the weight of {facts.where(node)} has no elements")
    reach = kernel.float64().reshape(group, outputs // group, kernel.dims[1], -1).sum(axis=3)
    moved = np.einsum("goi,gi->go", reach, t.reshape(group, -1)).reshape(outputs)
    return scaled.plus(*new_bias(node, kernel, np.ones(outputs), moved))


def shift_before(node: ir.Node, affine: Affine) -> ExtraAdd:
    """Put an Add of ``t/s`` in front of the node, and leave only the scale. Raises Declined if s = 0 and t ≠ 0."""
    if ((affine.s == 0) & (affine.t != 0)).any():
        raise Declined(Reason.ZERO_SCALE, facts.where(node))
    with np.errstate(all="ignore"):
        block = np.where(affine.t != 0, affine.t / affine.s, 0.0)
    return ExtraAdd(node, 0, block, facts.float_type(node.input(0)), "before")
