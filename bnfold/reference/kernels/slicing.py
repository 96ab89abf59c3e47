"""Slice and Split in attribute and input form."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold.reference.registry import Array, Call, Result, int_list, kernel, normal_axis, require


@kernel("Slice", 1)
def slice_attributes(call: Call, x: Array) -> Result:
    """Bounds as attributes, steps of 1."""
    starts, ends = call.attr("starts"), call.attr("ends")
    return _slice(x, starts, ends, call.attr("axes") or range(len(starts)), [1] * len(starts))


@kernel("Slice", 10, 11, 13)
def slice_inputs(
    call: Call, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Result:
    """Bounds and steps as inputs."""
    first, last = int_list(starts), int_list(ends)
    chosen = range(len(first)) if axes is None else int_list(axes)
    return _slice(x, first, last, chosen, [1] * len(first) if steps is None else int_list(steps))


def _slice(x: Array, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> Array:
    """Bounds below zero count from the end once; what is still outside is clamped, a start always onto an element."""
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = normal_axis(axis, x.ndim)
        require(step and index[place] == slice(None), f"steps {steps} along the axes {list(axes)}")
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
def split_first(call: Call, x: Array, lengths: Array | None = None) -> tuple[Array, ...]:
    """Lengths as attribute or input; an absent axis, which the text leaves open, is 0 as everywhere later."""
    given = int_list(lengths) if lengths is not None else call.attr("split")
    return _split(call, x, call.attr("axis", 0), given)


@kernel("Split", 2, 11)
def split_attribute(call: Call, x: Array) -> tuple[Array, ...]:
    """Lengths as attribute; equal parts without."""
    return _split(call, x, call.attr("axis"), call.attr("split"))


@kernel("Split", 13)
def split_input(call: Call, x: Array, lengths: Array | None = None) -> tuple[Array, ...]:
    """Lengths as input; equal parts without."""
    return _split(call, x, call.attr("axis"), None if lengths is None else int_list(lengths))


@kernel("Split", 18)
def split_uneven(call: Call, x: Array, lengths: Array | None = None) -> tuple[Array, ...]:
    """As version 13; ``num_outputs`` parts may leave a smaller last one."""
    count = call.attr("num_outputs")
    require((count is None) != (lengths is None), "one of lengths and a number of parts is to be given")
    if lengths is not None:
        return _split(call, x, call.attr("axis"), int_list(lengths))
    length = x.shape[normal_axis(call.attr("axis"), x.ndim)]
    part = -(-length // count)
    return _split(call, x, call.attr("axis"), [max(min(part, length - i * part), 0) for i in range(count)])


def _split(call: Call, x: Array, axis: int, lengths: Sequence[int] | None) -> tuple[Array, ...]:
    place, count = normal_axis(axis, x.ndim), len(call.named)
    lengths = lengths or [x.shape[place] // count] * count
    require(len(lengths) == count, f"{len(lengths)} parts for {count} outputs")
    return tuple(cut(x, place, lengths))


def cut(x: Array, axis: int, lengths: Sequence[int]) -> list[Array]:
    """Parts of these lengths, which make up the whole axis."""
    fits = min(lengths, default=0) >= 0 and sum(lengths) == x.shape[axis]
    require(fits, f"parts {list(lengths)} of {x.shape[axis]}")
    return np.split(x, np.cumsum(lengths)[:-1], axis)
