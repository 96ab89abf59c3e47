"""GridSample and DeformConv: reading an image at computed positions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.kernels.conv import biased, conv_window
from bnfold.reference.kernels.resize import cubic_weights
from bnfold.reference.registry import Call, KernelResult, kernel, require

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}


@kernel("GridSample", 16, 20, 22)
def grid_sample(call: Call, x: Array, grid: Array) -> KernelResult:
    """Compute X (N, C, D1…Dr) at grid (N, O1…Or, r) -> (N, C, O1…Or).

    Grid coordinates run over −1…1, the last axis first.
    """
    mode, corners = _MODES[call.attr("mode")], bool(call.attr("align_corners"))
    padding = call.attr("padding_mode")
    fits = x.shape[0] == grid.shape[0] and grid.ndim == x.ndim and grid.shape[-1] == x.ndim - 2
    require(fits, f"X of shape {x.shape}, grid of shape {grid.shape}")
    sizes = x.shape[2:]
    coordinates = np.moveaxis(grid[..., ::-1], -1, 0)
    places = [_denormal(c, n, corners) for c, n in zip(coordinates, sizes, strict=True)]
    if mode != "cubic" and padding != "zeros":
        places = [_inside(padding, p, n, corners) for p, n in zip(places, sizes, strict=True)]
    if mode == "nearest":
        return _fetch(x, [np.rint(place) for place in places], padding, corners)
    return _blend(x, places, mode, padding, corners)


def _blend(x: Array, places: list[Array], mode: str, padding: str, corners: bool) -> Array:
    """Return the values (N, C, O…) at positions (N, O…) between elements."""
    bases = [np.floor(place) for place in places]
    weights = [_weights(place - base, mode) for place, base in zip(places, bases, strict=True)]
    first = -1 if mode == "cubic" else 0
    total = np.zeros((*x.shape[:2], *places[0].shape[1:]), x.dtype)
    for taps in product(range(len(weights[0])), repeat=len(places)):
        weight = np.prod([weights[axis][tap] for axis, tap in enumerate(taps)], 0)
        spots = [base + first + tap for base, tap in zip(bases, taps, strict=True)]
        total += weight[:, None] * _fetch(x, spots, padding, corners)
    return total


def _denormal(coordinate: Array, size: int, corners: bool) -> Array:
    """Compute −1 and 1 are the centres of the outer elements, or their outer edges."""
    return (coordinate + 1) / 2 * (size - 1) if corners else ((coordinate + 1) * size - 1) / 2


def _weights(fraction: Array, mode: str) -> list[Array]:
    return [1 - fraction, fraction] if mode == "linear" else list(np.moveaxis(cubic_weights(fraction, -0.75), -1, 0))


def _inside(padding: str, place: Array, size: int, corners: bool) -> Array:
    """Move positions outside in: to the border, or mirrored at the outer elements or their edges."""
    if padding == "border":
        return np.clip(place, 0, size - 1)
    low, span = (0.0, size - 1) if corners else (-0.5, size)
    if span == 0:
        return np.zeros_like(place)
    turned = np.mod(place - low, 2 * span)
    return np.clip(low + np.where(turned > span, 2 * span - turned, turned), 0, size - 1)


def _fetch(x: Array, spots: list[Array], padding: str, corners: bool) -> Array:
    """Return the elements (N, C, O…) at whole positions (N, O…); zeros outside under ``zeros``."""
    sizes = x.shape[2:]
    if padding == "zeros":
        outside = np.any([(spot < 0) | (spot > n - 1) for spot, n in zip(spots, sizes, strict=True)], 0)
    else:
        outside = np.zeros(spots[0].shape, bool)
        spots = [np.rint(_inside(padding, spot, n, corners)) for spot, n in zip(spots, sizes, strict=True)]
    index = [np.clip(spot, 0, n - 1).astype(np.int64) for spot, n in zip(spots, sizes, strict=True)]
    batch = np.arange(x.shape[0]).reshape(-1, *(1,) * (index[0].ndim - 1))
    picked = np.moveaxis(np.moveaxis(x, 1, -1)[(batch, *index)], -1, 1)
    return np.where(outside[:, None], 0, picked)


@kernel("DeformConv", 19, 22)
def deform_conv(
    call: Call, x: Array, w: Array, offset: Array, b: Array | None = None, mask: Array | None = None
) -> KernelResult:
    """Compute a Conv whose kernel elements read X beside their places, by ``offset`` (N, regions · taps · rank, O…).

    Each of the ``offset_group`` regions of channels has offsets and a ``mask`` (N, regions · taps, O…) of its own.
    """
    groups, regions, rank = call.attr("group"), call.attr("offset_group"), x.ndim - 2
    win, taps = conv_window(call, x.shape, w.shape), math.prod(w.shape[2:])
    moves = offset.reshape(len(x), regions, taps, rank, *win.size)
    factors = np.ones((1, regions, 1, *(1,) * rank)) if mask is None else mask.reshape(len(x), regions, taps, *win.size)
    steps = np.indices(win.kernel).reshape(rank, taps, *(1,) * rank)
    starts = np.indices(win.size, sparse=True)
    fixed = [
        start * stride + step * dilation - begin
        for start, stride, step, dilation, begin in zip(
            starts, win.strides, steps, win.dilations, win.begin, strict=True
        )
    ]
    columns = [
        _blend(part, [base + moves[:, region, :, axis] for axis, base in enumerate(fixed)], "linear", "zeros", False)
        * factors[:, region, None]
        for region, part in enumerate(np.split(x, regions, 1))
    ]
    matrix = w.reshape(groups, len(w) // groups, -1)
    y = matrix @ np.concatenate(columns, 1).reshape(len(x), groups, matrix.shape[2], -1)
    return biased(y.reshape(len(x), len(w), *win.size), b)
