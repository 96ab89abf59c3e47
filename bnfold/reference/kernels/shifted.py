"""Conv of few outputs without gathering each window: rows of a kernel are gathered, their elements are shifts."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.kernels.window import Index, Window


def gathers_more(w: Array, win: Window, groups: int) -> bool:
    """Whether gathering all that the windows see is more work than the outputs are."""
    return bool(win.strides[-1] == 1 < w.shape[-1] and w.shape[0] // groups < math.prod(w.shape[1:-1]))


def by_shifts(padded: Array, w: Array, win: Window, groups: int, most: int) -> Array:
    """Do as `conv.grouped` with one product for each element of a kernel's row, of at most ``most`` gathered elements.

    An image lies in memory row by row, so its columns shifted by one are the same numbers, from the next one on. What
    a shift takes from the row after is cut off.
    """
    outs, depth, length = w.shape[0] // groups, math.prod(w.shape[1:-1]), padded.shape[-1]
    y = np.empty((padded.shape[0], groups, outs, *win.size), np.result_type(padded, w))
    taps = np.ascontiguousarray(np.moveaxis(w.reshape(groups, outs, depth, w.shape[-1]), -1, 0))
    step = max(most // (depth * groups * length * math.prod(win.size[1:-1])), 1)
    for image, item in product(range(len(padded)), range(0, win.size[0] if len(win.size) > 1 else 1, step)):
        rows = slice(item, item + step)
        columns = _rows(padded[image], win, rows)
        size = columns.shape[1 + len(win.kernel[:-1]) :]
        columns = columns.reshape(groups, depth, -1)
        made = np.zeros((groups, outs, columns.shape[-1]), y.dtype)
        used = columns.shape[-1] - (w.shape[-1] - 1) * win.dilations[-1]
        for tap, matrix in enumerate(taps):
            start = tap * win.dilations[-1]
            made[..., :used] += matrix @ columns[..., start : start + used]
        whole = y[image] if len(win.size) == 1 else y[image, :, :, rows]
        whole[...] = made.reshape(groups, outs, *size)[..., : win.size[-1]]
    return y.reshape(padded.shape[0], w.shape[0], *win.size)


def _rows(image: Array, win: Window, rows: slice) -> Array:
    """Return what the rows of a kernel see of these rows of results: (C, kernel but for its rows, size, row)."""
    if len(win.size) == 1:
        return image
    count = len(range(win.size[0])[rows])
    columns = np.empty((len(image), *win.kernel[:-1], count, *win.size[1:-1], image.shape[-1]), image.dtype)
    for lead in product(*map(range, win.kernel[:-1])):
        first, *others = win.slices((*lead, 0))[:-1]
        place: Index = (slice(None), *lead)
        columns[place] = image[(slice(None), first, *others)][:, rows]
    return columns
