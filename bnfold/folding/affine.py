"""The value that moves: ``y = s·x + t`` in float64. Pure numpy, no graph.

``s`` and ``t`` have the rank of the value they act on, with size 1 on every axis along which they do not vary; an axis
along which they vary has a known size. Scalar, per-channel and per-activation affines are one type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bnfold.ir.elements import Bools, Float64
from bnfold.report.reasons import Declined, Reason

MOST = 1 << 24
"""Largest number of elements in one array of factors. More than that means a damaged file."""

WIDEST = 2.0**12
"""Largest ratio between the largest and the smallest scale, if the inverse is used."""
HALF = 2.0**4
"""In float16, scales whose inverse is used lie in [1/16, 16]: others would leave the range of the type."""


def bounded(count: int) -> int:
    """Return the number of elements of an array that is about to be made. Raises Declined where there are too many."""
    if count > MOST:
        raise Declined(Reason.UNREADABLE, f"{count} factors")
    return count


def bounded_together(*blocks: Float64) -> None:
    """Check, as `bounded` does, the size to which blocks of one rank are broadcast. Raises Declined if they are not."""
    try:
        dims = np.broadcast_shapes(*(block.shape for block in blocks))
    except ValueError as error:
        raise Declined(Reason.UNREADABLE, "its constants do not broadcast") from error
    bounded(math.prod(dims))


def every(truths: Bools) -> bool:
    """Return ``truths.all()``; five times faster on small arrays, which planning tests often."""
    return b"\0" not in truths.tobytes()


class Affine(NamedTuple):
    """``y = s·x + t``; build it with `make`, which brings both arrays to one shape and squeezes constant axes."""

    s: Float64
    t: Float64

    @property
    def rank(self) -> int:
        return self.s.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes along which ``s`` or ``t`` varies; 1 on the others."""
        s, t = self.s.shape, self.t.shape
        return s if s == t else tuple(b if a == 1 else a for a, b in zip(s, t, strict=True))

    def varies_only_on(self, *axes: int) -> bool:
        """Whether every axis along which it varies is one of ``axes``."""
        return {size for axis, size in enumerate(self.shape) if axis not in axes} <= {1}

    @property
    def is_scale_only(self) -> bool:
        return not np.count_nonzero(self.t)

    @property
    def is_shift_only(self) -> bool:
        return every(self.s == 1)

    @property
    def is_identity(self) -> bool:
        return self.is_scale_only and self.is_shift_only

    @property
    def is_power_of_two(self) -> bool:
        """Whether every scale is a power of two, or its negative: multiplying by it is exact, barring overflow."""
        return every(np.abs(np.frexp(self.s)[0]) == 0.5)

    @property
    def is_finite(self) -> bool:
        return every(np.isfinite(self.s)) and every(np.isfinite(self.t))

    def after(self, first: Affine) -> Affine:
        """Return the affine that applies ``first`` and then this one. Raises Declined as `bounded`."""
        if self.shape != first.shape:
            bounded_together(self.s, self.t, first.s, first.t)
        return make(self.s * first.s, self.s * first.t + self.t)

    def inverse(self, *, half: bool) -> Affine:
        """Return the inverse; NaN where the scale is zero or beyond `WIDEST` (`HALF` for float16)."""
        size = np.abs(self.s)
        fits = (size * HALF >= 1) & (size <= HALF) if half else size * WIDEST >= size.max()
        with np.errstate(all="ignore"):
            s = np.where(self.s == 1, 1.0, np.where(fits, 1 / self.s, np.nan))
            return make(s, np.where(self.t == 0, 0.0, -self.t * s))

    def scale_part(self) -> Affine:
        return Affine(self.s, np.zeros((1,) * self.rank))

    def same(self, other: Affine) -> bool:
        """Whether both are the same map, to the bit."""
        return np.array_equal(self.s, other.s) and np.array_equal(self.t, other.t)

    def lifted(self, rank: int) -> Affine:
        """Add leading axes of size 1 up to ``rank``."""
        return self.map(lambda block: lifted(block, rank))

    def map(self, move: Callable[[Float64], Float64]) -> Affine:
        """Pass both arrays through a rearrangement of axes or elements."""
        return make(move(self.s), move(self.t))

    def expanded(self, axis: int, size: int) -> Affine:
        """Repeat both arrays to ``size`` along ``axis``, so that single elements along it can be indexed."""
        return Affine(_repeat(self.s, axis, size), _repeat(self.t, axis, size))


def _repeat(block: Float64, axis: int, size: int) -> Float64:
    if block.shape[axis] != 1:
        return block
    bounded(block.size * size)
    return np.repeat(block, size, axis)


def squeeze_constant(block: Float64) -> Float64:
    """Cut every axis to size 1 along which the block does not vary."""
    if block.size > 1 and block.size in block.shape and block.item(0) != block.item(-1):
        return block  # a vector that plainly varies, as nearly all
    for axis, size in enumerate(block.shape):
        if size > 1:
            head = block[(slice(None),) * axis + (slice(0, 1),)]
            if every(block == head):
                block = head
    return block


def lifted(block: Float64, rank: int) -> Float64:
    """Add leading axes of size 1 up to ``rank``."""
    return block.reshape((1,) * (rank - block.ndim) + block.shape)


def make(s: Float64, t: Float64) -> Affine:
    """Return an Affine from two blocks of one rank."""
    return Affine(squeeze_constant(s), squeeze_constant(t))


def on_axis(s: Float64, t: Float64, axis: int, rank: int) -> Affine:
    """Return a per-channel affine: vectors ``s`` and ``t`` along ``axis`` of a value of ``rank``."""
    shape = [1] * rank
    shape[axis] = -1
    return make(s.reshape(shape), t.reshape(shape))


def vector(block: Float64, axis: int, size: int) -> Float64:
    """Return the values of a block along ``axis`` as a vector of ``size``; it must vary along no other axis.

    Raises Declined where the block has another size: the file is damaged.
    """
    if block.size == 1:  # `axis` may not exist in a block of one element
        return np.broadcast_to(block.reshape(-1), (size,))
    if block.shape[axis] != block.size:
        raise ValueError(f"a block of shape {block.shape} is no vector along axis {axis}")
    if block.size != size:
        raise Declined(Reason.UNREADABLE, f"factors for {block.size} channels meet parameters for {size}")
    return block.flatten()  # a copy: a view takes more, and holds the block as well


def concatenate(parts: Sequence[Affine], sizes: Sequence[int], axis: int) -> Affine:
    """Concatenate affines along ``axis``; ``sizes`` has the length of each part."""
    rank = parts[0].rank
    others = [max(part.shape[other] for part in parts) if other != axis else 1 for other in range(rank)]
    bounded(sum(sizes) * math.prod(others))

    others[axis] = sum(sizes)
    s, t = np.empty(others), np.empty(others)
    stop = 0
    for part, size in zip(parts, sizes, strict=True):
        start, stop = stop, stop + size
        place = (*(slice(None),) * axis, slice(start, stop))
        s[place], t[place] = part.s, part.t  # broadcast: a dense block has many parts
    return make(s, t)
