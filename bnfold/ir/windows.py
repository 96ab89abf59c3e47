"""Cut a tensor into pieces that fit in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np


def windows(dims: Sequence[int], limit: int) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Cut a row-major index space into contiguous boxes of at most ``limit`` elements: (flat start, slices)."""
    if 0 in dims:
        return
    if not dims:
        yield 0, ()
        return
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    split = next(axis for axis, stride in enumerate(strides) if stride <= limit)
    step = max(1, limit // strides[split])
    for outer in np.ndindex(*dims[:split]):
        offset = sum(index * stride for index, stride in zip(outer, strides, strict=False))
        around = [slice(index, index + 1) for index in outer]
        inside = [slice(0, dim) for dim in dims[split + 1 :]]
        for start in range(0, dims[split], step):
            stop = min(start + step, dims[split])
            yield offset + start * strides[split], (*around, slice(start, stop), *inside)
