"""Whether results depend on what models are fed; where they do not, equal results prove nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bnfold.errors import Unsupported
from bnfold.verification.changes.interface import unread
from bnfold.verification.end_to_end.drawing import Sample
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.end_to_end.samples import Samples
from bnfold.verification.request import Request
from bnfold.verification.tolerance.compare import compare_values


def compared_inputs(request: Request, pair: ModelPair, seen: Sequence[Sample]) -> frozenset[str]:
    """Return the inputs that samples fed. Of those that only the original reads, its results have to depend on them."""
    fed = frozenset(name for sample in seen for name in sample.feeds)
    idle = (
        name
        for name in unread(request.before, request.after, ())
        if not any(_depends(pair, sample, name) for sample in seen if name in sample.feeds)
    )
    return fed - frozenset(idle)


def _depends(pair: ModelPair, sample: Sample, name: str) -> bool:
    """Whether the original has other results without this input, at its default."""
    rest = {other: array for other, array in sample.feeds.items() if other != name}
    try:
        return not _same_outputs(pair, sample, replace(sample, expected=pair.expect(rest)))
    except Unsupported:
        return False


def ignores_inputs(pair: ModelPair, drawn: Samples) -> str:
    """Return a sentence if no output depends on the inputs; else empty.

    At assumed sizes, only padding and biases may be left. If an output has few numbers, a Hardmax may turn any input
    into zeros.
    """
    first, *others = drawn.chosen
    if drawn.another is None or not first.feeds:
        return ""
    if not others and first.is_hollow:
        if (other := another(drawn, len(drawn.chosen))) is None:
            return "the original runs on no second sample, so no output was seen to depend on the inputs"
        others = [other]
    if others and all(_same_outputs(pair, first, other) for other in others):
        return "no output depends on the inputs at the tested shapes"
    return ""


def another(drawn: Samples, number: int) -> Sample | None:
    """Return a further sample; None if there is none on which the original runs."""
    try:
        return drawn.another(number) if drawn.another is not None else None
    except Unsupported:
        return None


def _same_outputs(pair: ModelPair, one: Sample, other: Sample) -> bool:
    pairs = ((one.expected[name], other.expected[name]) for name in pair.outputs)
    return all(compare_values(first, second, (), None, by_channel=False).excess == 0 for first, second in pairs)
