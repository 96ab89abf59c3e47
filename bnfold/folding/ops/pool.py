"""Pooling windows and reductions: means carry any affine, maxima one with ``s ≥ 0``, sums a scale.

All of them only along axes on which the affine does not vary; a reduced axis that is dropped is put back.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bnfold import ir
from bnfold.folding import facts, shapes
from bnfold.folding.affine import Affine, make
from bnfold.folding.ops import padded, window
from bnfold.folding.ops.registry import carrier, register
from bnfold.report.reasons import Declined, Reason

MEANS = ("AveragePool", "GlobalAveragePool", "ReduceMean")
MAXIMA = ("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin")


def windowed(node: ir.Node, affine: Affine) -> Affine:
    """Pass AveragePool, MaxPool and their global forms, which move along the axes behind the channel."""
    if any(output is not None for output in node.outputs[1:]):
        raise Declined(Reason.UNUSED_OUTPUT, f"{facts.where(node)} also says where its maxima are")
    if node.op_type == "GlobalAveragePool":
        affine = _averaged(affine, range(2, affine.rank))
    if not affine.varies_only_on(0, 1):
        raise Declined(Reason.AXIS, f"{facts.where(node)} mixes the axes behind the channel")
    _check_kind(node, affine)
    if not node.op_type.startswith("Global"):
        _check_windows(node, affine)
    return affine


def _averaged(affine: Affine, axes: Iterable[int]) -> Affine:
    """Average: the mean of a shift is a shift of the mean, even where it varies; where it does not, nothing changes."""
    varying = tuple(axis for axis in axes if affine.t.shape[axis] != 1)
    return make(affine.s, affine.t.mean(axis=varying, keepdims=True)) if varying else affine


def _check_kind(node: ir.Node, affine: Affine) -> None:
    if node.op_type in MAXIMA and (affine.s < 0).any():
        raise Declined(Reason.NEGATIVE_SCALE, facts.where(node))
    if node.op_type not in MEANS + MAXIMA and not affine.is_scale_only:
        raise Declined(Reason.SHIFT_NO_ROOM, f"{facts.where(node)} would add the shift many times")


def _check_windows(node: ir.Node, affine: Affine) -> None:
    """Decline where padding or a window over the edge could count as zeros, or be all of a window."""
    taps = node.attr("kernel_shape", [])
    is_padded = any(node.attr("pads", [])) or node.attr("auto_pad", "NOTSET") not in ("NOTSET", "", "VALID")
    if not (is_padded or node.attr("ceil_mode", 0)):
        return
    if not all(_meets_elements(node, axis, size, len(taps)) for axis, size in enumerate(taps)):
        raise Declined(Reason.SHIFT_THROUGH_PADDING, f"{facts.where(node)} has windows that see padding only")
    if node.op_type == "MaxPool" or affine.is_scale_only:
        return
    if node.attr("ceil_mode", 0) or node.attr("count_include_pad", 0) or node.graph.opset() < 7:
        raise Declined(Reason.SHIFT_THROUGH_PADDING, facts.where(node))


def _meets_elements(node: ir.Node, axis: int, taps: int, rank: int) -> bool:
    """Whether every window has a tap on an element: dilated ones may miss all of a small image."""
    pads = node.attr("pads", [0] * 2 * rank)
    beyond = window.per_axis(node, "strides", rank)[axis] - 1 if node.attr("ceil_mode", 0) else 0
    if window.per_axis(node, "dilations", rank)[axis] == 1 and max(pads[axis], pads[rank + axis] + beyond) < taps:
        return True
    return bool(padded.inside(node, axis, taps, rank).any(axis=0).all())


def reduce_up(node: ir.Node, affine: Affine) -> Affine:
    """Bring axes that were dropped back with size 1."""
    axes, rank = _axes(node)
    if not node.attr("keepdims", 1):
        kept = [axis for axis in range(rank) if axis not in axes]
        if affine.rank != len(kept):
            raise Declined(Reason.RANK_UNKNOWN, facts.where(node))
        affine = affine.map(lambda block: np.expand_dims(block, axes))
    _check_reduction(node, axes, affine)
    return affine


def reduce_down(node: ir.Node, affine: Affine) -> Affine:
    """Drop axes that are dropped."""
    axes, _ = _axes(node)
    if node.op_type == "ReduceMean":
        affine = _averaged(affine, axes)
    _check_reduction(node, axes, affine)
    if not node.attr("keepdims", 1):
        affine = affine.map(lambda block: np.squeeze(block, axis=tuple(axes)))
    return affine


def _axes(node: ir.Node) -> tuple[list[int], int]:
    """Return the reduced axes, and the rank of what is reduced."""
    x = node.input(0)
    rank = shapes.rank(x) if x is not None else 0
    axes = facts.integers(node, 1, "axes")
    if not axes:
        axes = [] if node.attr("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({axis % rank for axis in axes}), rank


def _check_reduction(node: ir.Node, axes: list[int], affine: Affine) -> None:
    if any(affine.shape[axis] != 1 for axis in axes):
        raise Declined(Reason.AXIS, f"{facts.where(node)} reduces the scaled axis")
    _check_kind(node, affine)


register(
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool"), carrier(windowed)),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), carrier(reduce_up, reduce_down)),
)
