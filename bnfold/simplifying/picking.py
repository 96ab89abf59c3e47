"""One element along an axis, whose axis is then left out or put back: one Gather."""

from __future__ import annotations

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.ir.tensor import Array
from bnfold.ir.value import Dim
from bnfold.report import rewrites
from bnfold.simplifying.parameters import numbers
from bnfold.simplifying.plan import Simplification, only_above, replace

_FROM_THE_END = 11
"""The first opset whose Gather counts from the end."""
_MOST_BYTES = 8
"""Bytes of the one index."""


def find_picked(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan one Gather in place of a Gather or Slice of one element and the Squeeze or Unsqueeze of its axis."""
    first = only_above(node)
    if first is None or first.graph is not node.graph or not first.is_op("Gather", "Slice") or known.calls(first):
        return None
    dims = known.dims(first.input(0))
    rank, axes = len(dims) if dims is not None else None, numbers(node, "axes", known)
    if not axes:
        return None
    picked = _gathered(first, rank) if first.is_op("Gather") else _cut(first, dims, known)
    if picked is None:
        return None
    index, axis = picked
    indices = _respaced(index, axis, axes, node, rank)
    if indices is None:
        return None
    inputs = [first.input(0), indices]
    rewrite = rewrites.PICKED.of(first.op_type, node.op_type)
    return replace(rewrite, node, "Gather", inputs, {"axis": axis})


def _respaced(index: Array, axis: int, axes: list[int], node: ir.Node, rank: int | None) -> Array | None:
    """Return an index with the axes that a Squeeze takes from it or an Unsqueeze adds; None if others are meant."""
    between = rank - 1 + index.ndim if rank is not None else None
    total = between + len(axes) if node.op_type == "Unsqueeze" and between is not None else between
    if min(axes) < 0 and total is None:
        return None
    places = [(each + (total or 0) if each < 0 else each) - axis for each in axes]
    most = index.ndim + (len(axes) if node.op_type == "Unsqueeze" else 0)
    if len(set(places)) < len(places) or not all(0 <= place < most for place in places):
        return None
    return np.expand_dims(index, tuple(places)) if node.op_type == "Unsqueeze" else index.squeeze(tuple(places))


def _gathered(node: ir.Node, rank: int | None) -> tuple[Array, int] | None:
    """Return the one index that a Gather picks, and the axis from the front."""
    value, axis = node.input(1), int(node.attr("axis", 0))
    if value is None or not value.holds_constant or value.stored_bytes > _MOST_BYTES:
        return None
    held = analysis.constant(value)
    if held is None or held.size != 1 or (axis < 0 and rank is None):
        return None
    return held.numpy(), axis + (rank or 0) if axis < 0 else axis


def _cut(node: ir.Node, dims: tuple[Dim, ...] | None, known: Proven) -> tuple[Array, int] | None:
    """Return the index of the one element that a Slice takes along its one axis, and that axis from the front.

    A Slice of no element ends in an error at the Squeeze, as an index does that is too large.
    """
    starts, ends = numbers(node, "starts", known), numbers(node, "ends", known)
    axes, steps = numbers(node, "axes", known, [0]), numbers(node, "steps", known, [1])
    if starts is None or ends is None or axes is None or len(starts) != 1 or len(axes) != 1 or steps != [1]:
        return None
    if axes[0] < 0 and dims is None:
        return None
    axis, start, end = axes[0] + (len(dims or ()) if axes[0] < 0 else 0), starts[0], ends[0]
    size = dims[axis] if dims is not None and 0 <= axis < len(dims) else None
    if isinstance(size, int):
        taken = range(size)[start:end]
        return (np.array([taken[0]], np.int64), axis) if len(taken) == 1 else None
    is_one = end == start + 1 if start != -1 else end >= np.iinfo(np.int32).max
    if not is_one:
        return None
    return (np.array([start], np.int64), axis) if start >= 0 or node.graph.opset() >= _FROM_THE_END else None
