"""ConvTranspose: W of dims (Ci, Co/group, k…); output channel ``o = g·(Co/group) + j`` belongs to group ``g``."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.folding.affine import Affine
from bnfold.folding.ops import weights, window
from bnfold.folding.ops.conv import new_bias, shift_before
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Scale each output channel's taps, ``b' = s·b + t``."""
    kernel, group = weights.shape_of(node, 1), int(node.attr("group", 1))
    if group < 1 or kernel.dims[0] % group:
        raise Declined(Reason.UNREADABLE, f"{kernel.dims[0]} input channels in {group} groups")
    s, t = weights.on_channels(node, affine, kernel.dims[1] * group)
    return weights.scaled_in_groups(node, kernel, s, group).plus(*new_bias(node, kernel, s, t))


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``W'[i] = W[i]·s[i]``.

    A shift reaches every output alike only through a 1×1 kernel without stride or padding.
    """
    kernel, group = weights.shape_of(node, 1), int(node.attr("group", 1))
    inputs = kernel.dims[0]
    s, t = weights.on_channels(node, affine, inputs)
    scaled = weights.scaled(node, 1, kernel, 0, s)
    if affine.is_scale_only:
        return scaled
    is_larger = any(node.attr("output_padding", ())) or node.has_attr("output_shape")
    if is_larger or not window.is_pointwise(node, kernel):
        return scaled.plus(shift_before(node, affine))
    taps = kernel.float64().reshape(group, inputs // group, kernel.dims[1])
    moved = np.einsum("gio,gi->go", taps, t.reshape(group, -1)).reshape(-1)
    return scaled.plus(*new_bias(node, kernel, np.ones(moved.size), moved))


register(ConvTranspose=Handler(up, down, shift="absorbed", bias=2))
