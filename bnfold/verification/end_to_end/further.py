"""Draw samples beyond the requested ones, if they take no time: more numbers, other sizes, other defaults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count, islice
from typing import TypeVar

import numpy as np
import onnx

from bnfold import ir
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.elements import Array
from bnfold.ir.value import Known
from bnfold.verification.comparing.sizes import original_in_one_form
from bnfold.verification.end_to_end.drawing import Sample, drawn, evaluated, turned
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.inputs.bounds import size_changes
from bnfold.verification.inputs.choices import Choice, apart, further_choices, inferred_sizes, turns_for, united
from bnfold.verification.inputs.cost import estimate, least_seconds
from bnfold.verification.inputs.data import Recorded
from bnfold.verification.inputs.drawing import CROSSED, FLAT, NO_TIME, SAMPLE_KINDS, random_value, samples_for
from bnfold.verification.inputs.roles import role
from bnfold.verification.inputs.sized import sized
from bnfold.verification.request import Request
from bnfold.verification.tolerance.compare import size_of
from bnfold.verification.tolerance.floats import is_float

T = TypeVar("T")

FEW = 1024
"""Elements of its smallest input and output that a model should be tried on, where it takes no time."""

_LITTLE_TIME = 0.25
"""Of what the first sample takes: for other sizes; as much again where operators changed that depend on them."""

EVALUATIONS = 3
"""Of each sample: the original, the rewritten model, and that once more with its new weights disturbed."""


def more_numbers(request: Request, choice: Choice, first: Sample) -> Iterator[int]:
    """Return more samples than requested if an input or an output has very few numbers.

    Flat samples are left out: their variance
    is roundoff, which differs between the two models.
    """
    made = (size_of(first.expected[value.name]) for value in request.before.graph.outputs)
    sizes = [*map(math.prod, choice.shapes.values()), *made]
    wanted = samples_for(sizes, FEW, EVALUATIONS * estimate(choice.model).seconds)
    others = (
        number for number in count(request.checks.samples) if SAMPLE_KINDS[number % len(SAMPLE_KINDS)] not in FLAT
    )
    return islice(others, max(0, wanted - request.checks.samples))


def other_sizes(
    request: Request, pair: ModelPair, known: Mapping[str, Known], main: Choice
) -> Iterator[tuple[Choice, Sample]]:
    """Yield a sample of each kind of other sizes that the original takes, as long as that takes little time."""
    told = inferred_sizes(
        {value.name: request.checks.inputs.get(value.name, value.shape) for value in request.before.required_inputs()},
        known,
    )
    if not told and all(isinstance(dim, int) for shape in known.values() for dim in shape):
        return
    changed = size_changes(request.before, request.after)
    share = _LITTLE_TIME if not changed else 1 + _LITTLE_TIME
    most = max(NO_TIME / EVALUATIONS, share * estimate(main.model).seconds)
    seconds, asked, least = 0.0, request.checks.samples - 1, least_seconds(main.model)

    def affordable(items: Iterator[T]) -> Iterator[T]:
        """Yield items as long as the cheapest choice can be afforded: sizes are inferred when they are asked for."""
        while (asked > 0 or seconds + least <= most) and (item := next(items, None)) is not None:
            yield item

    model = original_in_one_form(request)
    alike_sizes = united([*model.nodes()], known, main)
    turns = iter(count()) if request.checks.depth == "full" else turns_for(model)
    groups = further_choices(model, alike_sizes, main, told, changed, turns)
    if alike_sizes != known:
        groups = chain(apart(model, known, main, turns), groups)
    for alike in affordable(groups):
        for choice in affordable(alike):
            cost = estimate(choice.model).seconds
            if seconds + cost > most and asked <= 0:
                continue
            try:
                sample = drawn(request, pair, choice, 0)
            except (Unsupported, BadInput):
                seconds += cost / EVALUATIONS
                continue
            yield choice, sample
            for other in turned(request, pair, sample.feeds, 0):
                yield choice, other
                seconds += cost
            seconds += cost
            asked -= 1
            break


def other_defaults(request: Request, pair: ModelPair, first: Sample, elsewhere: Sequence[Sample] = ()) -> list[Sample]:
    """Return the first sample with other values for inputs that have a default: for all, and for floats alone.

    If an input has other consumers than before, these may be in one branch only. A boolean or a size may choose the
    branch, so further samples take the other one; ``elsewhere`` has samples of other sizes. Bounds with a default are
    crossed once, the lower one above the upper one.
    """
    both = {value.name: value for value in request.after.overridable_inputs()}
    free = [
        value for value in request.before.overridable_inputs() if value.name in both and value.name not in first.feeds
    ]
    if not free:
        return []
    moved = [value for value in free if _consumers(value) != _consumers(both[value.name])]
    cost = estimate(sized(request.before, {name: np.shape(array) for name, array in first.feeds.items()}))
    if EVALUATIONS * cost.seconds > NO_TIME:  # old exporters list all weights
        free = moved
    opposite = {name: _opposite(array) for name, array in first.feeds.items()}
    more = [opposite, *(sample.feeds for sample in elsewhere)] if moved else []
    found: list[Sample] = []
    floats = [value for value in free if is_float(value.dtype)]
    bounds = [value for value in floats if role(value) in ("lower", "upper")]
    for values, number in ((free, 0), (floats if len(floats) < len(free) else [], 0), (bounds, CROSSED)):
        others = {value.name: _other(value, request.checks.seed, number) for value in values}
        for feeds in (first.feeds, *more) if others else ():
            with suppress(Unsupported, BadInput):
                run = Recorded({**feeds, **others})
                found.append(evaluated(request, pair, run, 0))
    return found


def _other(value: ir.Value, seed: int, number: int) -> Array:
    """Draw another value than the default."""
    if value.dtype == onnx.TensorProto.BOOL and value.tensor is not None:
        return ~value.tensor.numpy()
    return random_value(value, tuple(dim for dim in value.shape or () if isinstance(dim, int)), seed, number)


def _opposite(array: Array) -> Array:
    """Invert booleans and the sign of floats; sequences stay."""
    kind = np.dtype(getattr(array, "dtype", object)).kind
    return ~array if kind == "b" else -array if kind == "f" else array


def _consumers(value: ir.Value) -> set[tuple[str, int, tuple[str, ...]]]:
    return {
        (node.op_type, slot, tuple(made.name for made in node.outputs if made is not None)) for node, slot in value.uses
    }
