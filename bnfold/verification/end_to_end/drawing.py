"""Draw one set of inputs for both models, and evaluate the original on it in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference import Misfit
from bnfold.verification.claims import NumberKind
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.inputs.adjusting import choosing, with_flags_turned
from bnfold.verification.inputs.choices import Choice
from bnfold.verification.inputs.data import Recorded
from bnfold.verification.inputs.drawing import SAMPLE_KINDS, DrawnFeeds, is_of_both_signs, random_feeds
from bnfold.verification.inputs.shapes import is_static
from bnfold.verification.request import Request
from bnfold.verification.tolerance.floats import is_float_array


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of inputs, the original's results in float64, and the recorded outputs.

    It ``is_hollow`` if a value inside has no elements.
    """

    feeds: DrawnFeeds
    expected: Mapping[str, Array]
    recorded: Mapping[str, Array] = field(default_factory=dict)
    is_hollow: bool = False
    numbers: NumberKind = "recorded"
    """What the inputs are."""


def drawn(request: Request, pair: ModelPair, choice: Choice, index: int, *, signed: bool = False) -> Sample:
    """Return the sample of that number at the chosen sizes."""
    feeds = random_feeds(choice.model, choice.shapes, request.checks.seed, index, signed=signed)
    feeds = choosing(choice.model.required_inputs(), feeds, pair.draws.rows, index)
    try:
        return evaluated(request, pair, Recorded(feeds), index)
    except Misfit:
        # A flag may choose a branch that fits nothing; other sizes may fit it, if there are any.
        if not (pair.takes_no_sizes or is_static(request.before.graph.inputs)):
            raise
        if (found := next(turned(request, pair, feeds, index), None)) is None:
            raise
    return found


def turned(request: Request, pair: ModelPair, feeds: DrawnFeeds, index: int) -> Iterator[Sample]:
    """Yield samples with single flags turned, in every combination that the original takes."""
    for run in with_flags_turned(feeds):
        with suppress(Misfit):
            yield evaluated(request, pair, Recorded(run), index)


def drawn_in_range(
    request: Request, pair: ModelPair, choice: Choice, first: Sample, index: int, *, signed: bool = False
) -> Sample:
    """Return a sample of other numbers, or else of ordinary numbers.

    The other numbers are left out if they lead the original to NaN and ``first`` does not. After an overflow, the order
    of operators decides between infinity and NaN. The Log of a negative number is NaN in any order, but another
    consumer may need that number to be negative.
    """
    sample = drawn(request, pair, choice, index, signed=signed)
    is_large = SAMPLE_KINDS[index % len(SAMPLE_KINDS)] == "large"
    if not is_large and any(is_of_both_signs(value, index) for value in choice.model.required_inputs()):
        return sample
    if all(np.isnan(first.expected[name]).any() for name in pair.outputs if _has_nan(sample.expected[name])):
        return sample
    return drawn(request, pair, choice, 2 * len(SAMPLE_KINDS) * index, signed=signed)


def _has_nan(array: object) -> bool:
    return is_float_array(array) and bool(np.isnan(array).any())


def evaluated(request: Request, pair: ModelPair, run: Recorded, index: int) -> Sample:
    """Return a sample with these feeds, the original evaluated on them."""
    expected = pair.expect(run.feeds)
    numbers: NumberKind = "recorded" if request.checks.data is not None else SAMPLE_KINDS[index % len(SAMPLE_KINDS)]
    return Sample(run.feeds, expected, run.outputs, pair.has_empty, numbers)
