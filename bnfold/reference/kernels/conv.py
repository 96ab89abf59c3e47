"""Conv and ConvTranspose of any rank, as matrix products through BLAS.

Both bound their working memory: Conv gathers columns for a limited number of output positions at a time,
ConvTranspose multiplies one kernel element at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.kernels.shifted import by_shifts, gathers_more
from bnfold.reference.kernels.window import Index, Window, last_axes, paddings, per_axis, window
from bnfold.reference.outlines import Outline, outline
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, kernel, require
from bnfold.reference.streamed import StreamedWeight

COLUMN_ELEMENTS = 1 << 22
"""Elements of the gathered columns that Conv holds at a time."""

_SHORT_ROWS = 8
"""Times the elements of a kernel's row: such rows of depthwise images are multiplied with matrices."""


@kernel("Conv", 1)
@kernel("Conv", 11, 22)
def conv(call: Call, x: Array, w: Array | StreamedWeight, b: Array | None = None) -> KernelResult:
    """Compute X (N, C, spatial…), W (M, C/group, kernel…), B (M) -> Y (N, M, spatial…)."""
    win = conv_window(call, x.shape, w.shape)
    groups = call.attr("group", 1)
    if isinstance(x, Outline):
        return biased(outline((x.shape[0], w.shape[0], *win.size), x.dtype), b)
    if isinstance(w, StreamedWeight):
        return biased(_by_rows(win.padded(x, 0), w, win), b)
    if win.size == x.shape[2:] and max((*win.kernel, *win.strides), default=1) == 1:
        return biased(_pointwise(x, w, groups), b)
    padded = win.padded(x, 0)
    if w.shape[1] > 1 or groups == 1:
        if gathers_more(w, win, groups) and padded.size:
            return biased(by_shifts(padded, w, win, groups, COLUMN_ELEMENTS), b)
        return biased(grouped(padded, w, win, groups), b)
    multiply = _banded if _has_short_rows(padded, w, win) else _depthwise
    return biased(multiply(padded, w, win, groups), b)


@lru_cache(maxsize=64)
def conv_window(call: Call, x: tuple[int, ...], w: tuple[int, ...]) -> Window:
    """Return the window of a convolution whose input and weight, of these shapes, fit together."""
    groups = call.attr("group", 1)
    fits = len(x) == len(w) and x[1] == groups * w[1] and w[0] % groups == 0
    require(fits, f"input {x} and weight {w} do not fit {groups} groups")
    _check_kernel(call, w)
    return window(call, x[2:], w[2:])


def _check_kernel(call: Call, w: tuple[int, ...]) -> None:
    shape = call.attr("kernel_shape")
    require(not shape or tuple(shape) == w[2:], f"kernel_shape {shape} contradicts the weight {w}")


def biased(y: Array, b: Array | None) -> Array:
    """Compute ``y`` (N, M, spatial…), which has no other reference, with one bias a channel."""
    if b is None:
        return y
    require(b.shape == y.shape[1:2], f"a bias of shape {b.shape} for {y.shape[1]} channels")
    y += b.reshape(-1, *(1,) * (y.ndim - 2))
    return y


