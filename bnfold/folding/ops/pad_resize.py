"""Pad and Resize: along their axes an affine may not vary; what they make up must be an average of what is there."""

from __future__ import annotations

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.shapes import disputed
from bnfold.edits.edit import SetAttr, SetConstant
from bnfold.folding import facts, shapes
from bnfold.folding.affine import Affine
from bnfold.folding.ops import weights
from bnfold.folding.ops.registry import Handler, carrier, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.report.reasons import Declined, Reason

MIRRORS = ("reflect", "edge", "wrap")


def pad_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``s·pad(x, v) + t = pad(s·x + t, s·v + t)``."""
    return wants(affine, *_pad(node, affine, inward=False))


def pad_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``pad(s·x + t, v) = s·pad(x, (v − t)/s) + t``."""
    return leaves(affine, *_pad(node, affine, inward=True))


def _pad(node: ir.Node, affine: Affine, *, inward: bool) -> tuple[SetAttr | SetConstant, ...]:
    """Pad: the border is of the same kind as the inside.

    A constant one takes the map (downward: its inverse) itself.
    """
    padded = _padded_axes(node, affine.rank)
    if any(affine.shape[axis] != 1 for axis in padded):
        raise Declined(Reason.AXIS, f"{facts.where(node)} pads the scaled axis")
    if node.attr("mode", "constant") in MIRRORS or not padded:
        return ()
    if node.attr("mode", "constant") != "constant":
        raise Declined(Reason.NO_HANDLER, facts.where(node))
    old = weights.number(node, 2, "value")
    if inward and ((affine.s == 0) & (affine.t != old)).any():
        raise Declined(Reason.ZERO_SCALE, facts.where(node))
    with np.errstate(all="ignore"):
        fresh = np.where(affine.s != 0, (old - affine.t) / affine.s, old) if inward else affine.s * old + affine.t
    if (fresh != fresh.reshape(-1)[0]).any():
        raise Declined(Reason.SHIFT_THROUGH_PADDING, f"{facts.where(node)} would need one value for each channel")
    border = fresh.reshape(-1)[0]
    return () if border == old else (weights.set_number(node, 2, "value", border, "border"),)


def _padded_axes(node: ir.Node, rank: int) -> list[int]:
    pads = facts.integers(node, 1, "pads")
    if pads is None or node.graph.opset() < 2:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    axes = facts.integers(node, 3)
    axes = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    half = len(pads) // 2
    return [axis for axis, first, last in zip(axes, pads[:half], pads[half:], strict=True) if first or last]


def resize(node: ir.Node, affine: Affine) -> Affine:
    """Pass Resize and Upsample: each new element is a weighted mean of old ones along the resized axes."""
    if node.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        raise Declined(Reason.SHIFT_THROUGH_PADDING, f"{facts.where(node)} extrapolates")
    if any(affine.shape[axis] != 1 for axis in _resized_axes(node, affine)):
        raise Declined(Reason.AXIS, f"{facts.where(node)} resizes the scaled axis")
    return affine


def _resized_axes(node: ir.Node, affine: Affine) -> list[int]:
    """Return axes that are not proven to keep their size; only those that the affine varies along matter."""
    rank = affine.rank
    axes = [axis % rank for axis in node.attr("axes")] if node.has_attr("axes") else list(range(rank))
    varying = [axis for axis in axes if affine.shape[axis] != 1]
    if not varying:
        return []
    given = node.input(disputed.scales_slot(node))
    if given is not None and analysis.constant(given) is None:
        raise Declined(Reason.NOT_STATIC, f"the scales of {facts.where(node)} are computed")
    scales = disputed.scales(node)
    if scales is not None and len(scales) == len(axes):
        return [axis for axis, scale in zip(axes, scales, strict=True) if scale != 1]
    if scales is not None or node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Declined(Reason.NOT_STATIC, facts.where(node))
    target = facts.integers(node, 3)
    x = node.input(0)
    if target is None or x is None or len(target) != len(axes):
        raise Declined(Reason.NOT_STATIC, f"the scales of {facts.where(node)}")
    dims = shapes.dims(x)
    return [axis for axis, size in zip(axes, target, strict=True) if dims[axis] != size]


register(Pad=Handler(pad_up, pad_down), Resize=carrier(resize), Upsample=carrier(resize))
