"""Conv: ``y = W⋆x + b``, W of dims (Co, Ci/group, k…), any rank, group, stride, dilation and padding."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.fold import facts
from bnfold.fold.affine import Affine, vector
from bnfold.fold.step import SetConstant, Step
from bnfold.ir.tensor import Exact, Float64, Scaled, Tensor
from bnfold.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """``W' = s·W`` on the output channels, ``b' = s·b + t``."""
    kernel = facts.weight(node, 1)
    if not affine.varies_only_on(1):
        raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} scales channels only")
    channels = kernel.dims[0]
    s, t = vector(affine.s, 1, channels), vector(affine.t, 1, channels)
    return Step(edits=(SetConstant(node, 1, Scaled(kernel, [(0, s)])), *new_bias(node, kernel, s, t)))


def new_bias(node: ir.Node, kernel: Tensor, s: Float64, t: Float64) -> tuple[SetConstant, ...]:
    """The edit for ``b' = s·b + t``; none where there was no bias and none is needed."""
    if node.input(2) is None and not t.any():
        return ()
    bias = facts.weight(node, 2).float64() if node.input(2) is not None else np.zeros(())
    if bias.ndim and bias.shape != t.shape:
        raise Declined(Reason.AXIS, f"the bias of {node.op_type} {node.label!r} has {bias.size} elements for {t.size} channels")
    return (SetConstant(node, 2, Exact(kernel.dtype, s * bias + t), hint=f"{node.label}_bias"),)


def down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """``W'[o,i] = W[o,i]·s[i]``, ``b' = b + Σ W[o,i,k]·t[i]``; a shift only where no zero padding dilutes it."""
    if slot != 0:
        raise Declined(Reason.DYNAMIC_WEIGHT, f"{node.op_type} {node.label!r} uses the value as its weight")
    kernel = facts.weight(node, 1)
    if not affine.varies_only_on(1):
        raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} scales channels only")
    group = int(node.attr("group", 1))
    outputs, inputs = kernel.dims[0], kernel.dims[1] * group
    s, t = vector(affine.s, 1, inputs), vector(affine.t, 1, inputs)
    if not affine.is_scale_only and pads(node):
        raise Declined(Reason.SHIFT_THROUGH_PADDING, f"{node.op_type} {node.label!r}")
    scaled = scale_inputs(kernel, s, group)
    if affine.is_scale_only:
        return Step(edits=(SetConstant(node, 1, scaled),))
    reach = kernel.float64().reshape(group, outputs // group, kernel.dims[1], -1).sum(axis=3)
    moved = np.einsum("goi,gi->go", reach, t.reshape(group, -1)).reshape(outputs)
    return Step(edits=(SetConstant(node, 1, scaled), *new_bias(node, kernel, np.ones(outputs), moved)))


def scale_inputs(kernel: Tensor, s: Float64, group: int) -> Tensor:
    """The kernel with ``s`` of the input channels multiplied in."""
    if group == 1:
        return Scaled(kernel, [(1, s)])
    by_group = s.reshape(group, -1)
    if kernel.dims[1] == 1 or (by_group == by_group[:, :1]).all():
        return Scaled(kernel, [(0, np.repeat(by_group[:, 0], kernel.dims[0] // group))])
    factors = np.repeat(by_group, kernel.dims[0] // group, axis=0)
    return Exact(kernel.dtype, kernel.float64() * factors.reshape(*factors.shape, *(1,) * (len(kernel.dims) - 2)))


def pads(node: ir.Node) -> bool:
    """Whether zeros may be put around the input."""
    mode = node.attr("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return any(node.attr("pads", ()))
    return bool(mode != "VALID" and not _same_needs_none(node))


def _same_needs_none(node: ir.Node) -> bool:
    """Whether SAME_* padding comes to nothing: static sizes, and windows that fit."""
    x, kernel = node.input(0), ir.constant(node.input(1))
    shape = facts.known_dims(x) if x is not None else None
    if shape is None or kernel is None:
        return False
    spatial = len(kernel.dims) - 2
    strides, dilations = node.attr("strides", [1] * spatial), node.attr("dilations", [1] * spatial)
    for size, taps, stride, dilation in zip(shape[2:], kernel.dims[2:], strides, dilations, strict=True):
        reach = (taps - 1) * dilation + 1
        if reach == 1 and stride == 1:
            continue
        if not isinstance(size, int) or (-(-size // stride) - 1) * stride + reach > size:
            return False
    return True
