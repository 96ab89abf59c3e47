"""A shift before a Conv that pads with zeros: what it comes to behind the Conv, which is less near the border.

Another form beside an Add in front (`conv.down`): ``Conv(s·x + t) = Conv'(x) + Conv(t)``, where ``Conv(t)``, zeros put
around it, is a constant of the output's size. It needs no division by ``s``, and may move on.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from bnfold import ir
from bnfold.edits.edit import ExtraAdd
from bnfold.folding import facts
from bnfold.folding.affine import Affine, bounded, make
from bnfold.folding.ops import conv, weights, window
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.ir.tensor import Float64, Tensor
from bnfold.report.reasons import Declined, Reason


def down(node: ir.Node, slot: int, affine: Affine, *, moves_on: bool) -> Step:
    """Leave the shift's image on the output, for whatever reads that to deal with; or it is added behind the Conv."""
    if affine.is_scale_only or not affine.varies_only_on(1) or not window.pads(node):
        return conv.down(node, slot, affine)
    kernel, group = weights.shape_of(node, 1), int(node.attr("group", 1))
    s, t = weights.on_channels(node, affine, kernel.dims[1] * group)
    scaled, image = weights.scaled_in_groups(node, kernel, s, group), _image(node, kernel, t, group)
    if moves_on:
        return scaled.plus(pending=((0, make(np.ones((1,) * image.ndim), image)),))
    return scaled.plus(ExtraAdd(node, 0, image, facts.float_type(node.output(0))))


def _image(node: ir.Node, kernel: Tensor, t: Float64, group: int) -> Float64:
    """Use ``Conv(t)`` of dims (1, Co, …), 1 on spatial axes without padding. Axis by axis: what is inside is a box."""
    outputs, taps = kernel.dims[0], kernel.dims[2:]
    by_group = kernel.float64().reshape(group, outputs // group, kernel.dims[1], *taps)
    image: Float64 = np.einsum("goi...,gi->go...", by_group, t.reshape(group, -1)).reshape(outputs, *taps)
    for axis, reach in enumerate(taps):
        within = inside(node, axis, reach, len(taps))
        bounded(image.size // max(reach, 1) * within.shape[1])
        image = np.tensordot(image, within, axes=([1], [0]))
    return image[None]


def inside(node: ir.Node, axis: int, taps: int, rank: int) -> Float64:
    """Return 1 where a tap (row) reads the image at an output position (column), 0 where it reads padding."""
    padding = window.around(node, axis, taps, rank)
    if padding == (0, 0) and not node.attr("ceil_mode", 0):
        return np.ones((taps, 1))
    size = facts.static_size(node, 0, 2 + axis)
    stride, dilation = (window.per_axis(node, name, rank)[axis] for name in ("strides", "dilations"))
    reach, (first, last) = (taps - 1) * dilation + 1, padding or (0, 0)
    beyond = stride - 1 if node.attr("ceil_mode", 0) else 0
    count = (size + first + last - reach + beyond) // stride + 1
    if count < 1:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    bounded(taps * count)
    at = np.arange(taps)[:, None] * dilation + np.arange(count) * stride - first
    return ((at >= 0) & (at < size)).astype(np.float64)


FORMS = {"carried": partial(down, moves_on=True), "behind": partial(down, moves_on=False)}

register(Conv=Handler(conv.up, conv.down, forms=FORMS, shift="absorbed", bias=2))
