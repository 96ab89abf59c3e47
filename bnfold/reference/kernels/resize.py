"""Upsample and Resize: every output element is a weighted sum of input elements, axis by axis.

Sizes come from float32 arithmetic, as shape inference and runtimes do it: floor(7 · 0.7) is decided there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.precision import Datum
from bnfold.reference.registry import (
    Call,
    KernelDeclined,
    KernelResult,
    dims_to_make,
    int_list,
    kernel,
    normal_axis,
    require,
)


class Axis(NamedTuple):
    """How one axis changes. ``begin`` and ``end`` are the region of interest, normalised to 0…1."""

    old: int
    new: int
    scale: float
    begin: float = 0.0
    end: float = 1.0


class Method(NamedTuple):
    """How positions map back and how values there are interpolated."""

    mode: str = "nearest"
    coordinates: str = "asymmetric"
    rounding: str = "floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0


@kernel("Upsample", 1)
@kernel("Upsample", 7)
@kernel("Upsample", 9)
@kernel("Resize", 10)
def upsample(call: Call, x: Array, scales: Array | None = None) -> KernelResult:
    """Upsample by scales: at version 1 of height and width, then as an attribute, from 9 on as an input.

    Before Resize-11 no text named coordinates or rounding. ``strict`` refuses where roundings would differ, which only
    happens when an axis shrinks.
    """
    if call.version == 1:
        factors = [1.0, 1.0, call.attr("height_scale"), call.attr("width_scale")]
    else:
        factors = [float(scale) for scale in (call.attr("scales") if scales is None else scales.reshape(-1).tolist())]
    mode = "linear" if call.attr("mode") in ("bilinear", "trilinear") else call.attr("mode")
    fits = len(factors) == x.ndim and all(factor >= 1 or (factor > 0 and call.op == "Resize") for factor in factors)
    below = " go below 1, and Upsample only enlarges" if call.op != "Resize" and min(factors, default=1) < 1 else ""
    require(fits, f"scales {factors}{below or f' for rank {x.ndim}'}")
    axes = [Axis(old, _scaled(old, factor), factor) for old, factor in zip(x.shape, factors, strict=True)]
    return _resize(x, axes, Method(mode, rounding="strict"))


def _scaled(length: int, scale: float, part: float = 1.0) -> int:
    return int(np.floor(np.float32(length) * np.float32(part) * np.float32(scale)))


@kernel("Resize", 11, 13, 18, 19)
def resize(call: Call, x: Array, roi: Array | None = None, scales: Datum = None, sizes: Datum = None) -> KernelResult:
    """Resize by scales or sizes, an empty tensor counting as absent; from version 18 on for chosen ``axes`` only."""
    require(not call.attr("antialias", 0), "antialias is set", KernelDeclined)
    method = Method(
        call.attr("mode"),
        call.attr("coordinate_transformation_mode"),
        call.attr("nearest_mode"),
        call.attr("cubic_coeff_a"),
        bool(call.attr("exclude_outside")),
        call.attr("extrapolation_value"),
    )
    chosen = [normal_axis(axis, x.ndim) for axis in call.attr("axes") or range(x.ndim)]
    regions = _regions(roi, len(chosen)) if method.coordinates == "tf_crop_and_resize" else [(0.0, 1.0)] * len(chosen)
    lengths = [x.shape[axis] for axis in chosen]
    require(len(set(chosen)) == len(chosen), f"axes {chosen}")
    by_scale, by_size = (tensor is not None and tensor.size > 0 for tensor in (scales, sizes))
    require(by_scale != by_size, "one of scales and sizes is to be given")
    if by_scale:
        given = [float(scale) for scale in scales.reshape(-1).tolist()]
        require(min(given) > 0, f"scales {given}")
        news = [_scaled(n, s, e - b) for n, s, (b, e) in zip(lengths, given, regions, strict=True)]
    else:
        news, given = _fit(call.attr("keep_aspect_ratio_policy", "stretch"), int_list(sizes), lengths)
    axes = [Axis(length, length, 1.0) for length in x.shape]
    for axis, new, scale, (begin, end) in zip(chosen, news, given, regions, strict=True):
        axes[axis] = Axis(x.shape[axis], new, scale, begin, end)
    return _resize(x, axes, method)


def _regions(roi: Array | None, count: int) -> list[tuple[float, float]]:
    bounds = [] if roi is None else [float(bound) for bound in roi.reshape(-1).tolist()]
    require(len(bounds) == 2 * count, "tf_crop_and_resize without a region for every axis")
    return list(zip(bounds[:count], bounds[count:], strict=True))


def _fit(policy: str, sizes: Sequence[int], lengths: Sequence[int]) -> tuple[list[int], list[float]]:
    """Return new lengths and scales for wanted sizes, keeping proportions where the policy says so."""
    scales = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return list(sizes), scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [math.floor(scale * length + 0.5) for length in lengths], [scale] * len(lengths)


def _resize(x: Array, axes: Sequence[Axis], method: Method) -> Array:
    dims_to_make(axis.new for axis in axes)
    outside: Datum = False
    for place, axis in enumerate(axes):
        if axis.new == axis.old and axis.scale == 1 and (axis.begin, axis.end) == (0, 1):
            continue
        positions = _positions(axis, method.coordinates)
        index, weights = _taps(positions, axis, method)
        y: Datum = 0
        for tap in range(index.shape[1]):
            shape = (-1, *(1,) * (x.ndim - place - 1))
            part = np.take(x, index[:, tap], place)
            y = y + part * weights[:, tap].reshape(shape) if weights is not None else part
        x = y
        if method.coordinates == "tf_crop_and_resize":
            beyond = (positions < 0) | (positions > axis.old - 1)
            outside = outside | beyond.reshape(-1, *(1,) * (x.ndim - place - 1))
    return np.where(outside, np.asarray(method.extrapolation, x.dtype), x) if np.any(outside) else x


def _positions(axis: Axis, coordinates: str) -> Array:
    """Return where each new element lies on the old axis."""
    return _COORDINATES[coordinates](axis, np.arange(axis.new, dtype=np.float64))


def _half_pixel(axis: Axis, i: Array) -> Array:
    return np.asarray((i + 0.5) / axis.scale - 0.5)


def _symmetric(axis: Axis, i: Array) -> Array:
    adjustment = axis.new / (axis.scale * axis.old)
    return axis.old / 2 * (1 - adjustment) + _half_pixel(axis, i)


def _align_corners(axis: Axis, i: Array) -> Array:
    whole = abs(axis.scale * axis.old - axis.new) <= 1e-3
    require(
        whole, "align_corners with a scale whose product with the size is no integer: texts disagree", KernelDeclined
    )
    return i * (axis.old - 1) / (axis.new - 1) if axis.new > 1 else i * 0.0


def _crop(axis: Axis, i: Array) -> Array:
    last = axis.old - 1
    if axis.new == 1:
        return i + 0.5 * (axis.begin + axis.end) * last
    return axis.begin * last + i * (axis.end - axis.begin) * last / (axis.new - 1)


_COORDINATES: dict[str, Callable[[Axis, Array], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis, i: _half_pixel(axis, i) if axis.new > 1 else i * 0.0,
    "align_corners": _align_corners,
    "asymmetric": lambda axis, i: i / axis.scale,
    "tf_half_pixel_for_nn": lambda axis, i: (i + 0.5) / axis.scale,
    "tf_crop_and_resize": _crop,
}
_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda positions: np.ceil(positions - 0.5),
    "round_prefer_ceil": lambda positions: np.floor(positions + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _taps(positions: Array, axis: Axis, method: Method) -> tuple[Array, Array | None]:
    """Return the taps: for each new element the old ones it is made of, and their weights: both (new, taps).

    None for plain copies.
    """
    if method.mode == "nearest":
        return np.clip(_round(positions, axis, method.rounding), 0, axis.old - 1)[:, None].astype(np.int64), None
    base = np.floor(positions)
    fraction = positions - base
    if method.mode == "linear":
        index, weights = np.stack([base, base + 1], 1), np.stack([1 - fraction, fraction], 1)
    else:
        index, weights = base[:, None] + np.arange(-1, 3), cubic_weights(fraction, method.cubic)
    if method.exclude_outside:
        weights = np.where((index < 0) | (index >= axis.old), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(index, 0, axis.old - 1).astype(np.int64), weights


def _round(positions: Array, axis: Axis, rounding: str) -> Array:
    if rounding == "strict":
        certain = axis.scale >= 1 or (positions == np.floor(positions)).all()
        require(
            certain, "nearest elements of a shrinking axis, whose rounding this version leaves open", KernelDeclined
        )
        return np.floor(positions)
    return np.asarray(_ROUNDINGS[rounding](positions))


def cubic_weights(fraction: Array, a: float) -> Array:
    """Return keys' cubic convolution at the distances of the four neighbours."""
    near, far = [fraction, 1 - fraction], [1 + fraction, 2 - fraction]
    inner = [((a + 2) * d - (a + 3)) * d * d + 1 for d in near]
    outer = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in far]
    return np.stack([outer[0], inner[0], inner[1], outer[1]], -1)
