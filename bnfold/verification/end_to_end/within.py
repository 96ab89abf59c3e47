"""Compare the outputs of two whole models within a tolerance, as one runtime computes both on the same inputs.

No value inside is replaced, so each error is that of an output from end to end. All that is said follows from one
comparison: an output is too far off where an element differs by more than the tolerance times the output's largest
value. For the name of a type, the tolerance is measured: how far rounding the original's weights to this type takes its
results, or eight roundings of the type, whichever is more.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import onnx

from bnfold import ir
from bnfold.ir.elements import FLOATS, Array, numpy_type
from bnfold.ir.lifting import lift_constants
from bnfold.ir.time_limit import look_at_clock
from bnfold.reference.operators import DRAWING
from bnfold.verification import sentences
from bnfold.verification.as_read import as_read
from bnfold.verification.changes.renamed import verdict_on_names
from bnfold.verification.claims import ClaimOutcome, NumberKind, Why, about_whole
from bnfold.verification.codes import Code
from bnfold.verification.comparing.doubts import UNSEEN
from bnfold.verification.comparing.outputs import Compared, are_in_doubt, experiments, first_fault, output_rows
from bnfold.verification.comparing.sides import explained
from bnfold.verification.comparing.sizes import sizes_of_original
from bnfold.verification.end_to_end.runtime_check import OWN, run_own
from bnfold.verification.end_to_end.runtime_rejects import opinion_of
from bnfold.verification.end_to_end.samples import FEW
from bnfold.verification.inputs.candidates import candidates
from bnfold.verification.inputs.choices import Choice
from bnfold.verification.inputs.cost import estimate
from bnfold.verification.inputs.drawing import MOST_SAMPLES, CannotFeed, DrawnFeeds, samples_for
from bnfold.verification.obstacles import Broken, NotCompared, Obstacle, not_run, silent
from bnfold.verification.request import Request
from bnfold.verification.runtimes.helpers import RuntimeSample
from bnfold.verification.runtimes.runtime import RuntimeProcess, RuntimeResult
from bnfold.verification.tolerance.compare import ROUNDS, difference, distance, magnitude, tolerance
from bnfold.verification.tolerance.floats import F64, float_type
from bnfold.verification.tolerance.rounding import disturb, is_rounded, is_short
from bnfold.verification.tolerance.storage import WORST_AGREEMENT
from bnfold.verification.verdict import BEYOND, OutputRow, RuntimeRow, Verdict, verdict_on

TYPES = {"float16": onnx.TensorProto.FLOAT16, "bfloat16": onnx.TensorProto.BFLOAT16}

ROUNDINGS = 8
"""Roundings of a type, of the scale, that it explains at least."""

RunModel = Callable[[ir.Model, Sequence[DrawnFeeds]], RuntimeResult]
"""Runs a model on samples."""


class Results(NamedTuple):
    """The results of both models on the same samples, what ``run`` computed them, and the samples."""

    before: RuntimeResult
    after: RuntimeResult
    run: RunModel
    feeds: Sequence[DrawnFeeds]
    notes: tuple[str, ...] = ()


def judge_within(request: Request) -> Verdict:
    """Return the verdict on the outputs, within the tolerance that was asked for."""
    asked = request.checks.tolerance
    assert asked is not None, "there is a tolerance"
    verdict = partial(verdict_on, decided_by="tolerance", seed=request.checks.seed, tolerance=asked)
    try:
        with request.clock.phase("witness"):
            results = _results(request)
            found, doubt = _compared(request, results, asked)
    except Obstacle as obstacle:
        row = request.ledger.enter(about_whole(request.outputs, obstacle.outcome, prover="runtime"))
        return verdict(row, seconds=dict(request.clock.seconds))
    rows = tuple(map(_row, output_rows(found)))
    where, count, fault = results.before.runtime, len(results.feeds), first_fault(found)
    how = f"{fault.sentence}; {where}, {sentences.number_of(count)}" if fault is not None else ""
    outcome = ClaimOutcome(fault=Why(Code.DIFFERS, how) if how else None, doubt=doubt)
    agreed = Why(Code.TESTED, sentences.agree_within(rows, count, where, asked))
    kind: NumberKind = "normal" if request.checks.data is None else "recorded"
    runs = experiments(found, [(feeds, kind) for feeds in results.feeds])
    return verdict(
        request.ledger.enter(about_whole(request.outputs, outcome, agreed, runs, "runtime"), results.feeds),
        outputs=rows,
        witnesses=(RuntimeRow(where, None, True, True, independent=where != OWN),),
        samples=count,
        notes=results.notes,
        seconds=dict(request.clock.seconds),
    )


def _row(row: OutputRow) -> OutputRow:
    fault = BEYOND if row.code is Code.DIFFERS else row.fault
    return replace(row, typical=row.relative, typical_allowed=row.allowed, fault=fault)


def _results(request: Request) -> Results:
    """Run both models: in the runtime if it runs the original, else by bnfold's own kernels.

    Raises NotCompared if there is nothing to compare, Broken if only the original runs on what it takes.
    """
    for model in (request.before, request.after):
        if random := next((node for node in model.nodes() if node.is_op(*DRAWING)), None):
            raise NotCompared(Why(Code.RANDOM, f"node {random.label!r} ({random.op_type}) draws random numbers"))
    note = ""
    for run in _ways_to_run(request):
        error = "no sizes are known at which the original runs"
        for feeds in _feeds(request):
            request.progress("original", 1, 2)
            before = run(request.before, feeds)
            if before.ran:
                request.progress("rewritten", 2, 2)
                after = _run_after(request, run, feeds, before)
                return Results(before, after, run, feeds, (note,) if note else ())
            if request.clock.is_over:
                raise NotCompared(request.clock.over())
            error = f"{before.runtime} does not run the original: {before.error}"
            if not run(request.before, []).ran:  # nor at other sizes
                break
        note = error
    raise NotCompared(Why(Code.NO_FIT, note))


def _ways_to_run(request: Request) -> Iterator[RunModel]:
    """Yield what runs models: the runtime, if there is one, and bnfold's own kernels in the types that they store."""
    if request.checks.runtime != "none":
        yield partial(_run_in_runtime, request)
    yield partial(run_own, request)


