"""GridSample and DeformConv: what they read beside the image is zero, or a pixel of the image."""

from __future__ import annotations

from functools import partial

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import conv, weights
from bnfold.folding.ops.registry import Handler, carrier, register
from bnfold.folding.step import Step
from bnfold.report.reasons import Declined, Reason


def grid(node: ir.Node, affine: Affine) -> Affine:
    """Each new element is a weighted mean of old ones of its channel, or partly of zeros, which keep a scale only."""
    if not affine.varies_only_on(0, 1):
        raise Declined(Reason.AXIS, f"{facts.where(node)} mixes the axes behind the channel")
    if not affine.is_scale_only and node.attr("padding_mode", "zeros") == "zeros":
        raise Declined(Reason.SHIFT_THROUGH_PADDING, facts.where(node))
    return affine


def deform_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """As a Conv that pads: an offset may lead out of the image."""
    kernel, group = weights.shape_of(node, 1), int(node.attr("group", 1))
    scaled = weights.scaled_in_groups(node, kernel, weights.on_channels(node, affine, kernel.dims[1] * group)[0], group)
    return scaled if affine.is_scale_only else scaled.plus(conv.shift_before(node, affine))


register(GridSample=carrier(grid), DeformConv=Handler(partial(conv.up, bias=3), deform_down, shift="stops"))
