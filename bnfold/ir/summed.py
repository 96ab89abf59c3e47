"""Weights made of several: kernels added up, evaluated block by block, and products of two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bnfold.ir.tensor import CHUNK, Array, Computed, Exact, Float64, Scaled, Tensor, round_once, sources_of

Offset = tuple[int, ...]
"""An index along each spatial axis."""


class Summed(Computed):
    """The sum of ``terms``, each at its place inside the largest, and of a unit kernel of one number a channel.

    Kernels have dims (O, I, k…), and factors along the first two axes. The unit kernel hands channel ``o`` of a group
    on to output ``o``: it is 1 at ``i = o mod I`` and ``centre``, 0 elsewhere.
    """

    __slots__ = ("centre", "terms", "units")

    def __init__(self, terms: Sequence[tuple[Scaled, Offset]], units: Float64, centre: Offset) -> None:
        largest = max((term for term, _ in terms), key=lambda term: term.size)
        super().__init__(largest.dtype, largest.dims)
        self.terms, self.units, self.centre = tuple(terms), units, centre
        self.origin = None

    @property
    def sources(self) -> tuple[Tensor, ...]:
        return tuple(source for term, _ in self.terms for source in term.sources)

    @property
    def numbers(self) -> list[Float64]:
        return [self.units, *(vector for term, _ in self.terms for vector in term.numbers)]

    @property
    def _taps(self) -> int:
        return math.prod(self.dims[2:])

    @property
    def can_read(self) -> bool:
        return all(term.base.can_read for term, _ in self.terms)

    def read(self, start: int, count: int) -> Array:
        """Do as `Tensor.read`; float64, not rounded."""
        first, last = start // self._taps, -(-(start + count) // self._taps)
        skipped = start - first * self._taps
        return self._rows(first, last).reshape(-1)[skipped : skipped + count]

    def _rows(self, first: int, last: int) -> Float64:
        """Return some of the (O·I) kernels of one output and one input channel, not rounded."""
        total = np.zeros((last - first, *self.dims[2:]))
        for term, place in self.terms:
            window: Any = (slice(at, at + size) for at, size in zip(place, term.dims[2:], strict=True))
            total[(slice(None), *window)] += _scaled_rows(term, first, last)
        inputs, rows = self.dims[1], np.arange(first, last)
        own: Any = np.flatnonzero(rows % inputs == rows // inputs % inputs)
        total[(own, *self.centre)] += self.units[rows[own] // inputs]
        return total

    def widened(self) -> Float64:
        return self._rows(0, self.dims[0] * self.dims[1]).reshape(self.dims)

    def numpy(self) -> Array:
        return self._rounded(self.widened())

    def blocks(self) -> Iterator[Array]:
        rows = self.dims[0] * self.dims[1]
        step = max(1, CHUNK // 8 // self._taps) if self.can_read else rows
        for first in range(0, rows, step):
            yield self._rounded(self._rows(first, min(rows, first + step)).reshape(-1))

    def _rounded(self, exact: Float64) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return self._checked(round_once(exact, self.dtype), exact)


def _scaled_rows(term: Scaled, first: int, last: int) -> Float64:
    """Return rows of a kernel as `Summed` counts them, times its factors."""
    (outputs, inputs, *spatial), base = term.dims, term.base
    taps, rows = math.prod(spatial), np.arange(first, last)
    if base.can_read:
        block = base.read(first * taps, (last - first) * taps).astype(np.float64)
    else:
        block = base.float64().reshape(-1)[first * taps : last * taps]
    factor = np.ones(last - first)
    for axis, vector in term.factors:
        whole = np.broadcast_to(vector, (outputs, inputs)[axis])
        factor = factor * whole[rows // inputs if axis == 0 else rows % inputs]
    return block.reshape(-1, *spatial) * factor.reshape(-1, *(1,) * len(spatial))


class Product(Computed):
    """What ``multiply`` makes of two weights, which are read whole."""

    __slots__ = ("multiply", "operands")

    def __init__(
        self, operands: tuple[Tensor, Tensor], dims: Sequence[int], multiply: Callable[[Float64, Float64], Float64]
    ) -> None:
        super().__init__(operands[0].dtype, dims)
        self.operands, self.multiply, self.origin = operands, multiply, None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values: the function may be a local one. Raises RangeViolation."""
        self.numpy()
        return Exact, (self.dtype, self.widened())

    @property
    def sources(self) -> tuple[Tensor, ...]:
        return tuple(source for operand in self.operands for source in sources_of(operand))

    @property
    def numbers(self) -> list[Float64]:
        return []

    def widened(self) -> Float64:
        first, second = (operand.float64() for operand in self.operands)
        return self.multiply(first, second)

    def numpy(self) -> Array:
        exact = self.widened()
        with np.errstate(over="ignore", invalid="ignore"):
            return self._checked(round_once(exact, self.dtype), exact)