def _run_in_runtime(request: Request, model: ir.Model, feeds: Sequence[DrawnFeeds]) -> RuntimeResult:
    sources = dict(zip((request.before, request.after), request.sources, strict=True))
    source = sources.get(model) or as_read(model, None, request.policy)
    return RuntimeProcess(request.checks.runtime).run(source, feeds, request.clock.left)


def _feeds(request: Request) -> Iterator[list[DrawnFeeds]]:
    """Yield the recorded inputs, or samples of ordinary numbers at one choice of dynamic sizes after the other."""
    try:
        sizes = sizes_of_original(request)[1] if request.checks.data is None else ()
    except CannotFeed as error:
        raise NotCompared(not_run(error)) from error
    yield from candidates(
        request.before,
        request.checks,
        sizes,
        lambda choice: range(0, MOST_SAMPLES * _count(request, choice), MOST_SAMPLES),  # ordinary ones,
    )


def _count(request: Request, choice: Choice) -> int:
    """Return how many samples to draw: more than were asked for if an input or output has few numbers."""
    shapes = [*choice.shapes.values(), *(value.shape or () for value in choice.model.graph.outputs)]
    sizes = [math.prod(dim if isinstance(dim, int) else 1 for dim in shape) for shape in shapes]
    return max(request.checks.samples, samples_for(sizes, FEW, estimate(choice.model).seconds))


def _run_after(request: Request, run: RunModel, feeds: Sequence[DrawnFeeds], before: RuntimeResult) -> RuntimeResult:
    """Run the second model on the same inputs, in the float types that it takes.

    Raises Broken if it is refused, and NotCompared if what runs it is too old or does not look at it.
    """
    after = run(request.after, [_cast(request.after, sample) for sample in feeds])
    if after.ran:
        return after
    if request.clock.is_over:
        raise NotCompared(request.clock.over())
    opinion = opinion_of(before, after)
    if opinion.kind == "refused":
        raise Broken(Why(Code.REFUSED, opinion.text))
    if opinion.kind == "not looked":
        reason = f"{before.runtime} runs the original, but did not run the rewritten model: {after.error}"
        raise NotCompared(silent(reason))
    raise NotCompared(Why(opinion.code, f"{opinion.text} (--runtime none compares both in bnfold's own kernels)"))


def _cast(model: ir.Model, feeds: DrawnFeeds) -> DrawnFeeds:
    """Return inputs in the types that a model takes: a float may have another width."""
    types = {name: model.graph.values[name].dtype for name in feeds if name in model.graph.values}
    with np.errstate(all="ignore"):  # what overflows is infinite for the model as well
        return {
            name: array.astype(numpy_type(dtype))
            if (dtype := types.get(name)) in FLOATS and _is_float(array)
            else array
            for name, array in feeds.items()
        }


