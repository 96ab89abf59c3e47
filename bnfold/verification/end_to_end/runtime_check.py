"""Run both models in a runtime, and measure its errors against the float64 evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.verification.as_read import is_forced
from bnfold.verification.codes import Code
from bnfold.verification.comparing.sides import JITTERS
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.end_to_end.runtime_rejects import TAKEN, RuntimeOpinion, opinion_of, session_too_long
from bnfold.verification.end_to_end.samples import Sample
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.request import Request
from bnfold.verification.runtimes.runtime import RuntimeResult, beside, run_until
from bnfold.verification.tolerance.floats import HALVES
from bnfold.verification.tolerance.storage import PrecisionLoss, StorageErrors, agrees, errors, growth_fault
from bnfold.verification.verdict import OutputRow, RuntimeRow

OWN = "bnfold's kernels in the models' own precision"

_ILL_CONDITIONED = "the model is ill-conditioned in its own type, or one of the two results is wrong"
_IN_TRAINING = "what is read as inference, as asked, may have been in training mode there"


@dataclass(frozen=True, slots=True)
class RuntimeErrors:
    """Errors of both models by output name, a fault if they grew, and a row for each runtime that was used.

    ``suspicion`` is such a fault at an output on which the runtime is wrong about the original as well. ``opinion`` is
    the runtime's on the rewritten model, if it did not run both.
    """

    errors_before: Mapping[str, StorageErrors] = field(default_factory=dict)
    errors_after: Mapping[str, StorageErrors] = field(default_factory=dict)
    fault: PrecisionLoss | None = None
    suspicion: PrecisionLoss | None = None
    opinion: RuntimeOpinion = TAKEN
    rows: tuple[RuntimeRow, ...] = ()
    notes: tuple[str, ...] = ()

    def fill(self, rows: Sequence[OutputRow]) -> tuple[OutputRow, ...]:
        """Return the rows with the errors in storage precision filled in, and the fault if these decide."""
        return tuple(map(self._filled, rows))

    def _filled(self, row: OutputRow) -> OutputRow:
        before, after = self.errors_before.get(row.name), self.errors_after.get(row.name)
        row = replace(
            row,
            error_before=before.largest if before else None,
            error_after=after.largest if after else None,
        )
        if row.fault or self.fault is None or self.fault.output != row.name:
            return row
        return replace(row, fault=self.fault.text, code=Code.LESS_PRECISE)


Answers = tuple[RuntimeResult, RuntimeResult]


@contextmanager
def start_runtimes(request: Request, samples: Sequence[Sample]) -> Iterator[Callable[[], Answers | None]]:
    """Start the runtime on both models. The yielded function waits for the results (None without a runtime)."""
    if request.checks.runtime == "none":
        yield lambda: None
        return
    if seconds := session_too_long(request, request.clock.budget):
        reason = f"not asked: opening the model takes about {seconds:.0f} s"
        silent = RuntimeResult(request.checks.runtime, error=reason, obstacle="not looked")
        yield lambda: (silent, silent)
        return
    feeds, runtime, end = [sample.feeds for sample in samples], request.checks.runtime, request.clock.end

    def run(before: Path | str, after: Path | str) -> Answers:
        return run_until(end, runtime, before, feeds), run_until(end, runtime, after, feeds)

    with beside(request.sources, run) as wait:
        yield wait  # another processor evaluates in float64 meanwhile


def evaluate_runtimes(
    request: Request, pair: ModelPair, samples: Sequence[Sample], answers: Answers | None
) -> RuntimeErrors:
    """Compare the errors of the runtime on both models.

    If it cannot run them, our own kernels compute in storage precision instead.
    """
    rows: list[RuntimeRow] = []
    if answers is not None:
        evidence = _weigh(request, pair, samples, *answers)
        if evidence.errors_before and evidence.errors_after:
            checked = _second_opinion(request, pair, samples, evidence)
            return replace(checked, fault=checked.fault or _half_fault(request, pair, samples))
        rows = list(evidence.rows)
    own = replace(_own_errors(request, pair, samples), opinion=opinion_of(*answers) if answers is not None else TAKEN)
    notes = ("bnfold's own kernels measured the errors in the models' own precision",) if own.errors_before else ()
    fault = own.fault or own.suspicion
    return replace(own, fault=fault, rows=tuple(rows), notes=notes)


def _second_opinion(
    request: Request, pair: ModelPair, samples: Sequence[Sample], evidence: RuntimeErrors
) -> RuntimeErrors:
    """Decide on a suspicion: if our own kernels compute the rewritten model well, the runtime is at fault.

    onnxruntime's Sigmoid is a rational function that is exact to 2⁻²⁴ of one. Results like 1e-8 are lost, and one ulp
    of the input decides between zero and ten times too much. So its errors on the two models are two draws of its own
    approximation. Our kernels show whether the rewritten model can be computed in its types. If they cannot, or cannot
    run it, the suspicion stands.
    """
    if evidence.fault is not None or evidence.suspicion is None:
        return evidence
    errs = _errors(pair, [sample.expected for sample in samples], _own(request, request.after, samples).results)
    if not errs or not all(_agrees(pair, name, errs[name]) for name in errs):
        return replace(evidence, fault=evidence.suspicion)
    only_in = f"only in {evidence.rows[0].witness}, which is wrong about the original there too"
    note = f"{evidence.suspicion.sentence}; but {only_in}"
    return replace(evidence, notes=(*evidence.notes, note))


def _half_fault(request: Request, pair: ModelPair, samples: Sequence[Sample]) -> PrecisionLoss | None:
    """Return the fault that our own kernels find in a 16-bit model; else None.

    Runtimes compute in float32 between nodes and do not notice overflow there.
    """
    values = (*request.before.graph.values.values(), *request.after.graph.values.values())
    if not any(value.dtype in HALVES for value in values):
        return None
    own = _own_errors(request, pair, samples)
    return own.fault or own.suspicion


def recorded(request: Request, pair: ModelPair, samples: Sequence[Sample]) -> list[RuntimeRow]:
    """Return a row that compares recorded outputs with the evaluation of the original; none without recorded outputs.

    Recorded outputs follow the mode that the original states, even if it is read as another mode.
    """
    known = [sample for sample in samples if sample.recorded]
    if not known:
        return []
    found = _errors(pair, [sample.expected for sample in known], [sample.recorded for sample in known])
    why = _IN_TRAINING if is_forced(request.before, request.policy) else _ILL_CONDITIONED
    notes = tuple(_disagreement(name, found[name], why) for name in found if not _agrees(pair, name, found[name]))
    return [RuntimeRow("recorded outputs", not notes, True, False, notes, independent=False)]


def run_own(request: Request, model: ir.Model, feeds: Sequence[DrawnFeeds], jitter: int | None = None) -> RuntimeResult:
    """Run our kernels in each tensor's own type; with a ``jitter``, each node errs by one more rounding.

    They are no independent runtime, but they know every legacy operator.
    """
    try:
        results = [
            reference.evaluate(
                model,
                sample,
                precision="stored",
                limit_seconds=request.clock.left,
                policy=request.policy,
                noise=reference.Noise(),
                jitter=jitter,
            )
            for sample in feeds
        ]
    except reference.Misfit as error:
        return RuntimeResult(OWN, error=str(error))
    except (BnfoldError, MemoryError) as error:
        return RuntimeResult(OWN, error=str(error), obstacle="not looked")
    return RuntimeResult(OWN, tuple(results))


def _own(request: Request, model: ir.Model, samples: Sequence[Sample]) -> RuntimeResult:
    return run_own(request, model, [sample.feeds for sample in samples])


def _own_errors(request: Request, pair: ModelPair, samples: Sequence[Sample]) -> RuntimeErrors:
    sides = (_own(request, model, samples) for model in (request.before, request.after))
    return _weigh(request, pair, samples, *sides)


def _weigh(
    request: Request, pair: ModelPair, samples: Sequence[Sample], before: RuntimeResult, after: RuntimeResult
) -> RuntimeErrors:
    truth = [sample.expected for sample in samples]
    old, new = _errors(pair, truth, before.results), _errors(pair, truth, after.results)
    dtypes = {name: request.before.graph.values[name].dtype for name in pair.outputs}
    is_discontinuous = bool(pair.pinned or pair.unpinnable or pair.drawn)
    doubtful = [] if is_discontinuous else [name for name in old if not _agrees(pair, name, old[name])]
    row = RuntimeRow(
        witness=before.runtime if before.ran else after.runtime,
        agrees=None if is_discontinuous or not old else not doubtful,
        ran_before=before.ran,
        ran_after=after.ran,
        notes=(*_failures(before, after), *(_disagreement(name, old[name]) for name in doubtful)),
    )

    def grown_from(errs: Mapping[str, StorageErrors]) -> dict[str, PrecisionLoss | None]:
        return {
            name: _growth(name, dtypes[name], errs[name], new[name], is_discontinuous) for name in errs if name in new
        }

    grown = grown_from(old)
    if any(grown.values()):
        grown = grown_from(_at_worst(request, pair, samples, old))
    firm = (fault for name, fault in grown.items() if name not in doubtful or new[name].broken > old[name].broken)
    return RuntimeErrors(old, new, _first(firm), _first(grown.values()), rows=(row,))


def _at_worst(
    request: Request, pair: ModelPair, samples: Sequence[Sample], found: Mapping[str, StorageErrors]
) -> dict[str, StorageErrors]:
    """Return the errors of the original, including those with what it computes with moved by a unit in the last place.

    These are removed weights, and the operands of every node. One evaluation may be lucky: after a division by nearly
    zero, as when two numbers are normalized that are nearly equal, another rounding can err a thousand times as much.
    """
    truth = [sample.expected for sample in samples]
    weights = zip(*(pair.with_removed_moved(sample.feeds) for sample in samples), strict=False)
    feeds = [sample.feeds for sample in samples]
    operands = (run_own(request, request.before, feeds, seed).results for seed in range(JITTERS))
    moved = [_errors(pair, truth, results) for results in (*weights, *operands)]
    return {
        name: own._replace(largest=max([own.largest, *(draw[name].largest for draw in moved if name in draw)]))
        for name, own in found.items()
    }


def _first(faults: Iterable[PrecisionLoss | None]) -> PrecisionLoss | None:
    return next((fault for fault in faults if fault is not None), None)


def _errors(
    pair: ModelPair, truth: Sequence[Mapping[str, Array]], results: Sequence[Mapping[str, Array]]
) -> dict[str, StorageErrors]:
    """Return the errors by output; empty without results."""
    found = {name: errors(truth, results, name) for name in pair.outputs if results}
    return {name: error for name, error in found.items() if error is not None}


def _agrees(pair: ModelPair, name: str, found: StorageErrors) -> bool:
    return agrees(found, pair.before.graph.values[name].dtype)


def _growth(
    name: str, dtype: int | None, before: StorageErrors, after: StorageErrors, is_discontinuous: bool
) -> PrecisionLoss | None:
    """Return the fault of an output.

    Behind discontinuous operators, both models may err by any amount, so only results that break count.
    """
    if is_discontinuous:
        before, after = (StorageErrors(0.0, 0.0, side.broken) for side in (before, after))
    return growth_fault(name, dtype, before, after)


def _failures(before: RuntimeResult, after: RuntimeResult) -> list[str]:
    if before.error and before.error == after.error:
        return [f"cannot run either model: {before.error}"]
    sides = (("original", before), ("rewritten model", after))
    return [f"cannot run the {which}: {side.error}" for which, side in sides if side.error]


def _disagreement(name: str, found: StorageErrors, why: str = _ILL_CONDITIONED) -> str:
    broken = f"{found.broken} elements are not finite; " if found.broken else ""
    return (
        f"output {name!r} of the original differs from float64 by {found.largest:.2g} of its largest value; "
        f"{broken}{why}"
    )
