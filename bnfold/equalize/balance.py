"""Factors for channels, chosen from the ranges of the weights on both sides of a value until these are alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bnfold import ir
from bnfold.ir.tensor import Float64

ROUNDS, SETTLED = 100, 1e-3
"""Rounds over all values, and the largest change of a factor's logarithm at which they end."""
WIDE, WIDE_HALF = float(np.log(2.0**16)), float(np.log(2.0**6))
"""Logarithm of the largest factor over the smallest; in float16 activations lose digits where they get small."""
DEAD = 1e-5
"""A channel so small beside the largest is as good as none: pruned ones are 1e-38. No output would show its factor."""
LOUD = 8.0
"""A channel counts by its bias if its share of the largest bias is so many times that of its weights: equalized
by weights that are nearly zero, it would become the largest activation of all."""
UNEVEN = 0.65
"""Standard deviation of the factors' logarithms from which on they go into a layer that sums over channels: ranges of
two powers of ten have it. With a scale for each of its own channels such a layer is best read unscaled; what it would
lose is more than one scale for all gains where channels are as alike as in trained networks."""
MOST = 1 << 24
"""Numbers of one weight that are weighed with the factors of both its sides; of a larger one each side on its own."""


@dataclass(slots=True, eq=False)
class Channels:
    """The channels of a value and of all that is tied to it, with the logarithms of their factors.

    ``sides`` has the weights that make these values, and those that read them, which may sum over channels (``mixed``).
    """

    log: Float64
    bias: Float64
    sides: tuple[list[Part], list[Part]] = field(default_factory=lambda: ([], []))
    half: bool = False
    mixed: bool = False

    def balance(self) -> float:
        """Give both sides the same ranges. Returns the largest change of a logarithm."""
        made, read = ([part.ranges() for part in side] for side in self.sides)
        above = np.max([_of_largest(self.bias * np.exp(self.log)) / LOUD, *made], 0)
        below = np.max(read, 0)
        faint = np.any([(sizes > 0) & (sizes < DEAD) for sizes in (*made, *read)], 0)
        live = (above > 0) & (below > 0) & ~faint
        if not live.any():
            return 0.0
        requested = self.log[live] + np.log(below[live] / above[live]) / 2
        wide, middle = (WIDE_HALF, requested.max() - WIDE_HALF / 2) if self.half else (WIDE, np.median(requested))
        fresh = np.zeros_like(self.log)  # a dead channel stays what it is
        if not self.mixed or np.std(requested) > UNEVEN:
            fresh[live] = np.clip(requested - middle, -wide / 2, wide / 2) - (wide / 2 if self.half else 0)
        change, self.log = np.abs(fresh - self.log).max(), fresh
        return float(change)


@dataclass(slots=True, eq=False)
class Part:
    """A weight that takes the factors of some channels, or, by ``sign``, their inverses.

    ``which`` says which channel its elements are of, −1 for none, with size 1 along axes that no factor varies along.
    """

    channels: Channels
    sign: int
    which: npt.NDArray[np.int64]
    place: tuple[ir.Node, int]
    tensor: ir.Tensor
    block: Float64 = field(init=False)
    """The largest magnitudes of the weight, over all axes that no factor varies along."""
    together: Sequence[Part] = ()
    """The parts, this one included, whose factors change ``block``."""

    def factor(self) -> Float64:
        """Return the factor of each element of ``which``, as the logarithms are now."""
        return np.append(np.exp(self.sign * self.channels.log), 1.0)[self.which]

    def ranges(self) -> Float64:
        """Return the range of each channel, as the factors are now; the largest is 1."""
        now = self.block
        for part in self.together:
            now = now * part.factor()
        others = tuple(axis for axis, size in enumerate(self.which.shape) if size == 1)
        found = np.zeros(self.channels.log.size + 1)
        np.maximum.at(found, self.which.reshape(-1), now.max(others, initial=0.0).reshape(-1))
        return _of_largest(found[:-1])


def balance(groups: Sequence[Channels]) -> None:
    """Choose the factors of all channels, each beside what the others are; first those that come at no price."""
    weights: dict[tuple[ir.Node, int], list[Part]] = {}
    for channels in groups:
        for part in (*channels.sides[0], *channels.sides[1]):
            weights.setdefault(part.place, []).append(part)
    for parts in weights.values():
        _weigh(parts[0].tensor, parts)
    for some in ([channels for channels in groups if not channels.mixed], groups):
        for _ in range(ROUNDS):
            if max([channels.balance() for channels in some], default=0.0) < SETTLED:
                break


def _weigh(tensor: ir.Tensor, parts: Sequence[Part]) -> None:
    """Reduce a weight to what its parts need of it."""
    size = np.abs(tensor.float64())
    kept = [{axis for axis, size in enumerate(part.which.shape) if size > 1} for part in parts]
    together = math.prod(tensor.dims[axis] for axis in set().union(*kept)) <= MOST
    for part, own in zip(parts, kept, strict=True):
        axes = set().union(*kept) if together else own
        part.together = parts if together else (part,)
        part.block = size.max(tuple(axis for axis in range(size.ndim) if axis not in axes), keepdims=True, initial=0.0)


def _of_largest(sizes: Float64) -> Float64:
    return sizes / sizes.max() if sizes.any() else sizes