def _compared(request: Request, results: Results, asked: float | str) -> tuple[list[Compared], Why | None]:
    """Return each output on each sample, and why their agreement would show nothing, if so."""
    outputs = [value.name for value in request.before.graph.outputs]
    for answers in (results.before.results, results.after.results):
        if missing := [name for name in outputs if any(not isinstance(each.get(name), np.ndarray) for each in answers)]:
            raise NotCompared(Why(Code.NOT_COMPUTED, f"output {missing[0]!r} is no tensor"))

    def compare(draws: Sequence[Sequence[RuntimeSample]]) -> list[Compared]:
        pairs = zip(results.before.results, results.after.results, strict=True)
        return [
            _item(request, name, index, old[name], new[name], asked, [draw[index][name] for draw in draws])
            for index, (old, new) in enumerate(pairs)
            for name in outputs
        ]

    dtype = TYPES.get(asked, TYPES["float16"]) if isinstance(asked, str) else TYPES["float16"]
    moved = cache(partial(_moved, request, results, dtype))
    found = compare([])
    if isinstance(asked, str) and are_in_doubt(found) and moved(0):
        found = explained(takewhile(bool, map(moved, range(ROUNDS))), compare, lambda found, _: are_in_doubt(found))
    if first_fault(found) is not None or verdict_on_names(request.before, request.after) is not None:
        return found, None
    return found, _doubt(found, results.before.results, moved(0), asked)


def _moved(request: Request, results: Results, dtype: int, number: int) -> Sequence[RuntimeSample]:
    """Return the original's results, each of its float weights moved to a neighbouring number of the type ``dtype``.

    Return none if it has no such weights.
    """
    look_at_clock()
    copy = request.before.clone()
    lift_constants(copy)
    weights = [value for graph in copy.graphs() for value in graph.values.values() if is_rounded(value)]
    has_moved = False
    for value in weights:
        tensor = value.tensor
        if tensor is None or tensor.dtype not in FLOATS or is_short(tensor):
            continue
        kept = tensor.numpy()
        with np.errstate(all="ignore"):
            made = disturb(kept, dtype, zlib.crc32(value.name.encode(), number)).astype(kept.dtype)
        value.tensor = copy.tensor(onnx.numpy_helper.from_array(np.where(np.isfinite(made), made, kept), value.name))
        has_moved = True
    if not has_moved:
        return ()
    again = results.run(copy, results.feeds)
    if not again.ran:
        reason = f"{again.runtime} does not run the original with its weights moved: {again.error}"
        raise NotCompared(silent(reason))
    return again.results


def _item(
    request: Request, name: str, index: int, expected: Array, actual: Array, asked: float | str, draws: Sequence[Array]
) -> Compared:
    """Compare one output on one sample: floats of any width within the tolerance, everything else exactly."""
    dtype = request.before.graph.values[name].dtype
    kind, limit = float_type(dtype), None
    if _is_float(expected) and _is_float(actual):
        expected, actual = _wide(expected), _wide(actual)
        share = asked if isinstance(asked, float) else _share(expected, [*map(_wide, draws)], TYPES[asked])
        limit = np.full((1,) * expected.ndim, share * magnitude(expected))
    return Compared(name, index, difference(expected, actual, kind, limit), dtype, expected.shape)


def _share(expected: F64, draws: Sequence[F64], dtype: int) -> float:
    """Return how far rounding to a type takes a result, as a share of its scale."""
    kind, scale = float_type(dtype), magnitude(expected)
    least = ROUNDINGS * kind.roundoff
    if not (draws and scale):
        return least
    allowed = tolerance(expected, expected, [[draw] for draw in draws], kind, by_channel=False)
    return max(least, float(allowed.max(initial=0.0)) / scale)


def _doubt(
    found: Sequence[Compared], before: Sequence[RuntimeSample], moved: Sequence[RuntimeSample], asked: float | str
) -> Why | None:
    """Return why agreement shows nothing: results that would be the same of other weights, or too wide a tolerance."""
    names = {item.name for item in found}
    if not any(_shows([run[name] for run in before], [run[name] for run in moved]) for name in names):
        return UNSEEN
    widest = max(found, key=lambda item: item.difference.allowed)
    if isinstance(asked, str) and widest.difference.allowed > WORST_AGREEMENT:
        how_far = f"{widest.difference.allowed:.2g} of its largest value"
        reason = f"rounding to {asked} may take output {widest.name!r} {how_far} off, which would hide a fault"
        return Why(Code.COARSE, reason)
    return None


def _shows(results: Sequence[Array], moved: Sequence[Array]) -> bool:
    """Whether results of one output show anything: are they others once the weights have ``moved``?

    Of a model without weights, two numbers have to differ. Labels mostly stay, and show little of the numbers behind.
    """
    if moved:
        return any(_differ(old, new) for old, new in zip(results, moved, strict=True))
    numbers = np.concatenate([array.reshape(-1) for array in results])
    return _differ(numbers[1:], numbers[:-1])


def _differ(one: Array, other: Array) -> bool:
    are_floats = _is_float(one) and _is_float(other)
    return bool((distance(_wide(one), _wide(other)) if are_floats else one != other).any())


def _is_float(array: Array) -> bool:
    return array.dtype.kind in "fV"  # numpy does not know what a bfloat16 is


def _wide(array: Array) -> F64:
    with np.errstate(all="ignore"):
        return array.astype(np.float64)
