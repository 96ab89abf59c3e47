"""What to compare whole models on: recorded inputs, or random ones of the first sizes that the original accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BadInput, Unsupported
from bnfold.settings import ESTIMATE
from bnfold.verification.feeding.choices import Choice, choices, further_choices, size_changes, told_sizes
from bnfold.verification.feeding.cost import estimate, estimate_pair, memory_there_is
from bnfold.verification.feeding.data import Recorded, load_data
from bnfold.verification.feeding.dims import Known
from bnfold.verification.feeding.inputs import (
    FLAT,
    SAMPLE_KINDS,
    CannotFeed,
    Feeds,
    choosing,
    input_shapes,
    known_shapes,
    overridable,
    random_feeds,
    random_value,
    required,
)
from bnfold.verification.feeding.loose import loosened
from bnfold.verification.feeding.shapes import sizings
from bnfold.verification.feeding.sized import sized
from bnfold.verification.numbers.compare import size_of
from bnfold.verification.numbers.floats import is_float
from bnfold.verification.numbers.rounding import Array
from bnfold.verification.request import Request
from bnfold.verification.runtimes.runtime import RuntimeProcess
from bnfold.verification.whole.pair import Pair

_FEW = 1024
"""Elements of its smallest input and output that a model should be tried on, where it takes no time."""

_MOST_SAMPLES = 2 * len(SAMPLE_KINDS)
_NO_TIME = 0.2
"""Seconds for all samples beyond those that were asked for."""

_LITTLE_TIME = 0.25
"""Of what the first sample takes: for other sizes; as much again where operators changed that depend on them."""

_SURPRISE = 20
"""Times the estimate that an evaluation may take by default: it counts nothing where nothing tells a size."""

_LONG = 5.0
"""Seconds from which on people want to know beforehand."""

_FLOAT64 = 8
_EVALUATIONS = 3
"""Of each sample: the original, the rewritten model, and that once more with its new weights disturbed."""


class Impossible(Exception):
    """The whole models cannot be compared; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of inputs with what the original makes of it in float64, and what was recorded for it.

    It ``is_hollow`` where something on the way has no elements.
    """

    feeds: Feeds
    expected: Mapping[str, Array]
    recorded: Mapping[str, Array] = field(default_factory=dict)
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples, how to draw one more (None for recorded ones), and what nobody asked for: one each of other sizes.

    Those are for open dims of models that take no time: at one size, an operator may pass for another. One more has
    other values in the place of stored defaults, where a caller may override them.
    """

    chosen: list[Sample]
    another: Callable[..., Sample] | None
    elsewhere: list[Sample] = field(default_factory=list)


def choose_samples(request: Request, pair: Pair) -> Samples:
    """Recorded or random samples, the original evaluated on each of them.

    Raises Impossible where the original cannot be fed, or cannot be evaluated on anything that was tried.
    """
    if request.checks.data is not None:
        runs = load_data(request.checks.data, request.before)
        shapes = {name: array.shape for name, array in runs[0].feeds.items()}
        _check_cost(request, pair, Choice(shapes, sized(request.before, shapes)), len(runs))
        chosen = [_expected(request, pair, run, index, len(runs)) for index, run in enumerate(runs)]
        return Samples(chosen, None, _overridden(request, pair, chosen[0]))
    found = _fitting(request, pair, request.before)
    if isinstance(found, Samples):
        return found
    pair.misfit = _hint(request, found)
    for model in _looser(request):
        with suppress(Impossible):
            samples = _fitting(request, pair, model)
            if isinstance(samples, Samples):
                return samples
    raise Impossible(pair.misfit) from found


def _fitting(request: Request, pair: Pair, model: ir.Model) -> Samples | Unsupported | None:
    """Samples of the first sizes that fit a model's inputs, or why the last ones tried did not."""
    try:
        known = known_shapes(model, request.checks.inputs)
    except CannotFeed as error:
        raise Impossible(str(error)) from error
    misfit: Unsupported | None = None
    for choice in choices(model, known):
        try:
            _check_cost(request, pair, choice, request.checks.samples)
            return _drawn_samples(request, pair, known, choice)
        except reference.Misfit as error:
            misfit = error
        except reference.Random as error:
            raise Impossible(f"the original draws random numbers: {error}") from error
        except (Unsupported, BadInput) as error:
            raise Impossible(str(error)) from error
    return misfit


