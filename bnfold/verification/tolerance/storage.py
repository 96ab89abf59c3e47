"""Both models in storage precision: does the rewritten one err more, against float64, than the original did?

This is the test that sees what happens between the weights: activations that overflow, cancellation that a rewrite
moved to a worse place. The truth for both sides is the original's float64 evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bnfold.verification.tolerance.compare import distance, magnitude
from bnfold.verification.tolerance.floats import float_type

GROWTH = 4.0
"""Accepted ratio of the errors: each is one draw of rounding, and two draws of the same size differ by less."""

SLACK = 8.0
"""Accepted error in units of roundoff of the scale, however exact the original happened to be …"""

LEAST = 2.0**-19
"""… and in float32 a little more: what it costs to add a shift that was computed apart from its scale."""

TRUTH = 2.0**-53
"""Roundoff of what results are measured against."""

AGREEMENT = 2.0**14
"""Units of roundoff of the scale within which a runtime agrees with the evaluator (about 1e-3 in float32) …"""

WORST_AGREEMENT = 0.25
"""… but whatever the type, a result that is off by this share of its scale is another result."""


class StorageErrors(NamedTuple):
    """Of one output over all samples, relative to scale: maximum, root mean square, and how many elements broke.

    ``broken`` are elements that are not finite although the truth is, as is an infinity of the wrong sign.
    """

    largest: float
    rms: float
    broken: int


def errors(truth: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]], name: str) -> StorageErrors | None:
    """Return the errors of a runtime against float64; None if it did not return numbers of this shape."""
    largest = rms = 0.0
    broken = 0
    for expected_sample, sample in zip(truth, results, strict=True):
        expected, actual = expected_sample[name], sample.get(name)
        if not isinstance(actual, np.ndarray) or actual.dtype.kind not in "fiub":
            return None  # a sequence, or words
        if not isinstance(expected, np.ndarray) or expected.dtype.kind not in "fiub" or actual.shape != expected.shape:
            return None
        wide = actual.astype(np.float64)
        broken += int(np.count_nonzero(np.isfinite(expected) & ~np.isfinite(wide)))
        delta, scale = distance(expected, wide), magnitude(expected) or 1.0
        largest = max(largest, float(delta.max(initial=0.0)) / scale)
        rms = max(rms, float(np.sqrt(np.mean(np.square(delta / scale)))) if delta.size else 0.0)
    return StorageErrors(largest, rms, broken)


class PrecisionLoss(NamedTuple):
    """How much more the rewritten model errs at an output than the original."""

    output: str
    text: str

    @property
    def sentence(self) -> str:
        """The text, with the name of the output."""
        return f"output {self.output!r}: {self.text}"


def growth_fault(name: str, dtype: int | None, before: StorageErrors, after: StorageErrors) -> PrecisionLoss | None:
    """Return how much more the rewritten model errs than the original; None if it does not."""
    if after.broken > before.broken:
        return PrecisionLoss(
            name,
            f"{after.broken} elements overflow or become NaN in the model's own precision, "
            f"{before.broken} did in the original",
        )
    unit = float_type(dtype).roundoff
    if unit <= TRUTH:
        return None  # the truth itself is no more precise; comparing in float64 has decided
    if after.largest > GROWTH * before.largest + max(SLACK * unit, LEAST) and after.rms > GROWTH * before.rms + unit:
        return PrecisionLoss(
            name,
            f"the error against float64 grew from {before.largest:.2g} to {after.largest:.2g} of its largest value "
            "in the model's own precision",
        )
    return None


def agrees(found: StorageErrors, dtype: int | None) -> bool:
    """Whether a runtime agrees with the reference evaluator on the original, as far as its precision allows."""
    return not found.broken and found.largest <= min(AGREEMENT * float_type(dtype).roundoff, WORST_AGREEMENT)
