"""Inputs to try a model on, one set of samples after the other, until it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from bnfold import ir
from bnfold.ir.time_limit import look_at_clock
from bnfold.ir.value import Known
from bnfold.settings import VerifyOptions
from bnfold.verification.inputs.choices import Choice, choices
from bnfold.verification.inputs.cost import fits_memory
from bnfold.verification.inputs.data import load_data
from bnfold.verification.inputs.drawing import DrawnFeeds, known_sizes, random_feeds

_SIZES = 16
"""Choices of dynamic sizes that are tried until the model runs."""


def sizes_of(model: ir.Model, checks: VerifyOptions) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    """Return the shapes of a model's inputs as far as they are known, and the choices that these leave.

    Raises as `known_sizes`.
    """
    known, followed = known_sizes(model, checks.inputs)
    return known, choices(model, known, followed)


def candidates(
    model: ir.Model,
    checks: VerifyOptions,
    sizes: Iterable[Choice] | None = None,
    numbers: Callable[[Choice], Iterable[int]] | None = None,
) -> Iterator[list[DrawnFeeds]]:
    """Yield the recorded inputs, or samples drawn at one choice of dynamic ``sizes`` after the other.

    ``numbers`` are those of the samples at these sizes; None for as many as are asked for. Raises BadInput for recorded
    inputs that do not fit, CannotFeed for an input of unknown rank.
    """
    if checks.data is not None:
        yield [run.feeds for run in load_data(checks.data, model)]
        return
    for choice in islice(sizes_of(model, checks)[1] if sizes is None else sizes, _SIZES):
        look_at_clock()
        if fits_memory(choice.elements):
            drawn = range(checks.samples) if numbers is None else numbers(choice)
            yield [random_feeds(choice.model, choice.shapes, checks.seed, number) for number in drawn]
