"""Inputs to try a model on, one set of samples after the other, until it runs."""

from __future__ import annotations

from collections.abc import Iterator

from bnfold import ir
from bnfold.settings import VerifyOptions
from bnfold.verification.inputs.data import load_data
from bnfold.verification.inputs.drawing import DrawnFeeds, input_shapes, random_feeds
from bnfold.verification.inputs.shapes import sizings


def candidates(model: ir.Model, checks: VerifyOptions) -> Iterator[list[DrawnFeeds]]:
    """Yield the recorded inputs, or samples drawn at one choice of dynamic sizes after the other.

    Raises BadInput for recorded inputs that do not fit, CannotFeed for an input of unknown rank.
    """
    if checks.data is not None:
        yield [run.feeds for run in load_data(checks.data, model)]
        return
    tried: list[dict[str, tuple[int, ...]]] = []
    for sizing in sizings():
        shapes = input_shapes(model, sizing, checks.inputs)
        if shapes not in tried:
            tried.append(shapes)
            yield [random_feeds(model, shapes, checks.seed, index) for index in range(checks.samples)]
