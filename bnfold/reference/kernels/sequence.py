"""Sequences (Python lists) and optionals (None, or the element itself)."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.kernels.slicing import cut
from bnfold.reference.precision import Datum
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, int_list, kernel, normal_axis, require


@kernel("SequenceConstruct", 11)
def construct(call: Call, *items: Array) -> KernelResult:
    """Compute A sequence of the inputs."""
    return list(items)


@kernel("SequenceEmpty", 11)
def empty(call: Call) -> KernelResult:
    """Compute A sequence of nothing."""
    return []


def _place(position: Array | None, length: int) -> int:
    place = length if position is None else int(position.item())
    require(-length <= place <= length, f"position {place} in a sequence of {length}")
    return place


@kernel("SequenceAt", 11)
def at(call: Call, sequence: list[Datum], position: Array) -> KernelResult:
    """Return one element."""
    return sequence[_place(position, len(sequence))]


@kernel("SequenceErase", 11)
def erase(call: Call, sequence: list[Datum], position: Array | None = None) -> KernelResult:
    """Return all elements but one, by default the last."""
    gone = range(len(sequence))[-1 if position is None else _place(position, len(sequence))]
    return [item for place, item in enumerate(sequence) if place != gone]


@kernel("SequenceInsert", 11)
def insert(call: Call, sequence: list[Datum], item: Array, position: Array | None = None) -> KernelResult:
    """Return one element more, in front of ``position``, by default at the end."""
    place = _place(position, len(sequence))
    return [*sequence[:place], item, *sequence[place:]]


@kernel("SequenceLength", 11)
def length(call: Call, sequence: list[Datum]) -> KernelResult:
    """Return the number of elements."""
    return np.asarray(len(sequence), np.int64)


@kernel("ConcatFromSequence", 11)
def concat(call: Call, sequence: list[Array]) -> KernelResult:
    """Return the elements one behind the other on ``axis``, or stacked on a new one."""
    axis = call.attr("axis")
    require(sequence, "a sequence of nothing")
    return np.stack(sequence, axis) if call.attr("new_axis") else np.concatenate(sequence, axis)


@kernel("SplitToSequence", 11, 24)
def split(call: Call, x: Array, lengths: Array | None = None) -> KernelResult:
    """Split into pieces along ``axis``.

    Single slices without lengths, equal ones (or a smaller last) for a scalar length.
    """
    axis = normal_axis(call.attr("axis"), x.ndim)
    size = x.shape[axis]
    if lengths is None:
        pieces = np.split(x, size, axis)
        return pieces if call.attr("keepdims") else [np.squeeze(piece, axis) for piece in pieces]
    if lengths.ndim == 0:
        require(lengths > 0, f"parts of {lengths} elements")
        return np.split(x, range(int(lengths), size, int(lengths)), axis)
    return cut(x, axis, int_list(lengths))


@kernel("Optional", 15, 28)
def optional(call: Call, item: Datum = None) -> KernelResult:
    """Return the element, or an empty optional."""
    return item


@kernel("OptionalGetElement", 15, 18, 28)
def get_element(call: Call, item: Datum) -> KernelResult:
    """Return the element of an optional that is not empty."""
    require(item is not None, "the optional is empty", KernelDeclined)
    return item


@kernel("OptionalHasElement", 15, 18, 28)
def has_element(call: Call, item: Datum = None) -> KernelResult:
    """Whether an optional holds something."""
    return np.asarray(item is not None)
