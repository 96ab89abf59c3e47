"""AveragePool, MaxPool, LpPool of any rank, their global forms, and MaxUnpool's partner: MaxPool's indices.

Working memory is a few outputs: one pass over the window's elements, no gathered windows.
"""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

import math
from itertools import product

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.kernels.reduction import average
from bnfold.reference.kernels.window import Window, window
from bnfold.reference.registry import Call, KernelResult, kernel, require


def pooling_window(call: Call, x: Array) -> Window:
    """Return the node's window over the spatial axes of ``x``; LpPool-1 and early files may leave kernel_shape out."""
    require(0 not in x.shape[2:], f"nothing in a spatial axis of {list(x.shape[2:])}")
    return window(call, x.shape[2:], tuple(call.attr("kernel_shape") or x.shape[2:]))


@kernel("AveragePool", 1)
@kernel("AveragePool", 7, 10, 11, 19, 22)
def average_pool(call: Call, x: Array) -> KernelResult:
    """Return the mean over each window, without padding unless ``count_include_pad`` or what ceil_mode adds."""
    win = pooling_window(call, x)
    padded = win.padded(x, 0)
    total = np.zeros((*x.shape[:2], *win.size), x.dtype)
    for offset in win.offsets():
        total += win.view(padded, offset)
    return total / _counts(win, x.shape[2:], bool(call.attr("count_include_pad", 0)))


def _counts(win: Window, spatial: tuple[int, ...], include_pad: bool) -> Array:
    """Return how many elements count in each window: a product of one count an axis."""
    counts = np.ones((1,) * len(spatial))
    for axis, length in enumerate(spatial):
        first, last = (
            (0, win.begin[axis] + length + win.end[axis])
            if include_pad
            else (
                win.begin[axis],
                win.begin[axis] + length,
            )
        )
        starts = np.arange(win.size[axis])[:, None] * win.strides[axis]
        taps = starts + np.arange(win.kernel[axis]) * win.dilations[axis]
        inside = ((taps >= first) & (taps < last)).sum(1)
        counts = counts * inside.reshape(-1, *(1,) * (len(spatial) - axis - 1))
    return counts


@kernel("MaxPool", 1)
@kernel("MaxPool", 8, 10, 11, 12, 22)
def max_pool(call: Call, x: Array) -> tuple[Array, ...]:
    """Return the maximum of each window.

    With a second output also its flat index in X, the first one winning ties, and NaN all.

    The index is row major, or column major where ``storage_order`` is 1.
    """
    win = pooling_window(call, x)
    lowest = -np.inf if np.issubdtype(x.dtype, np.inexact) else np.iinfo(x.dtype).min
    padded = win.padded(x, lowest)
    best = np.full((*x.shape[:2], *win.size), lowest, x.dtype)
    if not any(call.named[1:]):
        for offset in win.offsets():
            np.maximum(best, win.view(padded, offset), out=best)
        return (best,)
    where = np.zeros(best.shape, np.int64)
    for offset in win.offsets():
        candidate = win.view(padded, offset)
        better = (candidate > best) | (np.isnan(candidate) & ~np.isnan(best))
        best = np.where(better, candidate, best)
        where = np.where(better, _positions(call, win, offset, x.shape[2:]), where)
    planes = np.arange(math.prod(x.shape[:2]), dtype=np.int64).reshape(*x.shape[:2], *(1,) * len(win.size))
    return best, where + planes * math.prod(x.shape[2:])


def _positions(call: Call, win: Window, offset: tuple[int, ...], spatial: tuple[int, ...]) -> Array:
    """Return the flat index within a plane of the element that ``offset`` picks in every window."""
    order = range(len(spatial))
    steps = [math.prod(spatial[:axis] if call.attr("storage_order", 0) else spatial[axis + 1 :]) for axis in order]
    flat = np.zeros((1,) * len(spatial), np.int64)
    for axis in order:
        place = np.arange(win.size[axis]) * win.strides[axis] + offset[axis] * win.dilations[axis] - win.begin[axis]
        flat = flat + (place * steps[axis]).reshape(-1, *(1,) * (len(spatial) - axis - 1))
    return flat


@kernel("MaxRoiPool", 1, 22)
def max_roi_pool(call: Call, x: Array, rois: Array) -> KernelResult:
    """Return the maximum of each bin of each region: rows of an image's number, x1, y1, x2, y2, both ends included.

    0 of nothing.

    The text leaves roundings open; these are those of Fast R-CNN and of runtimes: corners to whole elements, halves
    away from zero, and bins outwards.
    """
    height, width = call.attr("pooled_shape")
    y = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    corners = rois[:, 1:] * call.attr("spatial_scale")
    corners = np.trunc(corners + np.copysign(0.5, corners)).astype(np.int64)
    for place, (number, (left, top, right, bottom)) in enumerate(zip(rois[:, 0], corners, strict=True)):
        require(0 <= number < len(x), f"a region of image {number} of {len(x)}")
        rows, columns = _bins(top, bottom, height, x.shape[2]), _bins(left, right, width, x.shape[3])
        for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
            part = x[int(number), :, row, column]
            y[place, :, i, j] = part.max((1, 2)) if part.size else 0
    return y


def _bins(first: int, last: int, count: int, limit: int) -> list[slice]:
    """Return the elements of each of ``count`` equal parts, as far as there are any."""
    length = max(last - first + 1, 1)
    starts = [first + part * length // count for part in range(count)]
    ends = [first - -(part + 1) * length // count for part in range(count)]
    return [slice(max(start, 0), max(min(end, limit), 0)) for start, end in zip(starts, ends, strict=True)]


@kernel("LpPool", 1)
@kernel("LpPool", 2, 11, 18, 22)
def lp_pool(call: Call, x: Array) -> KernelResult:
    """Compute (Σ |x|^p)^(1/p) over each window."""
    win = pooling_window(call, x)
    p = call.attr("p", 2)
    padded = win.padded(np.abs(x) ** p, 0)
    total = np.zeros((*x.shape[:2], *win.size), padded.dtype)
    for offset in win.offsets():
        total += win.view(padded, offset)
    return total ** (1 / p)


@kernel("GlobalAveragePool", 1, 22)
def global_average_pool(call: Call, x: Array) -> KernelResult:
    """Return the mean over the spatial axes, kept as 1."""
    return average(x, tuple(range(2, x.ndim)))


@kernel("GlobalMaxPool", 1, 22)
def global_max_pool(call: Call, x: Array) -> KernelResult:
    """Return the maximum over the spatial axes, kept as 1."""
    return x.max(tuple(range(2, x.ndim)), keepdims=True)


@kernel("GlobalLpPool", 1, 2, 22)
def global_lp_pool(call: Call, x: Array) -> KernelResult:
    """Compute (Σ |x|^p)^(1/p) over the spatial axes, kept as 1."""
    p = call.attr("p", 2)
    return (np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)
