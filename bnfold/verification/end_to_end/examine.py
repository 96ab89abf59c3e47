"""Compare whole models in float64, and measure the errors of both in a runtime that computes in storage precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from bnfold import reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import FLOATS, type_name
from bnfold.ir.value import shape_of as declared_shape
from bnfold.verification.changes.interface import broken_promise, contradicted, declared_otherwise, unread
from bnfold.verification.changes.zeros import ZEROS, at_zeros, signs_may_show, with_zeros
from bnfold.verification.claims import Experiment, Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.outputs import Compared, experiments, first_fault, inconclusive, output_rows
from bnfold.verification.comparing.sides import evaluator
from bnfold.verification.comparing.sizes import sizes_of_original
from bnfold.verification.coverage import Comparison, Coverage, same_place
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.end_to_end.runtime_check import evaluate_runtimes, recorded, start_runtimes
from bnfold.verification.end_to_end.runtime_rejects import TAKEN, RuntimeOpinion
from bnfold.verification.end_to_end.samples import EVALUATIONS, Sample, Samples, choose_samples, evaluated
from bnfold.verification.inputs.data import Recorded
from bnfold.verification.inputs.drawing import SAMPLE_KINDS, random_feeds
from bnfold.verification.obstacles import Broken, NotCompared, not_run
from bnfold.verification.request import Request
from bnfold.verification.runtimes.hazards import hazards
from bnfold.verification.tolerance.compare import ROUNDING_FACTOR, Difference, compare_values, shape_of
from bnfold.verification.tolerance.discontinuities import discontinuities_differ
from bnfold.verification.tolerance.rounding import PerturbedWeights
from bnfold.verification.tolerance.storage import WORST_AGREEMENT, StorageErrors
from bnfold.verification.verdict import Location, OutputRow, RuntimeRow

_TINY = SAMPLE_KINDS.index("tiny")

_FLOATS = {type_name(dtype) for dtype in FLOATS}

_MANY = 16
"""Possible faults of one part, beyond which it is found out first how long looking for them takes."""

_OTHER_KINDS = ((1, True), *((number, False) for number in range(1, len(SAMPLE_KINDS))))
"""Samples of all kinds but the ordinary one, and an ordinary one with integers of both signs."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The result of comparing the whole models.

    ``fault`` is the difference that the ``test`` found, if any; ``doubt`` is why a pass does not count, if so.
    ``location`` is the first compared value that differs in float64. ``opinion`` is the runtime's on the rewritten
    model. ``fed`` are the inputs that were given values; they include an input with a default if it was also given
    other values. ``seen`` are the samples that were compared, and ``zeros`` those with zeros of either sign.
    """

    rows: tuple[OutputRow, ...]
    fault: Why | None
    test: str
    doubt: Why | None
    opinion: RuntimeOpinion
    witnesses: tuple[RuntimeRow, ...]
    notes: tuple[str, ...]
    fed: frozenset[str]
    pair: ModelPair
    seen: tuple[Sample, ...]
    another: Callable[..., Sample] | None
    location: Location | None
    experiments: tuple[Experiment, ...] = ()
    zeros: tuple[Sample, ...] = ()
    _kept: list[Comparison] = field(default_factory=list)

    def needs(self, coverage: Coverage) -> float:
        """Return about how many counted seconds `observe` takes; 0 for a few faults, which are just looked for."""
        if len(coverage.mutants) < _MANY:
            return 0.0
        first = self.seen[0]
        return coverage.needs(self.pair.seconds(coverage.work, first.feeds, first.expected))

    def observe(self, coverage: Coverage) -> None:
        """Let the coverage see the comparison, sample by sample."""
        coverage.observe_until_unseen(self._compared, same_place)

    def _compared(self) -> Iterator[Comparison]:
        """Yield the comparison of each sample; its runs are kept for the next part."""
        for number, sample in enumerate(self.seen):
            if number == len(self._kept):
                self._kept.append(self.pair.comparison(sample.feeds, sample.expected))
            yield self._kept[number]

    def differs_elsewhere(self) -> bool:
        """Whether a sample with numbers of another kind shows a difference.

        Only recorded samples count if there are any.
        """
        if self.another is None:
            return False
        return any(self._differs(number, signed=signed) for number, signed in _OTHER_KINDS)

    def _differs(self, number: int, *, signed: bool) -> bool:
        assert self.another is not None, "there are such samples"
        try:
            sample = self.another(number, signed=signed)
        except reference.Misfit:  # the original does not accept such numbers
            return False
        compared = self.pair.compare(sample.feeds, sample.expected, 0)
        return any(item.difference.fault for item in compared)


def examine_whole(request: Request, draws: PerturbedWeights, *, differs: bool) -> Whole:
    """Compare the whole models; if a part ``differs``, first on numbers that most faults show on at once.

    Raises NotCompared if they cannot be fed or run, or not in time. Raises Broken if only the original can be run.
    """
    try:
        return _examine(request, draws, differs=differs)
    except reference.OutOfTime as error:
        raise NotCompared(_with_more_time(request, error)) from error
    except MemoryError as error:
        raise NotCompared(Why(Code.MEMORY, "there is not enough memory to run the models")) from error
    finally:
        request.clock.work.tell = None


def _with_more_time(request: Request, error: reference.OutOfTime) -> Why:
    """Return why an evaluation was ended, with the limit and the depth that give it the seconds that it needs.

    With depth ``auto``, bnfold does not wait for an evaluation that takes much longer than estimated.
    """
    if not math.isfinite(error.needed):
        return not_run(error)
    enough = request.clock.enough(error.needed * EVALUATIONS * request.checks.samples)
    return Why(Code.TIME, str(error), {"verify_seconds": enough, "depth": "full"})


def _examine(request: Request, draws: PerturbedWeights, *, differs: bool) -> Whole:
    with request.clock.phase("referee"):
        evaluate = evaluator(request.policy, request.clock, lambda: pair.patience)
        pair = ModelPair(request.before, request.after, draws, evaluate)
        drawn = choose_samples(request, pair)
        samples = drawn.chosen
        # A runtime takes longer, so it gets the requested samples only.
        runtime_samples = samples if request.checks.data is not None else samples[: request.checks.samples]
        if differs and not pair.misfit and (found := _at_once(request, pair, drawn)) is not None:
            return found
    with start_runtimes(request, runtime_samples) as answers:
        with request.clock.phase("referee"):
            seen = [*samples, *drawn.elsewhere]
            pair, compared = _compare_all(request, pair, seen)
            extra = None if any(item.reacts for item in compared) else another(drawn, _TINY)
            if extra is not None:
                compared += _compare(request, pair, extra, len(seen))
                seen.append(extra)
        with request.clock.phase("witness"):
            evidence = evaluate_runtimes(request, pair, runtime_samples, answers())
        with request.clock.phase("referee"):
            rows = evidence.fill(_end_to_end(pair, samples[: request.checks.samples], output_rows(compared)))
    fault = first_fault(compared)
    zeros, at_either = _at_zeros(request, pair, drawn, len(seen)) if fault is None else ([], [])
    fault_at_zeros = first_fault(at_either)
    faults = {
        "float64": _difference(fault, rows) if fault is not None else _sign_of(fault_at_zeros, len(seen)),
        "storage precision": _why(Code.LESS_PRECISE, evidence.fault.sentence if evidence.fault is not None else ""),
        "interface": _why(Code.INTERFACE, _about_shapes(broken_promise, request, pair, seen)),
    }
    test = next((test for test, found in faults.items() if found is not None), "float64")
    if faults[test] is not None and pair.misfit:  # a model that never ran was not broken by a rewrite
        raise NotCompared(Why(Code.NO_FIT, pair.misfit))
    where = fault or fault_at_zeros
    return replace(
        _whole(request, pair, drawn, seen, rows, where),
        fault=faults[test],
        test=test,
        doubt=_why(Code.HIDDEN, ignores_inputs(pair, drawn))
        or _why(Code.ASSUMED_SIZES, _about_shapes(contradicted, request, pair, seen))
        or _inconclusive_reason(compared, evidence.errors_before),
        opinion=evidence.opinion,
        witnesses=(*evidence.rows, *recorded(request, pair, samples)),
        notes=(*_notes(pair), *_flipped(rows), *evidence.notes, *hazards(request.after)),
        zeros=tuple(zeros),
        experiments=_experiments([*seen, *zeros], [*compared, *at_either]),
    )


def _at_zeros(
    request: Request, pair: ModelPair, drawn: Samples, index: int
) -> tuple[Sequence[Sample], Sequence[Compared]]:
    """Compare at zeros of either sign, which serves poles; the samples are counted from ``index``.

    There are none if no zero shows its sign, or if the models differ at both: then it is not the sign that differs.
    """
    sides = [[*model.nodes()] for model in (request.before, request.after)]
    if drawn.another is None or pair.misfit or not signs_may_show(*sides):
        return [], []
    samples: list[Sample] = []
    compared: list[list[Compared]] = []
    for number, zero in enumerate(ZEROS, index):
        feeds = with_zeros(drawn.chosen[0].feeds, drawn.chosen[0].feeds, zero)
        try:
            sample = replace(evaluated(request, pair, Recorded(feeds), 0), numbers="zeros")
            compared.append(pair.compare(sample.feeds, sample.expected, number))
        except Unsupported:  # they take no zeros
            return [], []
        samples.append(sample)
    return ([], []) if all(map(first_fault, compared)) else (samples, [*chain.from_iterable(compared)])


def _sign_of(fault: Compared | None, index: int) -> Why | None:
    """Return how the models differ, if they do at zeros of one sign; the samples are counted from ``index``."""
    if fault is None:
        return None
    why = at_zeros(ZEROS[fault.sample - index])
    return why.said(f"{'output' if fault.is_output else 'value'} {fault.name!r} {why}")


def _at_once(request: Request, pair: ModelPair, drawn: Samples) -> Whole | None:
    """Return the result if the models differ on tiny numbers: then no runtime is asked, and nothing else compared."""
    tiny = another(drawn, _TINY)
    if tiny is None:
        return None
    compared = _compare_all(request, pair, [tiny])[1]
    fault = first_fault(compared)
    if fault is None:
        return None
    rows = _end_to_end(pair, [tiny], output_rows(compared))
    whole = _whole(request, pair, drawn, [tiny], rows, fault)
    return replace(whole, fault=_difference(fault, rows), experiments=_experiments([tiny], compared))


def _whole(
    request: Request,
    pair: ModelPair,
    drawn: Samples,
    seen: Sequence[Sample],
    rows: tuple[OutputRow, ...],
    where: Compared | None,
) -> Whole:
    """Return the result of comparing these samples in float64, with the value that differs, if any."""
    return Whole(
        rows=rows,
        fault=None,
        test="float64",
        doubt=None,
        opinion=TAKEN,
        witnesses=(),
        notes=(*_notes(pair), *_flipped(rows)),
        fed=compared_inputs(request, pair, seen),
        pair=pair,
        seen=tuple(seen),
        another=drawn.another,
        location=Location(where.name, "", where.difference.relative) if where is not None else None,
    )


def _end_to_end(pair: ModelPair, samples: Sequence[Sample], rows: Sequence[OutputRow]) -> tuple[OutputRow, ...]:
    """Return the rows with the numbers from end to end: discontinuous operators of each model read its own values."""
    if not pair.pinned:
        return tuple(rows)
    found: dict[str, list[Difference]] = {row.name: [] for row in rows}
    for sample in samples:
        try:
            own = pair.end_to_end(sample.feeds)
        except Unsupported:  # on its own values, which is said where it is run as a whole
            return tuple(rows)
        for name, differences in found.items():
            dtype = pair.before.graph.values[name].dtype
            differences.append(compare_values(sample.expected[name], own[name], (), dtype, by_channel=False))
    return tuple(_with_own_values(row, found[row.name]) for row in rows)


def _with_own_values(row: OutputRow, found: Sequence[Difference]) -> OutputRow:
    worst = max(found, key=lambda difference: difference.relative)
    if worst.relative <= row.relative:
        return replace(row, inside=row.relative)
    return replace(
        row,
        scale=worst.scale,
        max_abs=worst.max_abs,
        rms=worst.rms,
        relative=worst.relative,
        ulps=worst.ulps,
        typical=found[0].relative,
        mean=float(np.mean([difference.mean for difference in found])),
        beyond=float(np.mean([difference.beyond for difference in found])),
        inside=row.relative,
    )


def _difference(fault: Compared, rows: Sequence[OutputRow]) -> Why:
    """Return how the models differ: first the output from end to end, then the value where it begins."""
    worst = max(rows, key=lambda row: row.relative)
    if fault.is_output or worst.inside is None or worst.relative <= worst.allowed:
        return Why(fault.difference.code, fault.sentence)
    how_far = f"output {worst.name!r} differs by {worst.relative:.2g} of its largest value"
    return Why(fault.difference.code, f"{how_far} from end to end; it begins where {fault.sentence}")


def _flipped(rows: Sequence[OutputRow]) -> list[str]:
    """Return a note for each output of integers or truths that rounding has changed in part."""
    return [
        f"output {row.name!r}: {100 * row.beyond:.2g} % of its elements are others, "
        "for rounding decides between nearly equal numbers"
        for row in rows
        if row.inside == 0 and row.relative > 0 and row.dtype not in _FLOATS
    ]


def _experiments(seen: Sequence[Sample], compared: Sequence[Compared]) -> tuple[Experiment, ...]:
    return experiments(compared, [(sample.feeds, sample.numbers) for sample in seen])


def _compare_all(request: Request, pair: ModelPair, samples: Sequence[Sample]) -> tuple[ModelPair, list[Compared]]:
    """Compare all samples.

    Discontinuous operators may read or produce other values than before. Then a value in the middle that differs is no
    fault as long as everything computed from it agrees: a tool that quantizes earlier gives the old name of a value to
    one that is quantized later.
    """
    compared = [item for index, sample in enumerate(samples) for item in _compare(request, pair, sample, index)]
    differing = {item.name for item in compared if item.difference.fault and not item.is_output}
    if not differing or not discontinuities_differ(request.before, request.after):
        return pair, compared
    freed, again = _compare_all(request, pair.without(differing), samples)
    return (pair, compared) if any(item.difference.fault for item in again) else (freed, again)


def _compare(request: Request, pair: ModelPair, sample: Sample, index: int) -> list[Compared]:
    """Compare one sample. Inputs of discontinuous operators come first: a fault there causes the ones that follow."""
    try:
        return pair.compare(sample.feeds, sample.expected, index)
    except reference.Random as error:
        raise NotCompared(not_run(error, "the rewritten model draws random numbers")) from error
    except reference.Misfit as error:
        if pair.misfit:
            raise NotCompared(Why(Code.NO_FIT, pair.misfit)) from error
        if doubt := _guess_contradicted(request, pair, sample):
            raise NotCompared(Why(Code.ASSUMED_SIZES, doubt)) from error
        reason = f"the rewritten model does not run on what the original takes: {error}"
        raise Broken(Why(Code.DOES_NOT_RUN, reason), sample.feeds, sample.numbers) from error
    except Unsupported as error:
        raise NotCompared(not_run(error, "the rewritten model cannot be run")) from error


def _guess_contradicted(request: Request, pair: ModelPair, sample: Sample) -> str:
    """Return a sentence about an output without its declared shape, if an input shape was assumed; else empty.

    A rewrite may rely on the declared shape.
    """
    is_given = request.checks.data is not None or bool(request.checks.inputs)
    if is_given or all(value.shape is not None for value in request.before.graph.inputs):
        return ""
    return declared_otherwise(request.before, _output_shapes(pair, sample))


def _about_shapes(find: Callable[..., str], request: Request, pair: ModelPair, seen: Sequence[Sample]) -> str:
    """Return the first sentence that ``find`` returns for the output shapes of a sample; else empty."""
    shapes = (_output_shapes(pair, sample) for sample in seen)
    return next((found for made in shapes if (found := find(request.before, request.after, made))), "")


def _output_shapes(pair: ModelPair, sample: Sample) -> dict[str, tuple[int, ...]]:
    return {name: shape_of(sample.expected[name]) for name in pair.outputs}


def _why(code: Code, text: str) -> Why | None:
    return Why(code, text) if text else None


def _inconclusive_reason(found: Sequence[Compared], errors_before: Mapping[str, StorageErrors]) -> Why | None:
    def exceeds(item: Compared) -> bool:
        own = errors_before.get(item.name)
        if item.difference.relative > WORST_AGREEMENT:  # even if the original errs as much, the result shows nothing
            return True
        return item.exceeds() and (own is None or own.largest < item.difference.relative / ROUNDING_FACTOR)

    return inconclusive(found, exceeds)


def _notes(pair: ModelPair) -> list[str]:
    notes = []
    if pair.pinned:
        notes.append(
            f"inputs of discontinuous operators (Round, ArgMax, …) that were compared: {len(pair.pinned)}; "
            "downstream, both models use the original's values"
        )
    if pair.unpinnable:
        notes.append(
            "inputs of discontinuous operators (Round, ArgMax, …) that could not be replaced by the original's values: "
            f"{len(pair.unpinnable)}"
        )
    return notes


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
    """Return a sentence if no output depends on the inputs; else empty. This serves visibility.

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


def agree_as_declared(request: Request) -> bool:
    """Whether a size is declared as 0, and both models agree at that size.

    This serves sizes: some mean the 0, and some exporters write it for a dynamic size.
    """
    model = request.before
    declared = {value.name: declared_shape(value.type) for value in model.required_inputs()}
    if not any(0 in (shape or ()) for shape in declared.values()):
        return False
    draws = PerturbedWeights(model, request.after)
    pair = ModelPair(model, request.after, draws, evaluator(request.policy, request.clock))
    try:
        usual = next(sizes_of_original(request)[1]).shapes
        shapes = {name: _emptied(shape, declared[name]) for name, shape in usual.items()}
        feeds = random_feeds(model, shapes, request.checks.seed, 0)
        return first_fault(pair.compare(feeds, pair.expect(feeds), 0)) is None
    except BnfoldError:
        return False


def _emptied(shape: tuple[int, ...], declared: tuple[object, ...] | None) -> tuple[int, ...]:
    """Return the shape with the sizes of 0 that are declared; as it is if no such rank is declared."""
    if declared is None or len(declared) != len(shape):
        return shape
    return tuple(0 if known == 0 else dim for dim, known in zip(shape, declared, strict=True))
