"""Slice and Split in attribute and input form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold.reference.registry import Array, Call, Result, int_list, kernel, normal_axis, require


@kernel("Slice", 1)
@kernel("Slice", 10, 11, 13)
def slice_axes(
    call: Call,
    x: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Result:
    """Bounds below zero count from the end once; what is still outside is clamped, a start always onto an element.

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
    """Parts of these lengths (attribute or input), else equal ones; from version 18 on the last may be smaller.

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
    """Parts of these lengths, which make up the whole axis."""
    fits = min(lengths, default=0) >= 0 and sum(lengths) == x.shape[axis]
    require(fits, f"parts {list(lengths)} of {x.shape[axis]}")
    return np.split(x, np.cumsum(lengths)[:-1], axis)
