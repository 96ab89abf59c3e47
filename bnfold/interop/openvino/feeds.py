"""Inputs for an IR: sizes for its open dims, and values that take other branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bnfold.interop.openvino.load import IrModel
from bnfold.settings import VerifyOptions
from bnfold.verification.inputs.data import load_data
from bnfold.verification.inputs.drawing import Feeds, input_shapes, random_feeds
from bnfold.verification.inputs.shapes import sizings


def candidates(model: IrModel, checks: VerifyOptions) -> Iterator[list[Feeds]]:
    """Yield inputs to try until the model runs on them. Raises CannotFeed."""
    if checks.data is not None:
        yield [run.feeds for run in load_data(checks.data, model)]
        return
    tried: list[dict[str, tuple[int, ...]]] = []
    for sizing in sizings():
        shapes = input_shapes(model, sizing, checks.inputs)
        if shapes not in tried:
            tried.append(shapes)
            drawn = [random_feeds(model, shapes, checks.seed, index) for index in range(checks.samples)]
            yield drawn + _other_branches(drawn)


def _other_branches(drawn: Sequence[Feeds]) -> list[Feeds]:
    """Return the same inputs with every boolean turned round, where there are any.

    What an If does not enter, it does then.
    """
    return [
        {name: ~array if array.dtype == bool else array for name, array in feeds.items()}
        for feeds in drawn
        if any(array.dtype == bool for array in feeds.values())
    ]
