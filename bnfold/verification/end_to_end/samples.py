"""What to compare whole models on: recorded inputs, or random ones of the first sizes that the original accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from bnfold import ir, reference
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.shapes.unification import Known
from bnfold.settings import ESTIMATE
from bnfold.verification.end_to_end.drawing import Sample, drawn, drawn_in_range, evaluated
from bnfold.verification.end_to_end.further import EVALUATIONS, NO_TIME, more_numbers, other_defaults, other_sizes
from bnfold.verification.end_to_end.obstacles import Impossible
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.end_to_end.sizes import sizes_of_original
from bnfold.verification.inputs.choices import Choice, choices
from bnfold.verification.inputs.cost import estimate, estimate_pair, memory_there_is
from bnfold.verification.inputs.data import load_data
from bnfold.verification.inputs.drawing import (
    CannotFeed,
    input_shapes,
    known_shapes,
    random_feeds,
)
from bnfold.verification.inputs.relaxed import loosened
from bnfold.verification.inputs.shapes import sizings
from bnfold.verification.inputs.sized import sized
from bnfold.verification.request import Clock, Request
from bnfold.verification.runtimes.runtime import RuntimeProcess

_LOOSE_SECONDS = 5.0
"""Of counted work, for sizes that contradict the declared ones; most of them fit no better."""

_SURPRISE = 20
"""Times the estimate that an evaluation may take by default: it counts nothing where nothing tells a size."""

_LONG = 5.0
"""Seconds from which on people want to know beforehand."""

_FLOAT64 = 8


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples, how to draw one more (None for recorded ones), and what nobody asked for: one each of other sizes.

    Those are for open dims of models that take no time: at one size, an operator may pass for another. One more has
    other values in the place of stored defaults, where a caller may override them.
    """

    chosen: list[Sample]
    another: Callable[..., Sample] | None
    elsewhere: list[Sample] = field(default_factory=list)


def choose_samples(request: Request, pair: ModelPair) -> Samples:
    """Return recorded or random samples, the original evaluated on each of them.

    Raises Impossible where the original cannot be fed, or cannot be evaluated on anything that was tried.
    """
    if request.checks.data is not None:
        runs = load_data(request.checks.data, request.before)
        shapes = {name: array.shape for name, array in runs[0].feeds.items()}
        _check_cost(request, pair, Choice(shapes, sized(request.before, shapes)), len(runs))
        chosen = [evaluated(request, pair, run, index, len(runs)) for index, run in enumerate(runs)]
        return Samples(chosen, None, other_defaults(request, pair, chosen[0]))
    found = _fitting(request, pair, request.before)
    if isinstance(found, Samples):
        return found
    pair.misfit = _hint(request, found)
    until = request.clock.work.seconds + _LOOSE_SECONDS
    for model in _looser(request):
        with suppress(Impossible):
            samples = _fitting(request, pair, model, until)
            if isinstance(samples, Samples):
                return samples
    raise Impossible(pair.misfit) from found


def _fitting(
    request: Request, pair: ModelPair, model: ir.Model, until: float = math.inf
) -> Samples | Unsupported | None:
    """Return samples of the first sizes that fit a model's inputs, or why the last ones tried did not.

    After ``until``, in counted seconds, none are tried.
    """
    try:
        known, tried = _sizes(request, model)
    except CannotFeed as error:
        raise Impossible(str(error)) from error
    misfit: Unsupported | None = None
    for choice in tried:
        if request.clock.work.seconds > until:
            break
        if request.clock.is_over:
            raise Impossible(request.clock.over())
        try:
            _check_cost(request, pair, choice, request.checks.samples)
            return _drawn_samples(request, pair, known, choice)
        except (reference.Misfit, reference.TooShort) as error:
            misfit = error
        except reference.Random as error:
            raise Impossible(f"the original draws random numbers: {error}") from error
        except (Unsupported, BadInput) as error:
            raise Impossible(f"the original model cannot be run: {error}") from error
    return misfit


def _sizes(request: Request, model: ir.Model) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    if model is request.before:
        return sizes_of_original(request)
    known = known_shapes(model, request.checks.inputs)
    return known, choices(model, known)


def _looser(request: Request) -> Iterator[ir.Model]:
    """Yield the original with inputs as its operators take them, where it declares them all and trying takes no time.

    Whoever wants whole models compared wants them as they are declared.
    """
    has_time = EVALUATIONS * estimate(request.before).seconds < NO_TIME
    if request.checks.depth != "full" and has_time and not _open_inputs(request) and not _runs_elsewhere(request):
        yield from loosened(request.before)


def _runs_elsewhere(request: Request) -> bool:
    """Whether the runtime takes the original as it is declared: then it is the referee who does not know it."""
    if request.checks.runtime == "none":
        return False
    feeds = random_feeds(
        request.before, input_shapes(request.before, sizings()[0], request.checks.inputs), request.checks.seed, 0
    )
    return RuntimeProcess(request.checks.runtime).run(request.sources[0], [feeds], request.clock.left).ran


def _drawn_samples(request: Request, pair: ModelPair, known: Mapping[str, Known], choice: Choice) -> Samples:
    """Return samples of the chosen sizes, those that were asked for beyond the first of other sizes in turn."""
    first = drawn(request, pair, choice, 0)
    elsewhere = [*other_sizes(request, pair, known, choice)]
    others = [sample for _, sample in elsewhere]
    sizes = [choice, *(other for other, _ in elsewhere)]
    asked = [drawn(request, pair, sizes[number % len(sizes)], number) for number in range(1, request.checks.samples)]
    draw = partial(drawn_in_range, request, pair, choice, first)
    return Samples(
        [first, *asked, *map(draw, more_numbers(request, choice, first))],
        draw,
        [*others, *other_defaults(request, pair, first, others)],
    )


def _hint(request: Request, misfit: Unsupported | None) -> str:
    open_inputs = _open_inputs(request)
    if not open_inputs:
        return f"the original model cannot be run at the shapes that it declares: {misfit}"
    hints = " ".join(f"--input {name}=N,…" for name in open_inputs)
    return f"no input shape tried fits the original ({misfit}); give one with {hints}"


def _open_inputs(request: Request) -> list[str]:
    """Return the inputs whose shapes nobody gave and the original leaves open."""
    return [
        value.name
        for value in request.before.required_inputs()
        if value.name not in request.checks.inputs
        and (value.shape is None or not all(isinstance(dim, int) and dim > 0 for dim in value.shape))
    ]


def _too_long(clock: Clock, seconds: float) -> str:
    limit = f"the limit is {clock.budget:.0f} s: raise it with --verify-seconds {clock.enough(seconds)}"
    return f"running both models needs about {seconds:.0f} s and {limit}"


def _check_cost(request: Request, pair: ModelPair, choice: Choice, samples: int) -> None:
    if (size := choice.elements * _FLOAT64) > memory_there_is():
        raise Impossible(f"the inputs alone would take about {size >> 30} GiB of memory")
    cost = estimate_pair(choice.model, request.after, choice.shapes)
    seconds = cost.seconds * EVALUATIONS * samples
    pair.patience = max(_LONG, _SURPRISE * cost.seconds) if request.checks.depth == "auto" else math.inf
    is_limited = request.checks.depth != "full"
    if is_limited and seconds > request.clock.budget:
        raise Impossible(_too_long(request.clock, seconds))
    if is_limited and cost.memory > memory_there_is():
        raise Impossible(f"running the models would take about {cost.memory >> 30} GiB of memory")
    if seconds > _LONG:
        request.progress(ESTIMATE, round(seconds), 0)
