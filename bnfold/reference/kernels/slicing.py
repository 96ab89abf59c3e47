"""Slice, Split and Pad in all their forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.precision import Datum
from bnfold.reference.registry import (
    Call,
    KernelResult,
    Shortness,
    dims_to_make,
    int_list,
    kernel,
    normal_axis,
    require,
)


@kernel("Slice", 1)
@kernel("Slice", 10, 11, 13)
def slice_axes(
    call: Call,
    x: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> KernelResult:
    """Slice axes, whose bounds below zero count from the end once.

    What is still outside is clamped, a start always onto an element.

    Bounds are attributes, and from version 10 on inputs, with steps.
    """
    first, last = call.listed("starts", starts) or [], call.listed("ends", ends) or []
    chosen = (call.attr("axes") or range(len(first))) if axes is None else int_list(axes)
    strides = [1] * len(first) if steps is None else int_list(steps)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(first, last, chosen, strides, strict=True):
        place = normal_axis(axis, x.ndim)
        require(step and index[place] == slice(None), f"steps {strides} along the axes {list(chosen)}")
        index[place] = _bounds(start, end, step, x.shape[place])
    return x[tuple(index)]


def _bounds(start: int, end: int, step: int, length: int) -> slice:
    start = start + length if start < 0 else start
    end = end + length if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    if not length:
        return slice(0, 0)
    start, end = min(max(start, 0), length - 1), min(max(end, -1), length - 1)
    return slice(start, None if end < 0 else end, step)


@kernel("Split", 1)
@kernel("Split", 2, 11)
@kernel("Split", 13)
@kernel("Split", 18)
def split(call: Call, x: Array, lengths: Array | None = None) -> tuple[Array, ...]:
    """Split into parts of these lengths, else equal ones; from version 18 on the last may be smaller.

    An absent axis, which the text of version 1 leaves open, is 0 as everywhere later.
    """
    place, count = normal_axis(call.attr("axis", 0), x.ndim), len(call.named)
    parts, length = call.listed("split", lengths), x.shape[place]
    if call.version >= 18:
        number = call.attr("num_outputs")
        require((number is None) != (lengths is None), "one of lengths and a number of parts is to be given")
        part = -(-length // number) if number is not None else 0
        parts = parts if number is None else [max(min(part, length - i * part), 0) for i in range(number)]
    parts = parts or [length // count] * count
    require(len(parts) == count, f"{len(parts)} parts for {count} outputs")
    return tuple(cut(x, place, parts))


def cut(x: Array, axis: int, lengths: Sequence[int]) -> list[Array]:
    """Cut into parts of these lengths, which make up the whole axis."""
    fits = min(lengths, default=0) >= 0 and sum(lengths) == x.shape[axis]
    require(fits, f"parts {list(lengths)} of {x.shape[axis]}")
    return np.split(x, np.cumsum(lengths)[:-1], axis)


@kernel("Pad", 1)
@kernel("Pad", 2)
@kernel("Pad", 11, 13, 18, 19, 21, 23, 24, 25)
def pad(
    call: Call, x: Array, pads: Array | None = None, value: Array | None = None, axes: Array | None = None
) -> KernelResult:
    """Pad by amounts (at version 1 called ``paddings``) and value as attributes.

    From 11 on inputs, from 18 on with axes.
    """
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
    """Pad; negative amounts crop, before anything is added."""
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
        require(fits, "reflection of more than there is: texts and runtimes disagree", Shortness)
    return np.pad(x, widths, mode)