def _looser(request: Request) -> Iterator[ir.Model]:
    """The original with inputs as its operators take them, where it declares them all and trying takes no time.

    Whoever wants whole models compared wants them as they are declared.
    """
    has_time = _EVALUATIONS * estimate(request.before).seconds < _NO_TIME
    if request.checks.depth != "full" and has_time and not _open_inputs(request) and not _runs_elsewhere(request):
        yield from loosened(request.before)


def _runs_elsewhere(request: Request) -> bool:
    """Whether the runtime takes the original as it is declared: then it is the referee who does not know it."""
    if request.checks.witness == "none":
        return False
    feeds = random_feeds(
        request.before, input_shapes(request.before, sizings()[0], request.checks.inputs), request.checks.seed, 0
    )
    model = request.before_file or request.before
    return RuntimeProcess(request.checks.witness).run(model, [feeds], request.clock.left).ran


def _drawn_samples(request: Request, pair: Pair, known: Mapping[str, Known], choice: Choice) -> Samples:
    """Samples of the chosen sizes, those that were asked for beyond the first of other sizes in turn."""
    first = _drawn(request, pair, choice, 0)
    elsewhere = [*_elsewhere(request, pair, known, choice)]
    sizes = [choice, *(other for other, _ in elsewhere)]
    asked = [_drawn(request, pair, sizes[number % len(sizes)], number) for number in range(1, request.checks.samples)]
    draw = partial(_drawn_in_range, request, pair, choice, first)
    return Samples(
        [first, *asked, *map(draw, _further(request, choice, first))],
        draw,
        [*(sample for _, sample in elsewhere), *_overridden(request, pair, first)],
    )


def _hint(request: Request, misfit: Unsupported | None) -> str:
    open_inputs = _open_inputs(request)
    if not open_inputs:
        return f"the original does not run on inputs of the shapes it declares: {misfit}"
    hints = " ".join(f"--input {name}=N,…" for name in open_inputs)
    return f"no input shape tried fits the original ({misfit}); give one with {hints}"


def _open_inputs(request: Request) -> list[str]:
    """The inputs whose shapes nobody gave and the original leaves open."""
    return [
        value.name
        for value in required(request.before)
        if value.name not in request.checks.inputs
        and (value.shape is None or not all(isinstance(dim, int) and dim > 0 for dim in value.shape))
    ]


def _check_cost(request: Request, pair: Pair, choice: Choice, samples: int) -> None:
    if (size := choice.elements * _FLOAT64) > memory_there_is():
        raise Impossible(f"the inputs alone would take about {size >> 30} GiB of memory")
    cost = estimate_pair(choice.model, request.after, choice.shapes)
    seconds = cost.seconds * _EVALUATIONS * samples
    pair.patience = max(_LONG, _SURPRISE * cost.seconds) if request.checks.depth == "auto" else math.inf
    is_limited = request.checks.depth != "full"
    if is_limited and seconds > request.clock.left:
        raise Impossible(
            f"running the models would take about {seconds:.0f} s, and {request.clock.left:.0f} s are left"
        )
    if is_limited and cost.memory > memory_there_is():
        raise Impossible(f"running the models would take about {cost.memory >> 30} GiB of memory")
    if seconds > _LONG:
        request.progress(ESTIMATE, round(seconds), 0)


