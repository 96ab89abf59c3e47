"""Compare two parts on as many samples of one shape as it takes, and at other ranks.

One sample shows what is analytic. Further ones serve visibility (few numbers, large ones beside which rounding hides
too much), pieces (flags that choose a branch), discontinuities (single numbers that are compared), and sizes (other
ranks).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.reference.operators import COMPARING
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.inputs.adjusting import choosing, smaller, with_flags_turned
from bnfold.verification.inputs.drawing import (
    MOST_SAMPLES,
    SAMPLE_KINDS,
    DrawnFeeds,
    kind_of,
    random_value,
    samples_for,
)
from bnfold.verification.inputs.shapes import ChosenShapes
from bnfold.verification.subgraphs.pairs import FEW, SubgraphPair
from bnfold.verification.subgraphs.shapes import fed_shapes, lacks_rank, subgraph_shapes, updates_of
from bnfold.verification.subgraphs.trials import PartOutcome, largest, passed
from bnfold.verification.tolerance.floats import is_float, is_float_array

_BESIDE = (0.03, -0.03, 0.002, -0.002)
"""How far a number is put from the one that it is compared with, beside its size: for large changes and small ones."""

_MISFITS = 2
"""Samples after which sizes do not fit, whatever the numbers are."""

_FEW_ROWS = 16
"""The most rows along an axis that are tried, each as the one with the largest and with the least number."""

_DEAR = 0.02
"""Counted seconds of a sample beyond which one is enough at sizes that are not the first."""


def sampled(
    subgraphs: SubgraphPair,
    inputs: Mapping[str, ir.Value],
    shapes: ChosenShapes,
    *,
    guessed: bool,
    kind: int | None = None,
) -> PartOutcome:
    """Return the largest difference over a few samples, of all kinds that the part asks for, or of one ``kind``.

    If none could be compared, return why the first could not.
    """
    found: list[PartOutcome] = []
    wanted, work = 1, subgraphs.coverage.work
    start = work.seconds
    subgraphs.start(keep_usual=kind is not None)
    while len(found) < wanted and not (found and found[-1].differs):
        before = subgraphs.coverage.uncovered
        found.append(_attempt(subgraphs, inputs, shapes, (kind or 0) + len(found), guessed=guessed))
        is_any_kind = not found[0].is_open and kind is None and not subgraphs.only_moves
        samples = subgraphs.samples if is_any_kind else 1
        wanted = max(_number_of_samples(subgraphs, inputs, shapes, found[0]), samples)
        is_news = subgraphs.coverage.uncovered != before
        if kind is not None and work.seconds - start > _DEAR and not is_news:
            wanted = len(found)
        elif not (subgraphs.coverage.is_over or subgraphs.only_moves or found[-1].is_open):
            wanted = len(found) + 1 if is_news else max(wanted, MOST_SAMPLES)
        never_finite = subgraphs.never_finite()
        wanted = MOST_SAMPLES if never_finite else wanted
    if never_finite and not found[-1].differs:
        reason = f"{never_finite!r} has places that are NaN or infinite whatever it is made from"
        return PartOutcome(doubt=Why(Code.NEVER_FINITE, reason), is_same=all(outcome.agrees for outcome in found))
    worst = largest([outcome for outcome in found if not outcome.is_open] or found[:1])
    return worst if worst.differs else next((outcome for outcome in found if outcome.has_doubt(Code.COARSE)), worst)


def _number_of_samples(
    subgraphs: SubgraphPair, inputs: Mapping[str, ir.Value], shapes: ChosenShapes, first: PartOutcome
) -> int:
    """Return how many samples to try: more of few numbers, if other numbers may tell more than the ``first`` ones did.

    Where floats only move, one of them at a wrong place shows in any sample.
    """
    made = [] if first.is_open else [first.difference.elements]
    are_floats = all(is_float(value.dtype) for value in inputs.values())
    most = 1 if subgraphs.only_moves else _MISFITS if first.has_doubt(Code.NO_FIT) and are_floats else MOST_SAMPLES
    return min(most, samples_for([*map(math.prod, shapes.values()), *made], FEW))


def _attempt(
    subgraphs: SubgraphPair, inputs: Mapping[str, ir.Value], shapes: ChosenShapes, sample: int, *, guessed: bool
) -> PartOutcome:
    """Compare one sample. If rounding hides too much where activations are large, they are drawn smaller."""
    feeds, numbers = drawn(subgraphs, inputs, shapes, sample), kind_of(sample)
    latest = subgraphs.attempt(feeds, numbers, guessed=guessed)
    if latest.has_doubt(Code.NO_FIT) and (sample == 0 or passed(subgraphs.tried)):
        others = ((other, subgraphs.attempt(other, numbers, guessed=guessed)) for other in with_flags_turned(feeds))
        feeds, latest = next(
            ((other, found) for other, found in others if not found.has_doubt(Code.NO_FIT)), (feeds, latest)
        )
    subgraphs.tried.append((feeds, guessed, latest))
    if numbers == "large" and latest.has_doubt(Code.COARSE):
        feeds = smaller(inputs, feeds)
        latest = subgraphs.attempt(feeds, numbers, guessed=guessed)
        subgraphs.tried.append((feeds, guessed, latest))
    if not latest.agrees:
        return latest
    beside = _beside_what_is_compared(subgraphs, feeds) if sample < len(SAMPLE_KINDS) else ()  # once of each kind
    chosen = _with_each_row_chosen(subgraphs, feeds) if sample == 0 else ()
    for turned in chain(with_flags_turned(feeds), beside, chosen):
        found = subgraphs.attempt(turned, numbers, guessed=guessed)
        if found.differs or found.original_ran:
            return found
    return latest


def _beside_what_is_compared(subgraphs: SubgraphPair, feeds: DrawnFeeds) -> Iterator[DrawnFeeds]:
    """Yield the feeds with a single float on either side of the number that the original part compares it with.

    The comparison of two numbers has one result a sample: of numbers that are drawn apart, few show a small change.
    """
    for node in subgraphs.old.subgraph.nodes:
        names = [value.name for value in node.inputs if value is not None] if node.has_trait(COMPARING) else []
        own = next((name for name in names if name in feeds and _is_single(feeds[name])), None)
        if own is None or len(set(names)) < len(names):
            continue
        (other,) = (name for name in names if name != own)
        number = feeds[other] if other in feeds else subgraphs.fed(feeds).old([other])[other]
        if not _is_single(number):
            continue
        for step in _BESIDE:
            place = number + step * (1 + np.abs(number))
            yield {**feeds, own: np.full_like(feeds[own], place.reshape(()))}


def _with_each_row_chosen(subgraphs: SubgraphPair, feeds: DrawnFeeds) -> Iterator[DrawnFeeds]:
    """Yield the feeds with each row, along each axis, far above all others, and far below.

    Of many numbers, a reduction to the largest or least shows one: drawn numbers rarely show that a row is left out.
    """
    if not any(node.is_op("GlobalMaxPool", "ReduceMax", "ReduceMin") for node in subgraphs.nodes):
        return
    for name, array in feeds.items():
        if not is_float_array(array) or not array.size:
            continue
        far = 2 * float(np.abs(array).max()) + 1
        for axis, length in enumerate(array.shape):
            for row in range(length) if 1 < length <= _FEW_ROWS else ():
                for end in (far, -far):
                    moved = np.array(array)
                    moved[(slice(None),) * axis + (row,)] += end
                    yield {**feeds, name: moved}


def _is_single(array: object) -> bool:
    return is_float_array(array) and array.size == 1


def drawn(subgraphs: SubgraphPair, inputs: Mapping[str, ir.Value], shapes: ChosenShapes, sample: int) -> DrawnFeeds:
    """Return the activations of one sample."""
    is_large = kind_of(sample) == "large"
    feeds = {
        name: random_value(value, shapes[name], subgraphs.seed, sample, fed_shapes(shapes), signed=is_large)
        for name, value in inputs.items()
    }
    feeds = choosing(inputs.values(), feeds, subgraphs.draws.rows, sample)
    for name, node in updates_of(subgraphs.old.subgraph.nodes).items():
        if name in inputs and 0 in shapes[name] and (shape := _found_places(subgraphs, feeds, node)) is not None:
            feeds[name] = random_value(inputs[name], shape, subgraphs.seed, sample, signed=is_large)
    return feeds


def _found_places(subgraphs: SubgraphPair, feeds: DrawnFeeds, node: ir.Node) -> tuple[int, ...] | None:
    """Return the shape of updates for the places that the original part finds, as by a mask; None if it does not."""
    read = [value.name for value in node.inputs[:2] if value is not None]
    try:
        made = subgraphs.fed(feeds).old([name for name in read if name not in feeds])
    except BnfoldError:
        return None
    data, places = ({**feeds, **made}[name].shape for name in read)
    return (*places[:-1], *data[places[-1] :]) if places else None


def at_other_ranks(subgraphs: SubgraphPair, fed: Mapping[str, ir.Value]) -> PartOutcome | None:
    """Return why equal results do not count where callers choose a rank, or where a rank may choose a branch.

    At some ranks, a result may be the same number whatever is fed, as a Softmax of single elements is.
    """
    nodes = subgraphs.nodes
    is_chosen = any(value.is_input and value.shape is None for value in fed.values())
    if not lacks_rank(fed) or not (is_chosen or any(node.subgraphs for node in nodes)):
        return None
    by_rank: dict[tuple[int, ...], ChosenShapes] = {}
    for trial in subgraph_shapes(fed, subgraphs.old.subgraph.nodes):
        by_rank.setdefault(tuple(map(len, trial.shapes.values())), trial.shapes)
    for shapes in by_rank.values():
        found = sampled(subgraphs, fed, shapes, guessed=True)
        if found.differs or (found.original_ran and not found.has_doubt(Code.HIDDEN)):
            reason = "it is equivalent at some ranks only, and the model does not declare which it gets"
            return PartOutcome(doubt=Why(Code.SOME_SIZES, reason))
    return None
