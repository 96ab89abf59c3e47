"""Whole models in a runtime: the guard against parts that were cut out wrongly.

Both compute in storage precision, so they differ. How far rounding takes them is measured: the original runs once more
with what the rewrite replaced moved by a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from bnfold import ir, log
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.time_limit import LimitStruck, look_at_clock
from bnfold.verification import sentences
from bnfold.verification.as_read import as_read
from bnfold.verification.changes.boundaries import uncovered
from bnfold.verification.changes.interface import broken_promise, narrowed, unproven_promise, unread
from bnfold.verification.claims import ClaimOutcome, Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.sizes import original_at, sizes_of_original
from bnfold.verification.end_to_end.runtime_rejects import TAKEN, RuntimeOpinion, opinion_of
from bnfold.verification.inputs.bounds import size_changes
from bnfold.verification.inputs.choices import Choice
from bnfold.verification.inputs.cost import MOST_BYTES, Cost, estimate_pair, fits_memory, session_seconds
from bnfold.verification.inputs.drawing import DrawnFeeds, random_feeds
from bnfold.verification.inputs.shapes import ChosenShapes, is_resized
from bnfold.verification.inputs.sized import fitted, sized
from bnfold.verification.obstacles import silent
from bnfold.verification.request import RUNTIME_SHARE, Request
from bnfold.verification.runtimes.helpers import RuntimeSample
from bnfold.verification.runtimes.runtime import RuntimeResult, RuntimeSource, beside, run_until
from bnfold.verification.tolerance.compare import compare_values, pattern_fault
from bnfold.verification.tolerance.discontinuities import discontinuous_inputs, discontinuous_slots
from bnfold.verification.tolerance.floats import HALVES
from bnfold.verification.tolerance.rounding import PerturbedWeights
from bnfold.verification.tolerance.storage import LEAST, SLACK
from bnfold.verification.verdict import RuntimeRow

LITTLE_TIME = 0.1
"""Counted seconds: models that take less are compared whole in float64, which shows more."""

_MUCH_TIME = 1.5
"""Counted seconds in a runtime: what would take more is left out, as comparing the parts decides by itself."""

_WORTH_LESS = 0.5
"""Counted seconds in a runtime from which one item of a batch is run, and not two."""

_RUNS = 3

_USUAL = 224
_SIDES = (160, 192)
"""Of images that are larger than usual, where the operators take them so."""

_FASTER = 10
"""A runtime in float32 is so much faster than the reference evaluator."""

_SMALL = 1 << 16
"""Elements up to which a weight is moved; those of one channel move all that it makes."""

BLIND = 1e-4
"""Of the scale. Where rounding explains more, a weight that is wrong by a thousandth would not show."""

_SPREAD = 8.0
"""Accepted units of what one draw of rounding moves the results by."""


@dataclass(frozen=True, slots=True)
class Guard(ClaimOutcome):
    """What running the whole models in a runtime showed.

    A doubt is why they were not run, or show nothing. That casts none on compared parts, unless it ``is_suspicion``, a
    reason to compare whole models in float64. ``opinion`` is the runtime's on the rewritten model, at declared sizes.
    """

    witness: RuntimeRow | None = None
    is_suspicion: bool = False
    opinion: RuntimeOpinion = TAKEN


@contextmanager
def start_guard(request: Request, draws: PerturbedWeights) -> Iterator[Callable[[], Guard] | None]:
    """Start the runtime; the yielded function waits for the result.

    None is yielded if whole models have to be compared in float64.
    """
    sides = request.before, request.after
    if not _is_asked(request) or narrowed(*sides) or unproven_promise(*sides):  # which only a run shows
        yield None
        return
    most = min(request.clock.budget * RUNTIME_SHARE, _MUCH_TIME)
    session = _RUNS * session_seconds(request.before)
    if session > most and request.checks.runtime != "none":
        yield lambda: Guard(doubt=_too_long(session))
        return
    sizes = _sizes(request)
    for size in sizes[-1:]:
        price = f"{_RUNS * size.cost.seconds:.3g} counted seconds in float64, {size.seconds:.3g} s in a runtime"
        log.debug(__name__, "the whole models would take %s; %s s is cheap enough for float64", price, LITTLE_TIME)
    if not sizes or _RUNS * sizes[-1].cost.seconds < LITTLE_TIME or _is_narrower(request, sizes[-1].choice.model):
        yield None
    elif request.checks.runtime == "none" or not request.once(_is_changed):  # no part can be wrong
        yield Guard
    elif values := [*chain(*discontinuous_inputs(request.before, request.after))]:
        yield lambda: Guard(doubt=Why(Code.COARSE, _why_rounding_decides(request.after, values[0])))
    elif request.before.parameter_bytes() > MOST_BYTES:
        reason = "a runtime would load more than 1 GB of weights; --verify full runs whole models"
        yield lambda: Guard(doubt=Why(Code.MEMORY, reason))
    else:
        affordable = [size.choice for size in sizes if size.seconds < most]
        unless_run = Guard(doubt=None if sizes[-1].seconds < most else _too_long(sizes[-1].seconds))
        moved = draws.removed.moved(_SMALL) if affordable else {}
        has_new = not draws.removed.are_renamed
        plans = [partial(_planned, request, choice, moved) for choice in affordable]
        with ExitStack() as first:
            begun = None
            if plans:
                plan, sources = plans[0]()
                begun = first.enter_context(beside(sources, plan.run))
            yield partial(_guard, request, begun, plans[1:], has_new, unless_run)


class _Plan(NamedTuple):
    """One run of both models in a runtime, and of the original with its weights moved: all that a thread is given."""

    runtime: str
    feeds: DrawnFeeds
    moved: DrawnFeeds
    end: float
    shapes: ChosenShapes

    def run(self, old: RuntimeSource, new: RuntimeSource) -> _Answers:
        """Run both models, and if both run, the original with its weights moved."""
        before, after = self._run(old), self._run(new)
        spread = self._run(old, self.moved) if before.ran and after.ran and self.moved else None
        return _Answers(self.shapes, before, after, spread)

    def _run(self, side: RuntimeSource, moved: DrawnFeeds | None = None) -> RuntimeResult:
        return run_until(self.end, self.runtime, side, [self.feeds], moved)


_Planned = tuple[_Plan, tuple[RuntimeSource, RuntimeSource]]
"""A plan, and the models to run."""


class _Answers(NamedTuple):
    """What the runtime made of both models, and of the original with its weights moved, at some shapes."""

    shapes: ChosenShapes
    before: RuntimeResult
    after: RuntimeResult
    spread: RuntimeResult | None


def _planned(request: Request, choice: Choice, moved: DrawnFeeds) -> _Planned:
    feeds = random_feeds(choice.model, choice.shapes, request.checks.seed, 0)
    sides = request.sources
    if _is_resized(request.before, choice.shapes):
        resized = original_at(request, choice), sized(request.after, choice.shapes)
        sides = as_read(resized[0], None, request.policy), as_read(resized[1], None, request.policy)
    return _Plan(request.checks.runtime, feeds, moved, request.clock.end, choice.shapes), sides


def _why_rounding_decides(model: ir.Model, name: str) -> str:
    """Return why results in a runtime show nothing, with the discontinuous node that reads the value of this name."""
    reads = ((node, map(node.input, discontinuous_slots(node))) for node in model.nodes())
    readers = [node for node, values in reads if any(value is not None and value.name == name for value in values)]
    return (
        f"a runtime's rounding may decide what {readers[0].op_type} {readers[0].label} makes of {name!r}, so its "
        "results show nothing"
    )


def _not_measured(spread: RuntimeResult | None) -> str:
    """Return why it is unknown how far rounding the new weights moves the outputs."""
    what = "how far rounding the new weights moves the outputs in a runtime could not be measured"
    return (
        f"{what}: {spread.error}"
        if spread is not None
        else f"{what}, for the original has no small weight that was replaced"
    )


def _too_long(seconds: float) -> Why:
    return Why(Code.TIME, f"running the models would take about {seconds:.0f} s", {"seconds": seconds})


def _is_changed(request: Request) -> bool:
    """Whether the models differ in anything, shapes that are proven included; the first change is enough."""
    if request.cuts or size_changes(request.before, request.after):
        return True
    return any(True for _ in uncovered(request.before, request.after, ()))


def _is_asked(request: Request) -> bool:
    return request.checks.data is None and request.checks.runtime in ("onnxruntime", "none")


class _Size(NamedTuple):
    """Sizes at which a runtime may run the models, and what one run of the evaluator costs there."""

    choice: Choice
    cost: Cost

    @property
    def seconds(self) -> float:
        """Seconds that the check takes; infinite if memory does not suffice."""
        if not fits_memory(self.choice.elements, self.cost):
            return math.inf
        return _RUNS * (self.cost.seconds / _FASTER + session_seconds(self.choice.model))


def _sizes(request: Request) -> list[_Size]:
    """Return the sizes to run at, one after the other until they fit.

    None where the whole is to be looked at otherwise.
    """
    try:
        known, choices = sizes_of_original(request)
        usual = next(choices, None)
    except (BadInput, Unsupported):
        return []
    if usual is None:
        return []
    first = _size(request, usual)
    given = request.checks.inputs
    shapes = {name: shape if name in given else _smaller(shape) for name, shape in usual.shapes.items()}
    if first.seconds > _WORTH_LESS:
        batches = {shape[0] for shape in known.values() if shape and isinstance(shape[0], str)}
        shapes = {
            name: tuple(1 if dim in batches else size for dim, size in zip(known[name], shape, strict=True))
            for name, shape in shapes.items()
        }
    if shapes == usual.shapes:
        return [first]
    has_declared = not _is_resized(request.before, shapes)
    if has_declared and first.seconds < _MUCH_TIME:
        return [_Size(Choice(shapes, usual.model), first.cost), first]
    smaller = fitted(request.before, shapes)
    if smaller is None or (not has_declared and fitted(request.after, shapes) is None):
        return [first]
    return [_size(request, Choice(shapes, smaller)), first]


def _smaller(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return images of more than the usual size with fewer elements."""
    return (*shape[:2], *_SIDES) if len(shape) == 4 and min(shape[2:]) > _USUAL else shape


