"""Examine whole models: feed both, compare in float64, and have a runtime say how each errs in storage precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bnfold import reference
from bnfold.errors import Unsupported
from bnfold.verification.changes.interface import broken_promise, contradicted, declared_otherwise
from bnfold.verification.comparing.outputs import Compared, inconclusive, output_rows
from bnfold.verification.comparing.sides import evaluator
from bnfold.verification.coverage import Coverage
from bnfold.verification.end_to_end.drawing import Sample
from bnfold.verification.end_to_end.further import EVALUATIONS
from bnfold.verification.end_to_end.obstacles import Broken, Impossible
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.end_to_end.runtime_check import evaluate_runtimes, recorded, start_runtimes
from bnfold.verification.end_to_end.samples import Samples, choose_samples
from bnfold.verification.inputs.drawing import SAMPLE_KINDS
from bnfold.verification.request import Request
from bnfold.verification.runtimes.hazards import hazards
from bnfold.verification.tolerance.compare import compare_values, shape_of
from bnfold.verification.tolerance.discontinuities import jump_elsewhere
from bnfold.verification.tolerance.rounding import PerturbedWeights
from bnfold.verification.tolerance.storage import WORST_AGREEMENT, StorageErrors
from bnfold.verification.verdict import Location, OutputRow, WitnessRow

_TINY = SAMPLE_KINDS.index("tiny")

_OTHER_KINDS = ((1, True), *((number, False) for number in range(1, len(SAMPLE_KINDS))))
"""Samples of all kinds but the usual, and one with integers of both signs."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What comparing the whole models gave. ``fault`` was found by ``test``; ``doubt`` is why a pass does not count.

    ``location`` is the compared value that shows it in float64. ``refusal`` says that the runtime runs the original
    only; ``fed`` are the inputs that were given values, those with a default among them where others fit.
    """

    rows: tuple[OutputRow, ...]
    fault: str
    test: str
    doubt: str
    refusal: str
    witnesses: tuple[WitnessRow, ...]
    notes: tuple[str, ...]
    fed: frozenset[str]
    pair: ModelPair
    seen: tuple[Sample, ...]
    another: Callable[..., Sample] | None
    location: Location | None

    def observe(self, coverage: Coverage) -> None:
        """Let the coverage see the comparison, sample by sample."""
        for sample in self.seen:
            if not coverage.is_over:
                self.pair.observe(coverage, sample.feeds, sample.expected)

    def differs_elsewhere(self) -> bool:
        """Whether a sample of another kind of numbers shows a difference; recorded ones are all that count."""
        if self.another is None:
            return False
        return any(self._differs(number, signed=signed) for number, signed in _OTHER_KINDS)

    def _differs(self, number: int, *, signed: bool) -> bool:
        assert self.another is not None, "there are such samples"
        try:
            sample = self.another(number, signed=signed)
        except reference.Misfit:  # the original takes no such numbers
            return False
        compared = self.pair.compare(sample.feeds, sample.expected, 0)
        return any(item.difference.fault for item in compared)


def examine_whole(request: Request, draws: PerturbedWeights) -> Whole:
    """Compare the whole models.

    Raises Impossible where they cannot be fed, run or run in time, and Broken where only the original can.
    """
    try:
        return _examine(request, draws)
    except reference.OutOfTime as error:
        raise Impossible(f"{error}{_with_more_time(request, error.needed)}") from error
    except MemoryError as error:
        raise Impossible("there is not enough memory to run the models") from error


def _with_more_time(request: Request, seconds: float) -> str:
    """Return what gives an evaluation the seconds that it needs.

    Where it chooses, bnfold does not wait for a surprise.
    """
    if not math.isfinite(seconds):
        return ""
    enough = request.clock.enough(seconds * EVALUATIONS * request.checks.samples)
    return f": raise it with {'--verify full ' * (request.checks.depth == 'auto')}--verify-seconds {enough}"


def _examine(request: Request, draws: PerturbedWeights) -> Whole:
    with request.clock.phase("referee"):
        evaluate = evaluator(request.policy, request.clock, lambda: pair.patience)
        pair = ModelPair(request.before, request.after, draws, evaluate)
        drawn = choose_samples(request, pair)
        samples = drawn.chosen
        heard = (
            samples if request.checks.data is not None else samples[: request.checks.samples]
        )  # by runtimes, which take longer
    with start_runtimes(request, heard) as answers:
        with request.clock.phase("referee"):
            seen = [*samples, *drawn.elsewhere]
            pair, compared = _compare_all(request, pair, seen)
            extra = drawn.another(_TINY) if drawn.another and not any(item.reacts for item in compared) else None
            if extra is not None:
                compared += _compare(request, pair, extra, len(seen))
                seen.append(extra)
        with request.clock.phase("witness"):
            evidence = evaluate_runtimes(request, pair, heard, answers())
    fault = next((item for item in compared if item.difference.fault), None)
    faults = {
        "float64": fault.sentence if fault is not None else "",
        "storage precision": evidence.fault,
        "interface": _told(broken_promise, request, pair, seen),
    }
    test = next((test for test, found in faults.items() if found), "float64")
    if faults[test] and pair.misfit:  # what never ran cannot be broken
        raise Impossible(pair.misfit)
    return Whole(
        rows=evidence.fill(output_rows(compared)),
        fault=faults[test],
        test=test,
        doubt=_ignores_inputs(pair, drawn)
        or _told(contradicted, request, pair, seen)
        or _inconclusive_reason(compared, evidence.errors_before),
        refusal=evidence.refusal,
        witnesses=(*evidence.rows, *recorded(request, pair, samples)),
        notes=(*_notes(pair), *evidence.notes, *hazards(request.after)),
        fed=frozenset(name for sample in seen for name in sample.feeds),
        pair=pair,
        seen=tuple(seen),
        another=drawn.another,
        location=Location(fault.name, "", fault.difference.relative) if fault is not None else None,
    )


def _compare_all(request: Request, pair: ModelPair, samples: Sequence[Sample]) -> tuple[ModelPair, list[Compared]]:
    """Compare all samples.

    Where operators jump elsewhere than before, what is made of a value inside decides if that agrees.

    Names inside are their maker's business: who quantizes earlier gives a value that is quantized later its old name.
    """
    compared = [item for index, sample in enumerate(samples) for item in _compare(request, pair, sample, index)]
    differing = {item.name for item in compared if item.difference.fault and not item.is_output}
    if not differing or not jump_elsewhere(request.before, request.after):
        return pair, compared
    freed, again = _compare_all(request, pair.without(differing), samples)
    return (pair, compared) if any(item.difference.fault for item in again) else (freed, again)


def _compare(request: Request, pair: ModelPair, sample: Sample, index: int) -> list[Compared]:
    """Compare values before jumps first: a fault there is the cause of what follows."""
    request.progress("rewritten", index, max(index, request.checks.samples))
    try:
        return pair.compare(sample.feeds, sample.expected, index)
    except reference.Random as error:
        raise Impossible(f"the rewritten model draws random numbers: {error}") from error
    except reference.Misfit as error:
        if pair.misfit:
            raise Impossible(pair.misfit) from error
        if doubt := _guess_contradicted(request, pair, sample):
            raise Impossible(doubt) from error
        raise Broken(f"the rewritten model does not run on what the original takes: {error}") from error
    except Unsupported as error:
        raise Impossible(f"the rewritten model cannot be run: {error}") from error


def _guess_contradicted(request: Request, pair: ModelPair, sample: Sample) -> str:
    """Return one sentence about an output that is not of its declared shape, if the rank of an input was guessed.

    Else empty. A rewrite may rely on the declared shape.
    """
    is_told = request.checks.data is not None or bool(request.checks.inputs)
    if is_told or all(value.shape is not None for value in request.before.graph.inputs):
        return ""
    return declared_otherwise(request.before, _output_shapes(pair, sample))


def _told(find: Callable[..., str], request: Request, pair: ModelPair, seen: Sequence[Sample]) -> str:
    """Return what is found of the sizes that outputs are declared with, and those that they have."""
    shapes = (_output_shapes(pair, sample) for sample in seen)
    return next((found for made in shapes if (found := find(request.before, request.after, made))), "")


def _output_shapes(pair: ModelPair, sample: Sample) -> dict[str, tuple[int, ...]]:
    return {name: shape_of(sample.expected[name]) for name in pair.outputs}


def _ignores_inputs(pair: ModelPair, drawn: Samples) -> str:
    """Whether no output shows anything of the inputs.

    The sizes that were guessed may leave nothing of them but padding and biases; and of few numbers, all may be zero
    behind a Hardmax, whatever was drawn.
    """
    first, *others = drawn.chosen
    if drawn.another is None or not first.feeds:
        return ""
    if not others and first.is_hollow:
        others = [drawn.another(len(drawn.chosen))]
    if others and all(_same_outputs(pair, first, other) for other in others):
        return "no output depends on the inputs at the tested shapes"
    return ""


def _same_outputs(pair: ModelPair, one: Sample, other: Sample) -> bool:
    pairs = ((one.expected[name], other.expected[name]) for name in pair.outputs)
    return all(compare_values(first, second, (), None, by_channel=False).excess == 0 for first, second in pairs)


def _inconclusive_reason(found: Sequence[Compared], errors_before: Mapping[str, StorageErrors]) -> str:
    def exceeds(item: Compared) -> bool:
        own = errors_before.get(item.name)
        if item.difference.relative > WORST_AGREEMENT:  # however much the original errs: it may be any other result
            return True
        return item.exceeds() and (own is None or own.largest < item.difference.relative / 8)

    return inconclusive(found, exceeds)


def _notes(pair: ModelPair) -> list[str]:
    notes = []
    if pair.pinned:
        notes.append(
            f"{len(pair.pinned)} inputs of discontinuous operators (Round, ArgMax, …) were compared; "
            "downstream, both models use the original's values"
        )
    if pair.unpinnable:
        notes.append(
            f"{len(pair.unpinnable)} inputs of discontinuous operators (Round, ArgMax, …) could not be replaced by the "
            "original's values"
        )
    return notes
