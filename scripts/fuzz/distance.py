"""The distance of two results."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.builder import Array


def apart(one: Array, other: Array) -> Array:
    """Return for each element 0 if both are the same infinity or NaN, and infinity if only one of them is."""
    first, second = np.asarray(one, np.float64), np.asarray(other, np.float64)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    both = np.isfinite(first) & np.isfinite(second)
    with np.errstate(all="ignore"):
        return np.where(same, 0.0, np.where(both, np.abs(first - second), np.inf))


def relative(expected: Array, found: Any, at_least: float = 0.0) -> float:
    """Return the largest distance, in units of the largest expected finite number or of a larger one.

    The result is 1 for another shape, type, word or pattern of NaN and infinities.
    """
    if not isinstance(found, np.ndarray):  # but a sequence
        return 1.0
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return 1.0
    if expected.dtype.kind not in "fiub" and expected.dtype.isbuiltin == 1:
        return float((expected != found).any())
    error = float(apart(expected, found).max(initial=0.0))
    numbers = np.where(np.isfinite(expected), expected, 0).astype(np.float64)
    scale = max(float(np.abs(numbers).max(initial=0.0)), at_least)
    return 1.0 if np.isinf(error) else error / scale if scale else float(error > 0)