def _size(request: Request, choice: Choice) -> _Size:
    return _Size(choice, estimate_pair(original_at(request, choice), request.after, choice.shapes))


def _is_narrower(request: Request, model: ir.Model) -> bool:
    """Whether only whole models show a fault: numbers may overflow between nodes, or an input may have no effect."""
    values = (*model.graph.values.values(), *request.after.graph.values.values())
    has_halves = any(value.dtype in HALVES for value in values)
    return (has_halves and request.once(_is_changed)) or bool(unread(request.before, request.after, ()))


def _guard(
    request: Request,
    begun: Callable[[], _Answers] | None,
    others: Sequence[Callable[[], _Planned]],
    has_new: bool,
    unless_run: Guard,
) -> Guard:
    """Return the result at the first sizes at which the runtime runs the original.

    Smaller sizes than declared only count where the results agree: a rewrite may rely on the declared ones. If nothing
    counts, return ``unless_run`` if it has a reason, else the last result.
    """
    found = unless_run
    try:
        later = (plan.run(*sources) for plan, sources in (make() for make in others))
        for answers in chain([begun()] if begun is not None else [], later):
            look_at_clock()
            found = _weighed(request, answers, has_new)
            has_run = found.witness is None or found.witness.ran_before
            is_no_finding = not (found.differs or found.is_suspicion)
            if has_run and (is_no_finding or not _is_resized(request.before, answers.shapes)):
                return found
    except LimitStruck:
        return Guard(doubt=request.clock.over())
    return unless_run if unless_run.doubt is not None else found


