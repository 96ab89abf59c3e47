"""A part of a weight: some places along its axes, read row by row while the part is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from bnfold.ir.elements import Array, Float64
from bnfold.ir.tensor import CHUNK, Computed, Exact, Inline, InMemory, Tensor, sources_of
from bnfold.ir.time_limit import look_at_clock

TakenPlaces = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class Taken(Computed):
    """The elements ``base[places]``: ``places`` are arrays for the first axes, which broadcast as numpy's indices do.

    Along the first axis they ascend. Axes behind them are taken whole.
    """

    __slots__ = ("base", "places")

    def __init__(self, base: Tensor, places: Sequence[TakenPlaces]) -> None:
        if isinstance(base, Inline):  # not the message, which may be written over while this is still read from it
            base = InMemory(base.dtype, base.numpy().copy())
        shape = np.broadcast_shapes(*(each.shape for each in places))
        super().__init__(base.dtype, (*shape, *base.dims[len(places) :]))
        self.base, self.places, self.origin = base, tuple(places), None

    @property
    def sources(self) -> tuple[Tensor, ...]:
        return sources_of(self.base)

    @property
    def numbers(self) -> list[Float64]:
        return self.base.numbers if isinstance(self.base, Computed) else []

    def numpy(self) -> Array:
        return self.base.numpy()[self.places]

    def widened(self) -> Float64:
        return self.base.widened()[self.places]

    def blocks(self) -> Iterator[Array]:
        base, first = self.base, self.places[0].reshape(-1)
        if not base.can_read or first.size != self.dims[0] or not self.size:
            yield self.numpy().reshape(-1)
            return
        row = math.prod(base.dims[1:])
        step = max(1, CHUNK // 8 // max(row, 1))
        for start in range(0, first.size, step):
            look_at_clock()
            some = slice(start, min(start + step, first.size))
            rows = [base.read(place * row, row) for place in first[some].tolist()]
            block = np.concatenate(rows).reshape(len(rows), *base.dims[1:])
            numbers = np.arange(len(rows)).reshape(-1, *(1,) * (self.places[0].ndim - 1))
            others = (
                each[some] if each.ndim == self.places[0].ndim and each.shape[0] > 1 else each
                for each in self.places[1:]
            )
            yield block[(numbers, *others)].reshape(-1)


def taken(base: Tensor, kept: Sequence[TakenPlaces | None]) -> Tensor:
    """Return some places along each axis of a tensor, in ascending order; None takes an axis whole."""
    while kept and kept[-1] is None:
        kept = kept[:-1]
    if not kept:
        return base
    whole = [np.arange(base.dims[axis]) if each is None else each for axis, each in enumerate(kept)]
    places = np.ix_(*whole)
    return Exact(base.dtype, base.values[places]) if isinstance(base, Exact) else Taken(base, places)


def rows(tensor: Tensor) -> Iterator[tuple[int, Array]]:
    """Yield the first row of each piece along axis 0, and the piece, as it is stored; only one is held at a time."""
    if not tensor.dims or not tensor.size or not tensor.can_read:
        yield 0, tensor.numpy()
        return
    row = math.prod(tensor.dims[1:])
    step = max(1, CHUNK // 8 // row)
    for start in range(0, tensor.dims[0], step):
        look_at_clock()
        count = min(step, tensor.dims[0] - start)
        yield start, tensor.read(start * row, count * row).reshape(count, *tensor.dims[1:])
