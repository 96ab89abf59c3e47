"""A weight that is too large to be held in float64: it is read and widened a few rows at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.precision import DOUBLE, WIDENED

_LARGE = 1 << 25
"""Bytes in the file beyond which a weight is not held; below it, one product is quicker than several."""
_BLOCK = 1 << 18
"""Elements that are held at a time: what is widened then stays in the cache until it is multiplied."""


class StreamedWeight:
    """The weight of a Conv, of the dims that the file states, as rows: one an output channel. Or a table's rows."""

    dtype = DOUBLE

    def __init__(self, tensor: ir.Tensor) -> None:
        self._tensor = tensor
        self.shape, self.size, self.ndim = tensor.dims, tensor.size, len(tensor.dims)

    def rows(self) -> Iterator[tuple[slice, Array]]:
        """Yield some output channels, and their rows, which are there until the next ones are asked for."""
        width = math.prod(self.shape[1:])
        step = max(_BLOCK // width, 1)
        held = np.empty((step, width))  # for new arrays the system would have to find new pages
        for start in range(0, self.shape[0], step):
            stop = min(start + step, self.shape[0])
            rows = held[: stop - start]
            rows[...] = self._tensor.read(start * width, (stop - start) * width).reshape(-1, width)
            yield slice(start, stop), rows

    def take(self, places: Array) -> Array:
        """Return the rows at these places, which are not negative; only they are read."""
        width = math.prod(self.shape[1:])
        chosen, where = np.unique(places, return_inverse=True)
        found = np.empty((chosen.size, width))
        ends = np.flatnonzero(np.diff(chosen) != 1) + 1
        for start, stop in pairwise((0, *ends.tolist(), chosen.size) if chosen.size else ()):
            read = self._tensor.read(int(chosen[start]) * width, (stop - start) * width)
            found[start:stop] = read.reshape(-1, width)
        return found[where.reshape(-1)].reshape(*places.shape, *self.shape[1:])

    def whole(self) -> Array:
        """Return the weight as one array."""
        return self._tensor.float64()


def streamed(node: ir.Node, slot: int) -> StreamedWeight | None:
    """Return the input of a node as such a weight; None where it has to be an array."""
    is_weight = slot == 1 and node.is_op("Conv") and node.attr("group", 1) == 1
    is_table = slot == 0 and node.is_op("Gather") and not node.has_references and node.attr("axis", 0) == 0
    if not (is_weight or is_table):
        return None
    value = node.input(slot)
    tensor = value.tensor if value is not None else None
    if tensor is None or tensor.nbytes < _LARGE or tensor.dtype not in WIDENED or not tensor.can_read:
        return None
    return StreamedWeight(tensor)
