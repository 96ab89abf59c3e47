"""Choose what whole models are compared on: recorded inputs, or random inputs of the first sizes that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from bnfold import ir, log, reference
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.value import Known
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.sizes import sizes_of_original
from bnfold.verification.end_to_end.drawing import Sample, drawn, drawn_in_range, evaluated
from bnfold.verification.end_to_end.further import EVALUATIONS, more_numbers, other_defaults, other_sizes
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.inputs.candidates import candidates
from bnfold.verification.inputs.choices import Choice, choices
from bnfold.verification.inputs.cost import estimate, estimate_pair, fits_memory, input_bytes
from bnfold.verification.inputs.data import load_data
from bnfold.verification.inputs.drawing import NO_TIME, CannotFeed, known_sizes
from bnfold.verification.inputs.relaxed import loosened
from bnfold.verification.inputs.sized import sized
from bnfold.verification.obstacles import NotCompared, not_run
from bnfold.verification.request import Request
from bnfold.verification.runtimes.runtime import RuntimeProcess

_LOOSE_SECONDS = 5.0
"""Counted seconds for sizes that contradict the declared ones; most of them do not fit either."""

_SURPRISE = 20
"""How many times its estimate an evaluation may take by default: values of unknown size are not estimated."""

_LONG = 5.0
"""An evaluation may take so many seconds, whatever its estimate is."""


@dataclass(frozen=True, slots=True)
class Samples:
    """The chosen samples, and further ones.

    ``another`` draws one more sample; it is None for recorded ones. ``elsewhere`` has a sample for each of several
    other sizes, if dims are dynamic and running the models takes no time. At one size alone, a wrong operator may look
    right. One more has other values for inputs with a stored default, if a caller may override it.
    """

    chosen: list[Sample]
    another: Callable[..., Sample] | None
    elsewhere: list[Sample] = field(default_factory=list)


def choose_samples(request: Request, pair: ModelPair) -> Samples:
    """Return recorded or random samples, with the original evaluated on each of them.

    Raises NotCompared if the original cannot be fed, or cannot be evaluated on anything that was tried.
    """
    if request.checks.data is not None:
        runs = load_data(request.checks.data, request.before)
        shapes = {name: array.shape for name, array in runs[0].feeds.items()}
        _check_cost(request, pair, Choice(shapes, sized(request.before, shapes)), len(runs))
        try:
            chosen = [evaluated(request, pair, run, index) for index, run in enumerate(runs)]
        except (reference.Misfit, reference.TooShort):  # the inputs do not fit
            raise
        except Unsupported as error:
            raise NotCompared(not_run(error, "the original model cannot be run")) from error
        return Samples(chosen, None, other_defaults(request, pair, chosen[0]))
    found = _fitting(request, pair, request.before)
    if isinstance(found, Samples):
        return found
    until = request.clock.work.seconds + _LOOSE_SECONDS
    pair.takes_no_sizes = True
    adjusted = _fitting(request, pair, request.before, until)
    if isinstance(adjusted, Samples):
        return adjusted
    pair.misfit = _hint(request, found)
    for model in _looser(request):
        with suppress(NotCompared):
            samples = _fitting(request, pair, model, until)
            if isinstance(samples, Samples):
                return samples
    raise NotCompared(Why(Code.NO_FIT, pair.misfit)) from found


def _fitting(
    request: Request, pair: ModelPair, model: ir.Model, until: float = math.inf
) -> Samples | Unsupported | None:
    """Return samples of the first sizes that fit a model's inputs, or else why the last sizes did not fit.

    After ``until``, in counted seconds, no more are tried.
    """
    try:
        known, tried = _sizes(request, model)
    except CannotFeed as error:
        raise NotCompared(not_run(error)) from error
    misfit: Unsupported | None = None
    for choice in tried:
        if request.clock.work.seconds > until:
            break
        if request.clock.is_over:
            raise NotCompared(request.clock.over())
        try:
            _check_cost(request, pair, choice, request.checks.samples)
            return _drawn_samples(request, pair, known, choice)
        except (reference.Misfit, reference.TooShort) as error:
            misfit = error
        except reference.Random as error:
            raise NotCompared(not_run(error, "the original draws random numbers")) from error
        except (Unsupported, BadInput) as error:
            raise NotCompared(not_run(error, "the original model cannot be run")) from error
    return misfit


def _sizes(request: Request, model: ir.Model) -> tuple[Mapping[str, Known], Iterator[Choice]]:
    if model is request.before:
        return sizes_of_original(request)
    known, followed = known_sizes(model, request.checks.inputs)
    return known, choices(model, known, followed)


def _looser(request: Request) -> Iterator[ir.Model]:
    """Yield the original with input shapes relaxed to what its operators accept.

    This is for models that declare all shapes and take no time to try. Depth ``full`` compares models as they are
    declared.
    """
    has_time = EVALUATIONS * estimate(request.before).seconds < NO_TIME
    if request.checks.depth != "full" and has_time and not _open_inputs(request) and not _runs_elsewhere(request):
        yield from loosened(request.before)


def _runs_elsewhere(request: Request) -> bool:
    """Whether the runtime accepts the original as it is declared.

    If it does, the reference evaluator is what cannot run the model.
    """
    if request.checks.runtime == "none":
        return False
    feeds = next(candidates(request.before, request.checks, sizes_of_original(request)[1], lambda _: [0]), [])
    return RuntimeProcess(request.checks.runtime).run(request.sources[0], feeds, request.clock.left).ran


def _drawn_samples(request: Request, pair: ModelPair, known: Mapping[str, Known], choice: Choice) -> Samples:
    """Return the requested samples, and more for other numbers, sizes and defaults.

    The first sample has the chosen sizes; the other requested ones take all sizes in turn.
    """
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
    if not _open_inputs(request):
        return f"the original model cannot be run at the shapes that it declares: {misfit}"
    return f"no input shape tried fits the original ({misfit})"


def _open_inputs(request: Request) -> list[str]:
    """Return the inputs with a dynamic shape for which the caller gave none."""
    return [
        value.name
        for value in request.before.required_inputs()
        if value.name not in request.checks.inputs
        and (value.shape is None or not all(isinstance(dim, int) and dim > 0 for dim in value.shape))
    ]


def _check_cost(request: Request, pair: ModelPair, choice: Choice, samples: int) -> None:
    if not fits_memory(choice.elements):
        size = input_bytes(choice.elements) >> 30
        raise NotCompared(Why(Code.MEMORY, f"the inputs alone would take about {size} GiB of memory"))
    cost = estimate_pair(choice.model, request.after, choice.shapes)
    seconds = cost.seconds * EVALUATIONS * samples
    pair.patience = max(_LONG, _SURPRISE * cost.seconds) if request.checks.depth == "auto" else math.inf
    price = f"{seconds:.3g} of {request.clock.budget:.0f} counted seconds, and {cost.memory >> 20} MiB"
    log.debug(__name__, "the whole models at %s would take %s", dict(choice.shapes), price)
    is_limited = request.checks.depth != "full"
    if is_limited and seconds > request.clock.budget:
        raise NotCompared(request.clock.too_long(seconds))
    if is_limited and not fits_memory(choice.elements, cost):
        reason = f"running the models would take about {cost.memory >> 30} GiB of memory"
        raise NotCompared(Why(Code.MEMORY, reason))
    request.count_work(seconds)