def _further(request: Request, choice: Choice, first: Sample) -> Iterator[int]:
    """More samples than asked for, where an input or an output is very few numbers.

    They might all be negative before a Relu, or hide behind the largest of all. Flat samples are not among them: a
    variance of those is nothing but roundoff, on either side another one.
    """
    made = (size_of(first.expected[value.name]) for value in request.before.graph.outputs)
    smallest = min([*map(math.prod, choice.shapes.values()), *made], default=_FEW)
    wanted = min(_MOST_SAMPLES, _FEW // max(smallest, 1))
    if wanted <= request.checks.samples:
        return iter(())
    affordable = int(_NO_TIME / (_EVALUATIONS * max(estimate(choice.model).seconds, 1e-6)))
    others = (
        number for number in count(request.checks.samples) if SAMPLE_KINDS[number % len(SAMPLE_KINDS)] not in FLAT
    )
    return islice(others, max(0, min(wanted, affordable) - request.checks.samples))


def _elsewhere(
    request: Request, pair: Pair, known: Mapping[str, Known], main: Choice
) -> Iterator[tuple[Choice, Sample]]:
    """A sample of each kind of other sizes that the original takes, as long as trying takes little time or is asked."""
    told = told_sizes(
        {value.name: request.checks.inputs.get(value.name, value.shape) for value in required(request.before)}, known
    )
    if not told and all(isinstance(dim, int) for shape in known.values() for dim in shape):
        return
    changed = size_changes(request.before, request.after)
    share = _LITTLE_TIME if not changed else 1 + _LITTLE_TIME
    most, seconds, asked = (
        max(_NO_TIME / _EVALUATIONS, share * estimate(main.model).seconds),
        0.0,
        request.checks.samples - 1,
    )
    for alike in further_choices(request.before, known, main, told, changed):
        for choice in alike:
            cost = estimate(choice.model).seconds
            if seconds + cost > most and asked <= 0:
                continue
            try:
                yield choice, _drawn(request, pair, choice, 0)
            except (Unsupported, BadInput):
                seconds += cost / _EVALUATIONS
            else:
                seconds += cost
                asked -= 1
                break


def _overridden(request: Request, pair: Pair, first: Sample) -> list[Sample]:
    """The first sample with other values for the inputs that have a default: all of them, or else those of floats."""
    both = {value.name: value for value in overridable(request.after)}
    free = [value for value in overridable(request.before) if value.name in both and value.name not in first.feeds]
    cost = estimate(sized(request.before, {name: np.shape(array) for name, array in first.feeds.items()}))
    if _EVALUATIONS * cost.seconds > _NO_TIME:  # old exporters list all weights: only what is read in other places
        free = [value for value in free if _readers(value) != _readers(both[value.name])]
    floats = [value for value in free if is_float(value.dtype)]
    for values in (chosen for chosen in (free, floats) if chosen):
        shapes = {value.name: tuple(dim for dim in value.shape or () if isinstance(dim, int)) for value in values}
        others = {value.name: random_value(value, shapes[value.name], request.checks.seed, 0) for value in values}
        try:
            return [_expected(request, pair, Recorded({**first.feeds, **others}), 0, request.checks.samples)]
        except (Unsupported, BadInput):
            continue
    return []


def _readers(value: ir.Value) -> set[tuple[str, int, tuple[str, ...]]]:
    return {
        (node.op_type, slot, tuple(made.name for made in node.outputs if made is not None)) for node, slot in value.uses
    }


def _drawn(request: Request, pair: Pair, choice: Choice, index: int, *, signed: bool = False) -> Sample:
    feeds = random_feeds(choice.model, choice.shapes, request.checks.seed, index, signed=signed)
    feeds = choosing(required(choice.model), feeds, pair.rows, index)
    return _expected(request, pair, Recorded(feeds), index, request.checks.samples)


def _drawn_in_range(
    request: Request, pair: Pair, choice: Choice, first: Sample, index: int, *, signed: bool = False
) -> Sample:
    """A sample of other numbers; of usual ones where those lead the original to NaN, which ``first`` does not.

    What overflows may be infinite or NaN, as the order of the operators has it.
    """
    sample = _drawn(request, pair, choice, index, signed=signed)
    if all(np.isnan(first.expected[name]).any() for name in pair.outputs if _has_nan(sample.expected[name])):
        return sample
    return _drawn(request, pair, choice, 2 * len(SAMPLE_KINDS) * index, signed=signed)


def _has_nan(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and bool(np.isnan(array).any())


def _expected(request: Request, pair: Pair, run: Recorded, index: int, total: int) -> Sample:
    request.progress("original", index, max(index, total))
    expected = pair.expect(run.feeds)
    return Sample(run.feeds, expected, run.outputs, pair.has_empty)
