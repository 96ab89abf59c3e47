"""AffineGrid for a size that is known: one product of the matrices with a stored grid.

onnx's own body squeezes every axis of size 1, the batch among them, and divides by 0 where corners are aligned.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

_LARGEST_GRID = 1 << 22
"""Numbers of a grid that are stored."""


@down("AffineGrid", 20)
def affine_grid(conversion: NodeConversion) -> None:
    """Decompose AffineGrid: the points of the plain grid, and a 1, times each matrix."""
    theta, sizes = conversion.input(0), conversion.numbers(conversion.input(1), "its size")
    align, places = bool(conversion.take("align_corners", 0)), sizes[2:]
    if len(places) not in (2, 3) or min(sizes) < 1 or (align and 1 in places):
        raise Inexpressible(f"makes a grid of size {sizes}{' with aligned corners' * align}")
    if np.prod(places) * (len(places) + 1) > _LARGEST_GRID:
        raise Inexpressible(f"makes a grid of size {sizes}, too large to be stored")
    points = conversion.constant(_points(places, align=align).astype(numeric_type(conversion.dtype(theta))), "points")
    columns = conversion.add("Transpose", [theta], "columns", perm=[0, 2, 1])
    moved = conversion.add("MatMul", [points, columns], "moved")
    conversion.become("Reshape", [moved, conversion.ints([0, *places, len(places)], "shape")])


def _points(places: Sequence[int], *, align: bool) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return a row for each point: its coordinates, the last axis first, and a 1."""
    lines = [
        np.linspace(-1, 1, count) if align else (2 * np.arange(count, dtype=np.float64) + 1) / count - 1
        for count in places
    ]
    axes = [axis.reshape(-1) for axis in np.meshgrid(*lines, indexing="ij")]
    return np.stack([*axes[::-1], np.ones(axes[0].size)], axis=1)
