"""How scale factors are distributed: over one BatchNormalization, and over all of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bnfold.ir.tensor import Float64

BINS = 24
NAMED = 12
"""Negative channels that are listed."""
DECADES = np.arange(-120, 81) / 20
"""Edges for the whole model, as powers of ten: what folding multiplies weights by spans decades."""


def spread(block: Float64) -> dict[str, Any]:
    """Return range and histogram of one BatchNormalization's scales or shifts; equal bins from ``min`` to ``max``."""
    low, high = float(block.min()), float(block.max())
    counts = np.histogram(block, BINS, (low, high))[0] if _divisible(low, high) else np.array([block.size])
    return {
        "min": low,
        "max": high,
        "zeros": int((block == 0).sum()),
        "negative": int((block < 0).sum()),
        "negative_at": np.flatnonzero(block < 0)[:NAMED].tolist(),
        "counts": [int(count) for count in counts],
    }


def _divisible(low: float, high: float) -> bool:
    """Whether the range is wide enough, and narrow enough, for float64 to hold the edges between the bins."""
    step = (high - low) / BINS
    return bool(np.isfinite(step)) and low + step > low and high - step < high


def distribution(blocks: Sequence[Float64]) -> dict[str, Any]:
    """Return a histogram of |scale| over all BatchNormalizations, on a logarithmic axis.

    The ends hold what lies beyond.
    """
    scale = np.concatenate([np.zeros(0), *blocks])
    return {
        "log10_edges": [float(edge) for edge in DECADES],
        "positive": _by_decade(scale[scale > 0]),
        "negative": _by_decade(-scale[scale < 0]),
        "zeros": int((scale == 0).sum()),
    }


def _by_decade(magnitudes: Float64) -> list[int]:
    exponents = np.clip(np.log10(magnitudes), DECADES[0], DECADES[-1])
    return [int(count) for count in np.histogram(exponents, DECADES)[0]]
