"""Which factors and biases need no look at a weight: elementwise, for one tensor or for all of a model's at once."""

from __future__ import annotations

import numpy as np

from bnfold.ir.elements import Bools, Float64

SAFE = 2.0**60
"""Within 1/SAFE … SAFE a number is normal in float32 and a factor moves no ordinary weight out of range; overflow is
checked once more while writing."""


def is_ordinary(values: Float64) -> Bools:
    """For each element whether it is zero or of ordinary size; False for NaN."""
    size = np.abs(values)
    within: Bools = (size <= SAFE) & ((size >= 1 / SAFE) | (size == 0))
    return within
