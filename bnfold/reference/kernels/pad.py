"""Pad in all its forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold.reference.precision import Datum
from bnfold.reference.registry import (
    Array,
    Call,
    Declined,
    Mismatch,
    Result,
    dims_to_make,
    int_list,
    kernel,
    normal_axis,
)


@kernel("Pad", 1)
def pad_first(call: Call, x: Array) -> Result:
    """The amounts as attribute ``paddings``."""
    return _pad(call, x, call.attr("paddings") or call.attr("pads"), call.attr("value"))


@kernel("Pad", 2)
def pad_attribute(call: Call, x: Array) -> Result:
    """The amounts as attribute ``pads``."""
    return _pad(call, x, call.attr("pads"), call.attr("value"))


@kernel("Pad", 11, 13, 18, 19, 21, 23, 24, 25)
def pad_input(call: Call, x: Array, pads: Array, value: Array | None = None, axes: Array | None = None) -> Result:
    """Amounts, value and (from version 18) axes as inputs."""
    amounts = int_list(pads)
    if axes is not None:
        amounts = _spread(amounts, [normal_axis(axis, x.ndim) for axis in int_list(axes)], x.ndim)
    return _pad(call, x, amounts, 0 if value is None or value.size == 0 else value.reshape(()))


def _spread(amounts: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    full = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        full[axis], full[axis + rank] = amounts[place], amounts[place + len(axes)]
    return full


def _pad(call: Call, x: Array, amounts: Sequence[int], value: Datum) -> Array:
    """Negative amounts crop, before anything is added."""
    if len(amounts) != 2 * x.ndim:
        raise Mismatch(f"{len(amounts)} amounts for rank {x.ndim}")
    begins, ends = amounts[: x.ndim], amounts[x.ndim :]
    x = x[tuple(slice(max(-b, 0), n - max(-e, 0)) for n, b, e in zip(x.shape, begins, ends, strict=True))]
    widths = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True)]
    dims_to_make(size + sum(width) for size, width in zip(x.shape, widths, strict=True))
    mode = call.attr("mode")
    if mode == "constant":
        return np.pad(x, widths, constant_values=value)
    if mode not in ("reflect", "edge", "wrap"):
        raise Declined(f"mode {mode!r} is not in the operator text")
    return np.pad(x, widths, mode)
