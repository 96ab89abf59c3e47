"""GridSample and DeformConv: what they read beside the image is zero, or a pixel of the image."""

from __future__ import annotations

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import conv, weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.report.reasons import Declined, Reason


def grid_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Each new element is a weighted mean of old ones of its channel, or partly of zeros, which keep a scale only."""
    _check_grid(node, affine)
    return wants(affine)


def grid_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """As `grid_up`."""
    _check_grid(node, affine)
    return leaves(affine)


def _check_grid(node: ir.Node, affine: Affine) -> None:
    if not affine.varies_only_on(0, 1):
        raise Declined(Reason.AXIS, f"{facts.where(node)} mixes the axes behind the channel")
    if not affine.is_scale_only and node.attr("padding_mode", "zeros") == "zeros":
        raise Declined(Reason.SHIFT_THROUGH_PADDING, facts.where(node))


def deform_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """As a Conv; its bias comes behind the offsets."""
    kernel = weights.shape_of(node, 1)
    s, t = weights.on_channels(node, affine, kernel.dims[0])
    return weights.scaled(node, 1, kernel, 0, s).plus(*conv.new_bias(node, kernel, s, t, slot=3))


def deform_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """As a Conv that pads: an offset may lead out of the image."""
    kernel, group = weights.shape_of(node, 1), int(node.attr("group", 1))
    scaled = conv.scale_inputs(node, kernel, weights.on_channels(node, affine, kernel.dims[1] * group)[0], group)
    return scaled if affine.is_scale_only else scaled.plus(conv.shift_before(node, affine))


register(GridSample=Handler(grid_up, grid_down), DeformConv=Handler(deform_up, deform_down, shift="stops"))