def _pointwise(x: Array, w: Array, groups: int) -> Array:
    """Compute A kernel of one element at every position.

    One product a group and image, of what lies in memory as it is.
    """
    columns = x.reshape(x.shape[0], groups, w.shape[1], math.prod(x.shape[2:]))
    matrix = w.reshape(groups, w.shape[0] // groups, w.shape[1])
    return np.asarray(matrix @ columns).reshape(x.shape[0], w.shape[0], *x.shape[2:])


def _has_short_rows(padded: Array, w: Array, win: Window) -> bool:
    """Whether a product with mostly zeros is quick, and all numbers are finite: infinity times zero is none."""
    length = padded.shape[-1]
    is_short = length <= _SHORT_ROWS * win.kernel[-1] and w.shape[0] * length * win.size[-1] <= COLUMN_ELEMENTS
    return bool(is_short and np.isfinite(padded).all() and np.isfinite(w).all())


def _banded(padded: Array, w: Array, win: Window, groups: int) -> Array:
    """Do as `_depthwise` with one product for each row of a kernel, whose elements stand along a band of a matrix."""
    outs, length, width = w.shape[0] // groups, padded.shape[-1], win.size[-1]
    y = np.zeros((padded.shape[0], groups, outs, *win.size), np.result_type(padded, w))
    taps, places = w.reshape(groups, outs, *win.kernel), np.arange(width)
    for lead in product(*map(range, win.kernel[:-1])):
        band = np.zeros((groups, outs, length, width), w.dtype)
        for tap in range(win.kernel[-1]):
            element: Index = (slice(None), slice(None), *lead, tap, None)
            band[:, :, places * win.strides[-1] + tap * win.dilations[-1], places] = taps[element]
        rows = padded[last_axes(*win.slices((*lead, 0))[:-1], slice(None))]
        y += (rows.reshape(*rows.shape[:2], 1, math.prod(win.size[:-1]), length) @ band).reshape(y.shape)
    return y.reshape(padded.shape[0], w.shape[0], *win.size)


def _depthwise(padded: Array, w: Array, win: Window, groups: int) -> Array:
    """Do as `grouped` where a group is one channel: there is little to multiply, so nothing is gathered first."""
    y = np.zeros((padded.shape[0], groups, w.shape[0] // groups, *win.size), np.result_type(padded, w))
    taps = w.reshape(groups, w.shape[0] // groups, *w.shape[2:], *(1,) * len(win.size))
    for offset in win.offsets():
        place: Index = (slice(None), slice(None), *offset)
        y += win.view(padded, offset)[:, :, None] * taps[place]
    return y.reshape(padded.shape[0], w.shape[0], *win.size)


def grouped(padded: Array, w: Array, win: Window, groups: int) -> Array:
    """Return columns (group, C/group · kernel, positions) against W as (group, M/group, C/group · kernel)."""
    batch, outs = padded.shape[0], w.shape[0]
    y = np.empty((batch, groups, outs // groups, *win.size), np.result_type(padded, w))
    matrix = w.reshape(groups, outs // groups, math.prod(w.shape[1:]))
    for items, rows in _chunks(batch, win, matrix.shape[2] * groups):
        columns = _columns(padded[items], win, rows, groups)
        part = np.moveaxis(y[items, :, :, rows], 0, 2)
        part[...] = (matrix @ columns).reshape(part.shape)
    return y.reshape(batch, outs, *win.size)


def _by_rows(padded: Array, w: StreamedWeight, win: Window) -> Array:
    """Do as `grouped` with one group. Each chunk of columns needs all rows, so of several chunks the weight is held."""
    batch = padded.shape[0]
    if len(_chunks(batch, win, math.prod(w.shape[1:]))) != 1:
        return grouped(padded, w.whole(), win, 1)
    (columns,) = _columns(padded, win, slice(0, win.size[0]), 1)
    y = np.empty((w.shape[0], columns.shape[1]))
    for channels, matrix in w.rows():
        y[channels] = matrix @ columns
    return np.ascontiguousarray(y.reshape(w.shape[0], batch, *win.size).swapaxes(0, 1))


def _chunks(batch: int, win: Window, depth: int) -> list[tuple[slice, slice]]:
    """Return batch items × runs of the first spatial axis, each small enough for COLUMN_ELEMENTS (one row at least).

    As many at once as there is room for: each product reads the whole weight.
    """
    row = max(depth * math.prod(win.size[1:]), 1)
    step = max(COLUMN_ELEMENTS // row, 1)
    items = max(step // max(win.size[0], 1), 1)
    return [
        (slice(n, min(n + items, batch)), slice(i, min(i + step, win.size[0])))
        for n in range(0, batch, items)
        for i in range(0, win.size[0], step)
    ]


def _columns(images: Array, win: Window, rows: slice, groups: int) -> Array:
    """Return every element each window of these rows sees: (group, C/group · kernel, image · positions)."""
    count, channels = images.shape[:2]
    size = (count, rows.stop - rows.start, *win.size[1:])
    columns = np.empty((channels, *win.kernel, *size), images.dtype)
    for offset in win.offsets():
        place: Index = (slice(None), *offset)
        columns[place] = win.view(images, offset)[:, :, rows].swapaxes(0, 1)
    return columns.reshape(groups, -1, math.prod(size))


@kernel("ConvTranspose", 1)
@kernel("ConvTranspose", 11, 22)
def conv_transpose(call: Call, x: Array, w: Array, b: Array | None = None) -> KernelResult:
    """Compute X (N, C, spatial…), W (C, M/group, kernel…), B (M) -> Y (N, M, spatial…).

    Every input element stamps the kernel onto the output.
    """
    groups, channels = call.attr("group", 1), w.shape[0]
    fits = x.ndim == w.ndim and x.shape[1] == channels and channels % groups == 0
    require(fits, f"input {x.shape} and weight {w.shape} do not fit {groups} groups")
    _check_kernel(call, w.shape)
    win = _transposed_window(call, x.shape[2:], w.shape[2:])
    full = tuple(max(r, r - e) for r, e in zip(win.reach(), win.end, strict=True))
    y = np.zeros((x.shape[0], groups, w.shape[1], *full), np.result_type(x, w))
    columns = x.reshape(x.shape[0], groups, channels // groups, -1)
    weights = w.reshape(groups, channels // groups, w.shape[1], *w.shape[2:])
    taps = np.ascontiguousarray(np.moveaxis(weights, (0, 2, 1), (-3, -2, -1)))  # as strided ones BLAS is not asked
    for offset in win.offsets():
        stamp = taps[offset] @ columns
        y[last_axes(*win.slices(offset))] += stamp.reshape(*y.shape[:3], *x.shape[2:])
    y = y.reshape(x.shape[0], -1, *full)
    y = y[last_axes(*(slice(first, first + n) for first, n in zip(win.begin, _wanted(win), strict=True)))]
    return biased(y, b)


def _wanted(win: Window) -> tuple[int, ...]:
    """Return output sizes: `_transposed_window` leaves in ``end`` what is to be cut off there."""
    return tuple(r - b - e for r, b, e in zip(win.reach(), win.begin, win.end, strict=True))


def _transposed_window(call: Call, spatial: Sequence[int], kernel_dims: Sequence[int]) -> Window:
    """Return the window whose positions are the *input*.

    ``begin`` and ``end`` are cut off (negative ``end`` adds zeros).

    An odd total under ``output_shape`` goes to the begin unless SAME_UPPER: the text of version 11, which corrects the
    opposite sense of version 1 (runtimes always did so). An ``output_shape`` that kernels do not reach ends in zeros.
    """
    rank = len(spatial)
    strides, dilations = per_axis(call, "strides", rank, 1), per_axis(call, "dilations", rank, 1)
    extra = per_axis(call, "output_padding", rank, 0)
    bare = Window(tuple(kernel_dims), strides, dilations, (), (), tuple(spatial))
    full = bare.reach()
    mode = call.attr("auto_pad") or "NOTSET"
    shape = call.attr("output_shape")
    if not shape and mode in ("NOTSET", "VALID"):
        begin, end = paddings(call, spatial, full, strides)
        end = tuple(e - o for e, o in zip(end, extra, strict=True))
        return Window(bare.kernel, strides, dilations, begin, end, bare.size)
    wanted = shape[-rank:] if shape else [n * s for n, s in zip(spatial, strides, strict=True)]
    begins, ends = [], []
    for r, o, n in zip(full, extra, wanted, strict=True):
        total = r + o - n
        reason = f"an output size of {n}, where the kernels reach {r + o}: texts and runtimes disagree"
        require(total >= 0 or shape, reason, KernelDeclined)
        total = max(total, 0)
        begins.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
        ends.append(r - n - begins[-1])
    return Window(bare.kernel, strides, dilations, tuple(begins), tuple(ends), bare.size)
