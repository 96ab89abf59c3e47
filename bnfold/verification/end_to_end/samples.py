"""Choose what whole models are compared on: recorded inputs, or random inputs of the first sizes that fit.

Further samples serve visibility (more numbers, if there are few), integers and sizes (other sizes), and pieces (flags
that choose a branch, bounds that cross, other values for defaults). They are drawn if they take no time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from typing import TypeVar

import numpy as np
import onnx

from bnfold import ir, log, reference
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.elements import Array
from bnfold.ir.value import Known
from bnfold.reference import Misfit
from bnfold.verification.changes.interface import newly_declared
from bnfold.verification.claims import NumberKind, Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.sizes import original_in_one_form, sizes_of_original
from bnfold.verification.coverage import sizes_at_jumps
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.inputs.adjusting import choosing, with_flags_turned
from bnfold.verification.inputs.bounds import size_changes
from bnfold.verification.inputs.candidates import candidates, sizes_of
from bnfold.verification.inputs.choices import (
    Choice,
    apart,
    further_choices,
    inferred_sizes,
    turns_for,
    united,
)
from bnfold.verification.inputs.cost import estimate, estimate_pair, fits_memory, input_bytes, least_seconds
from bnfold.verification.inputs.data import Recorded, load_data
from bnfold.verification.inputs.drawing import (
    CROSSED,
    FLAT,
    NO_TIME,
    SAMPLE_KINDS,
    CannotFeed,
    DrawnFeeds,
    is_of_both_signs,
    random_feeds,
    random_value,
    samples_for,
)
from bnfold.verification.inputs.relaxed import loosened
from bnfold.verification.inputs.roles import role
from bnfold.verification.inputs.shapes import is_static
from bnfold.verification.inputs.sized import sized
from bnfold.verification.obstacles import NotCompared, not_run
from bnfold.verification.request import Request
from bnfold.verification.runtimes.runtime import RuntimeProcess
from bnfold.verification.tolerance.compare import size_of
from bnfold.verification.tolerance.floats import is_float, is_float_array

T = TypeVar("T")

FEW = 1024
"""Elements of its smallest input and output that a model should be tried on, where it takes no time."""

_LITTLE_TIME = 0.25
"""Of what the first sample takes: for other sizes; as much again where operators changed that depend on them."""

EVALUATIONS = 3
"""Of each sample: the original, the rewritten model, and that once more with its new weights disturbed."""

_LOOSE_SECONDS = 5.0
"""Counted seconds for sizes that contradict the declared ones; most of them do not fit either."""

_SURPRISE = 20
"""How many times its estimate an evaluation may take by default: values of unknown size are not estimated."""

_LONG = 5.0
"""An evaluation may take so many seconds, whatever its estimate is."""


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
        known, tried = sizes_of_original(request) if model is request.before else sizes_of(model, request.checks)
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
        [first, *asked, *map(draw, more_numbers(request, pair, choice, first))],
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
    """Yield samples with single flags turned, in every combination that the original takes: each may choose a piece."""
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


def more_numbers(request: Request, pair: ModelPair, choice: Choice, first: Sample) -> Iterator[int]:
    """Return more samples than requested if an input, an output or a jump has very few numbers.

    Flat samples are left out: their variance is roundoff, which differs between the two models.
    """
    made = (size_of(first.expected[value.name]) for value in request.before.graph.outputs)
    at_jumps = sizes_at_jumps(request.before.nodes())
    jumps = (size for name, size in at_jumps.items() if name not in pair.pinned)
    sizes = [*map(math.prod, choice.shapes.values()), *made, *jumps]
    wanted = samples_for(sizes, FEW, EVALUATIONS * estimate(choice.model).seconds)
    others = (
        number for number in count(request.checks.samples) if SAMPLE_KINDS[number % len(SAMPLE_KINDS)] not in FLAT
    )
    return islice(others, max(0, wanted - request.checks.samples))


def other_sizes(
    request: Request, pair: ModelPair, known: Mapping[str, Known], main: Choice
) -> Iterator[tuple[Choice, Sample]]:
    """Yield a sample of each kind of other sizes that the original takes, as long as that takes little time.

    This serves integers and sizes.
    """
    told = inferred_sizes(
        {value.name: request.checks.inputs.get(value.name, value.shape) for value in request.before.required_inputs()},
        known,
    )
    if not told and all(isinstance(dim, int) for shape in known.values() for dim in shape):
        return
    changed = size_changes(request.before, request.after)
    changed.update((f"sizes of output {name!r}", ()) for name in newly_declared(request.before, request.after))
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
