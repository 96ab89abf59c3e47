"""Pad in all its forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold.reference.precision import Datum
from bnfold.reference.registry import (
    Array,
    Call,
    Declined,
    Result,
    dims_to_make,
    int_list,
    kernel,
    normal_axis,
    require,
)


@kernel("Pad", 1)
@kernel("Pad", 2)
@kernel("Pad", 11, 13, 18, 19, 21, 23, 24, 25)
def pad(
    call: Call, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None
) -> Result:
    """Amounts (at version 1 called ``paddings``) and value as attributes; from 11 on inputs, from 18 on with axes."""
    amounts = call.listed("paddings" if call.has("paddings") else "pads", pads) or []
    if axes is not None:
        amounts = _spread(amounts, [normal_axis(axis, x.ndim) for axis in int_list(axes)], x.ndim)
    return _pad(call, x, amounts, call.attr("value", 0) if value is None or value.size == 0 else value.reshape(()))


def _spread(amounts: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    require(len(amounts) == 2 * len(axes) == 2 * len(set(axes)), f"{len(amounts)} amounts for the axes {list(axes)}")
    full = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        full[axis], full[axis + rank] = amounts[place], amounts[place + len(axes)]
    return full


def _pad(call: Call, x: Array, amounts: Sequence[int], value: Datum) -> Array:
    """Negative amounts crop, before anything is added."""
    require(len(amounts) == 2 * x.ndim, f"{len(amounts)} amounts for rank {x.ndim}")
    begins, ends = amounts[: x.ndim], amounts[x.ndim :]
    left = [n + min(b, 0) + min(e, 0) for n, b, e in zip(x.shape, begins, ends, strict=True)]
    require(min(left, default=0) >= 0, f"amounts {list(amounts)} take away more than the shape {x.shape} holds")
    x = x[tuple(slice(max(-b, 0), n - max(-e, 0)) for n, b, e in zip(x.shape, begins, ends, strict=True))]
    widths = [(max(b, 0), max(e, 0)) for b, e in zip(begins, ends, strict=True)]
    dims_to_make(size + sum(width) for size, width in zip(x.shape, widths, strict=True))
    mode = call.attr("mode")
    if mode == "constant":
        return np.pad(x, widths, constant_values=value)
    if mode == "reflect":
        fits = all(max(width) < max(size, 1) for size, width in zip(x.shape, widths, strict=True))
        require(fits, "reflection of more than there is: texts and runtimes disagree", Declined)
    return np.pad(x, widths, mode)
