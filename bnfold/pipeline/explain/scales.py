"""How scale factors are distributed: over one BatchNormalization, and over all of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from bnfold.ir.tensor import Float64

BINS = 24
DECADES = np.arange(-120, 81) / 20
"""Edges for the whole model, as powers of ten: what folding multiplies weights by spans decades."""


def spread(block: Float64) -> dict[str, Any]:
    """Range and histogram of one BatchNormalization's scales or shifts; equal bins from ``min`` to ``max``."""
    low, high = float(block.min()), float(block.max())
    counts = np.histogram(block, BINS, (low, high))[0] if _divisible(low, high) else np.array([block.size])
    return {
        "min": low,
        "max": high,
        "zeros": int((block == 0).sum()),
        "negative": int((block < 0).sum()),
        "counts": [int(count) for count in counts],
    }


def _divisible(low: float, high: float) -> bool:
    """Whether the range is wide enough, and narrow enough, for float64 to hold the edges between the bins."""
    step = (high - low) / BINS
    return bool(np.isfinite(step)) and low + step > low and high - step < high


def _by_decade(magnitudes: Float64) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    exponents = np.clip(np.log10(magnitudes), DECADES[0], DECADES[-1])
    return np.histogram(exponents, DECADES)[0].astype(np.int64)


class Scales:
    """A histogram of |scale| over all BatchNormalizations, on a logarithmic axis; the ends hold what lies beyond."""

    def __init__(self) -> None:
        self._positive = np.zeros(len(DECADES) - 1, dtype=np.int64)
        self._negative = np.zeros(len(DECADES) - 1, dtype=np.int64)
        self._zeros = 0

    def add(self, affine: tuple[Float64, Float64] | None) -> None:
        """Count the scales of one BatchNormalization; None counts nothing."""
        if affine is None:
            return
        scale = affine[0]
        self._zeros += int((scale == 0).sum())
        self._positive += _by_decade(scale[scale > 0])
        self._negative += _by_decade(-scale[scale < 0])

    def to_json(self) -> dict[str, Any]:
        return {
            "log10_edges": [float(edge) for edge in DECADES],
            "positive": [int(count) for count in self._positive],
            "negative": [int(count) for count in self._negative],
            "zeros": self._zeros,
        }