def _weighed(request: Request, answers: _Answers, has_new: bool) -> Guard:
    _, before, after, spread = answers
    row = RuntimeRow(before.runtime, None, before.ran, after.ran, tuple(filter(None, (before.error, after.error))))
    if not before.ran:
        return Guard(row, doubt=silent(f"{before.runtime} does not run the original: {before.error}"))
    if not after.ran:
        at_declared = not _is_resized(request.before, answers.shapes)
        return _not_run(row, opinion_of(before, after), at_declared=at_declared)
    if has_new and (spread is None or not spread.ran):
        return Guard(row, doubt=silent(_not_measured(spread)))
    old, new = before.results[0], after.results[0]
    outputs = [value.name for value in request.before.graph.outputs]
    if {*old} != {*outputs} or {*new} != {*outputs}:
        return Guard(row, doubt=silent("an output is no tensor"))
    if fault := broken_promise(request.before, request.after, {name: new[name].shape for name in outputs}):
        return Guard(row, is_suspicion=True, doubt=Why(Code.INTERFACE, fault))
    return _compared(row, old, new, spread.results[0] if spread is not None else None)


def _not_run(row: RuntimeRow, opinion: RuntimeOpinion, *, at_declared: bool) -> Guard:
    """Return the result where only the original ran; at other sizes than declared, that shows nothing by itself."""
    if opinion.kind == "not looked":
        return Guard(row, doubt=silent(f"{row.witness} did not look at the rewritten model: {opinion.text}"))
    why = Why(opinion.code, opinion.text)
    return Guard(row, is_suspicion=True, doubt=why, opinion=opinion if at_declared else TAKEN)


def _compared(row: RuntimeRow, old: RuntimeSample, new: RuntimeSample, moved: RuntimeSample | None) -> Guard:
    """Return the worst output. Every output has to agree; one that does not react to the weights proves nothing."""
    relative = allowed = 0.0
    least = math.inf
    reacts = moved is None
    for name in old:
        if old[name].dtype != new[name].dtype or old[name].shape != new[name].shape:
            return Guard(row, is_suspicion=True, doubt=Why(Code.DIFFERS, f"output {name!r} has another type or shape"))
        if old[name].dtype.kind != "f":
            return Guard(row, doubt=silent(f"output {name!r} is no float"))
        if pattern := pattern_fault(old[name], new[name]):
            return Guard(row, fault=Why(Code.DIFFERS, f"output {name!r}: {pattern}"))
        found, spread = (
            0.0 if other is None else compare_values(old[name], other[name], (), None, by_channel=True).relative
            for other in (new, moved)
        )
        unit = float(np.finfo(old[name].dtype).eps) / 2
        most = _SPREAD * spread + max(SLACK * unit, LEAST)
        if found > most:
            return Guard(row, fault=Why(Code.DIFFERS, sentences.differs(f"output {name!r}", found, most)))
        reacts = reacts or spread > 0
        relative, allowed, least = max(relative, found), max(allowed, most), min(least, unit)
    if allowed > BLIND or not reacts:
        return Guard(row, doubt=silent("the outputs in a runtime would not show a weight that is wrong"))
    return Guard(replace(row, notes=(sentences.runtime_agrees(relative, allowed, least),)))


def _is_resized(model: ir.Model, shapes: ChosenShapes) -> bool:
    """Whether an input has another size than it declares."""
    return any(is_resized(model.graph.values[name].shape or (), shape) for name, shape in shapes.items())
