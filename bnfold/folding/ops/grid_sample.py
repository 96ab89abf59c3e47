"""GridSample and DeformConv: what they read beside the image is zero, or a pixel of the image."""

from __future__ import annotations

from functools import partial

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import conv
from bnfold.folding.ops.registry import Handler, carrier, register
from bnfold.report.reasons import Declined, Reason


def grid(node: ir.Node, affine: Affine) -> Affine:
    """Pass: each new element is a mean of old ones of its channel, or partly of zeros, which keep a scale only."""
    if not affine.varies_only_on(0, 1):
        raise Declined(Reason.AXIS, f"{facts.where(node)} mixes the axes behind the channel")
    if not affine.is_scale_only and node.attr("padding_mode", "zeros") == "zeros":
        raise Declined(Reason.SHIFT_THROUGH_PADDING, facts.where(node))
    return affine


register(
    GridSample=carrier(grid),
    # An offset may lead out of the image, where zeros are.
    DeformConv=Handler(partial(conv.up, bias_slot=3), partial(conv.down, reads_zeros=True), shift="stops"),
)
