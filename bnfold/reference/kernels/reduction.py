"""Reduce*, ArgMax and ArgMin, CumSum: sums and extremes along axes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.precision import Datum
from bnfold.reference.registry import Call, KernelResult, kernel, normal_axis

Axes = tuple[int, ...]


def _log_sum_exp(x: Array, axes: Axes, keepdims: bool) -> Datum:
    top = np.asarray(x.max(axes, keepdims=True, initial=-np.inf))
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - top).sum(axes, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axes)


def average(x: Array, axes: Axes) -> KernelResult:
    """Return the mean over ``axes``, kept as 1; NaN of no elements, without the warning that numpy has for it."""
    return x.sum(axes, keepdims=True) / np.asarray(math.prod(x.shape[axis] for axis in axes), x.dtype)


def _mean(x: Array, axes: Axes, keepdims: bool) -> Datum:
    if np.issubdtype(x.dtype, np.inexact):
        return average(x, axes) if keepdims else np.squeeze(average(x, axes), axes)
    total = x.sum(axes, keepdims=keepdims)
    return total // (x.size // max(np.size(total), 1))


def _limit(x: Array, *, lowest: bool) -> Datum:
    """Return the extreme of no elements: the other end of the type."""
    if np.issubdtype(x.dtype, np.inexact):
        return -np.inf if lowest else np.inf
    if x.dtype == bool:
        return not lowest
    limits = np.iinfo(x.dtype)
    return limits.min if lowest else limits.max


ReductionKernel = Callable[[Array, Axes, bool], Datum]
_REDUCTIONS: dict[str, ReductionKernel] = {
    "ReduceL1": lambda x, axes, keepdims: np.abs(x).sum(axes, keepdims=keepdims),
    "ReduceL2": lambda x, axes, keepdims: np.sqrt(np.square(x).sum(axes, keepdims=keepdims)),
    "ReduceLogSum": lambda x, axes, keepdims: np.log(x.sum(axes, keepdims=keepdims)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": lambda x, axes, keepdims: x.max(axes, keepdims=keepdims, initial=_limit(x, lowest=True)),
    "ReduceMean": _mean,
    "ReduceMin": lambda x, axes, keepdims: x.min(axes, keepdims=keepdims, initial=_limit(x, lowest=False)),
    "ReduceProd": lambda x, axes, keepdims: x.prod(axes, keepdims=keepdims),
    "ReduceSum": lambda x, axes, keepdims: x.sum(axes, keepdims=keepdims),
    "ReduceSumSquare": lambda x, axes, keepdims: np.square(x).sum(axes, keepdims=keepdims),
}
_FIRST_INPUT_VERSION = {"ReduceSum": 13}
"""From which version on the axes are an input; 18 unless listed."""
_VERSIONS = {
    "ReduceLogSum": (1, 11, 13, 18, 28),
    "ReduceLogSumExp": (1, 11, 13, 18, 28),
    "ReduceMax": (1, 11, 12, 13, 18, 20),
    "ReduceMin": (1, 11, 12, 13, 18, 20),
    "ReduceSum": (1, 11, 13),
}


def _reduce(call: Call, x: Array, axes: Array | None = None) -> Array:
    named = call.listed("axes", None if axes is None or axes.size == 0 else axes)
    every = () if call.attr("noop_with_empty_axes", 0) else range(x.ndim)
    chosen = tuple(normal_axis(axis, x.ndim) for axis in named or every)
    return np.asarray(_REDUCTIONS[call.op](x, chosen, bool(call.attr("keepdims")))).astype(x.dtype, copy=False)


for _op in _REDUCTIONS:
    _first, _versions = _FIRST_INPUT_VERSION.get(_op, 18), _VERSIONS.get(_op, (1, 11, 13, 18))
    kernel(_op, *(version for version in _versions if version < _first))(_reduce)
    kernel(_op, *(version for version in _versions if version >= _first))(_reduce)


@kernel("ArgMax", 1, 11, 12, 13)
@kernel("ArgMin", 1, 11, 12, 13)
def arg(call: Call, x: Array) -> KernelResult:
    """Return where the maximum or minimum along ``axis`` is: the first, or the last if asked for."""
    axis, extreme = normal_axis(call.attr("axis"), x.ndim), np.argmax if call.op == "ArgMax" else np.argmin
    if call.attr("select_last_index", 0):
        place = x.shape[axis] - 1 - extreme(np.flip(x, axis), axis)
    else:
        place = extreme(x, axis)
    place = np.asarray(place, np.int64)
    return np.expand_dims(place, axis) if call.attr("keepdims") else place


@kernel("CumProd", 26)
@kernel("CumSum", 11, 14)
def cumulate(call: Call, x: Array, axis: Array) -> KernelResult:
    """Add up or multiply the elements up to each one, without it if ``exclusive``, from the end if ``reverse``."""
    place, function = normal_axis(int(axis.item()), x.ndim), np.add if call.op == "CumSum" else np.multiply
    track = np.flip(x, place) if call.attr("reverse") else x
    if call.attr("exclusive"):
        track = np.roll(track, 1, place)
        np.moveaxis(track, place, 0)[:1] = function.identity
    total = function.accumulate(track, place, dtype=x.dtype)
    return np.flip(total, place) if call.attr("reverse") else total
