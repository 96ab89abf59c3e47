"""Sizes for the dims that nothing tells: small, pairwise different numbers."""

from __future__ import annotations

from dataclasses import field

from bnfold.classes import mutable
from bnfold.verification.dims import Known


@mutable
class Sizing:
    """One choice of sizes: ``batch`` for a free axis 0, ``spatial`` in turn for free image axes, ``other`` elsewhere.

    The same symbol gets the same size everywhere; unnamed dims get the next number, so that they differ pairwise.
    """

    batch: int
    spatial: tuple[int, ...]
    other: tuple[int, ...]
    symbols: dict[str, int] = field(default_factory=dict)
    taken: int = 0

    def concrete(self, known: Known) -> tuple[int, ...]:
        return tuple(self._size(dim, axis, len(known)) for axis, dim in enumerate(known))

    def _size(self, dim: int | str | None, axis: int, rank: int) -> int:
        if isinstance(dim, int):
            return dim
        if dim is None:
            return self._next(axis, rank)
        if dim not in self.symbols:
            self.symbols[dim] = self._next(axis, rank)
        return self.symbols[dim]

    def _next(self, axis: int, rank: int) -> int:
        if axis == 0 and rank > 1:
            return self.batch
        if rank >= 4 and axis >= 2:  # of volumes less than of images: they have one more side
            return max(self.spatial[(axis - 2) % len(self.spatial)] >> (rank - 4), 1)
        self.taken += 1
        return self.other[(self.taken - 1) % len(self.other)]


def sizings() -> tuple[Sizing, ...]:
    """The choices worth trying for a whole model, most telling first: odd batch and unlike sides before the usual ones.

    The first sides are multiples of 32, because encoders that halve five times must meet their decoders again.
    Detectors of speech take frames of 512 samples and no others.
    """
    return (
        Sizing(2, (64, 96, 32), (7, 5, 11, 9, 13)),
        Sizing(1, (224,), (16,)),
        Sizing(1, (299,), (128,)),
        Sizing(1, (32,), (3,)),
        Sizing(1, (32,), (1,)),
        Sizing(1, (32,), (512,)),
    )


def further_sizings() -> tuple[Sizing, ...]:
    """Further choices beside the first: at a size of 1, which may come next, broadcasting hides what an axis is.

    Each may take an evaluation, so they are for models of small inputs.
    """
    batches = (Sizing(batch, (64, 96, 32), (7, 5, 11, 9, 13)) for batch in range(3, 9))
    sides = (Sizing(2, (32,), (side,)) for side in (2, 3, 4, 5, 6, 8))
    return (*batches, *sides)
