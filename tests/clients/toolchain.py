"""A toolchain that uses all of bnfold's interface, as its author would write it; mypy --strict accepts it as it is.

It is no part of the package's tests by itself: tests/test_python.py type-checks it like a stranger's file, and runs it.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import onnx
import onnx_ir

import bnfold
from bnfold import Options, Outcome, Policy, Verdict, VerifyOptions
from bnfold.errors import BnfoldError, ConversionBlocked, StepRefused, VerificationFailed
from bnfold.passes import ConvertOpsetPass, DecomposeBatchNormPass, FoldBatchNormPass, SimplifyPass
from bnfold.types import (
    BatchNormEvent,
    Code,
    Evidence,
    Experiment,
    Explained,
    NextStep,
    Opset,
    OptionFields,
    OutputRow,
    Progress,
    Reason,
    Repair,
    RewriteCount,
    RuntimeRow,
    SearchTrace,
    SimplifyEvent,
    Source,
    StepRow,
    Tolerance,
    Totals,
)

HELPFUL: Mapping[Code, str] = {Code.TIME: "--verify-seconds", Code.NO_FIT: "--input", Code.HIDDEN: "--data"}
QUICK = VerifyOptions(runtime="none", samples=1, seed=7)


class Bar:
    """A progress bar that can be cancelled."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.is_cancelled = False

    def __call__(self, phase: str, done: int, total: int) -> None:
        self.phases.append(f"{phase} {100 * done // total} %" if total else phase)
        if self.is_cancelled:
            raise KeyboardInterrupt


def every_kind(path: Path) -> list[Outcome]:
    """Models of every kind in; each outcome in every form."""
    sources: Sequence[Source] = (path, str(path), path.read_bytes(), onnx.load(path), onnx_ir.load(path))
    return [bnfold.optimize(source, verify=QUICK, opset=15) for source in sources]


def forms(outcome: Outcome, folder: Path) -> tuple[onnx.ModelProto, onnx_ir.Model, Path]:
    target = folder / "saved.onnx"
    outcome.save(target, external_data="none")
    return outcome.to_proto(), outcome.to_onnx_ir(), target


def evidence(verdict: Verdict) -> list[str]:
    """What stands behind a verdict, without reading a sentence of it."""
    code: Code = verdict.code
    lines = [f"{verdict.status} {code.value} {HELPFUL.get(code, '')}"]
    claim: Evidence
    for claim in verdict.ledger:
        numbers: Mapping[str, str | int | float] = claim.data
        runs: Sequence[Experiment] = claim.experiments
        worst: float = max((run.relative for run in runs), default=0.0)
        lines.append(f"{claim.prover} {claim.status} {claim.code.value} {worst:.1e} {sorted(numbers)} {claim.faults}")
    rows: tuple[OutputRow, ...] = verdict.outputs
    runtimes: tuple[RuntimeRow, ...] = verdict.witnesses
    answers: tuple[Explained, ...] = verdict.explanation
    step: NextStep | None = verdict.next
    asked: Tolerance | None = verdict.tolerance
    lines.append(f"{len(rows)} {len(runtimes)} {len(answers)} {step.options if step else ()} {asked}")
    return lines


def decisions(outcome: Outcome) -> list[str]:
    """What became of each node."""
    lines: list[str] = []
    event: BatchNormEvent
    for event in outcome.report.batchnorms:
        reason: Reason | None = event.reason
        searches: tuple[SearchTrace, ...] = event.attempts
        lines.append(f"{event.name} {event.verdict} {reason.code if reason else ''} {len(searches)}")
    simplified: Sequence[SimplifyEvent] = outcome.report.simplified
    counts: Sequence[RewriteCount] = outcome.report.rewrites
    repairs: Sequence[Repair] = outcome.report.repairs
    before: Totals = outcome.report.before
    lines.append(f"{len(simplified)} {[row.rewrite.name for row in counts]} {len(repairs)} {before.nodes}")
    return lines


def pipeline(model: onnx_ir.Model) -> onnx_ir.Model:
    fold = FoldBatchNormPass(Options(max_growth=0), verify=QUICK)
    passes = (
        ConvertOpsetPass(opset=18),
        ConvertOpsetPass(target_opset=17),
        SimplifyPass(),
        fold,
        DecomposeBatchNormPass(),
    )
    result: onnx_ir.Model = onnx_ir.passes.Sequential(*passes)(model).model
    assert fold.verdict is None or fold.verdict.verified
    return result


def gate(path: Path) -> int:
    """An exit code for CI: 1 for a difference, 3 for a doubt, 4 for a BatchNormalization, 5 for an opset."""
    asked: OptionFields = {"opset": 17, "policy": Policy(legacy_mode="inference"), "disable": {"matmul-add-gemm"}}
    target: Opset = "lowest"
    try:
        outcome = bnfold.optimize(path, verify=QUICK, **asked)
        bnfold.inspect(path, target_opset=target)
    except ConversionBlocked as blocked:
        print(*blocked.blockers, sep="\n")
        return 5
    except VerificationFailed as failure:
        print(failure.verdict.reason if failure.verdict is not None else failure)
        return 1
    except BnfoldError as error:
        return error.exit_code
    if not outcome.verified:
        return 3
    return 4 if outcome.left({"BatchNormalization"}) else 0


def other_program(path: Path, folder: Path) -> StepRow | None:
    try:
        return bnfold.run(path, folder / "run.onnx", [sys.executable, "-c", "", "{input}", "{output}"], verify=QUICK)
    except StepRefused as refused:
        return refused.step


def main() -> None:
    folder = Path(sys.argv[1])
    path = folder / "model.onnx"
    logging.getLogger("bnfold").setLevel(logging.INFO)
    bar = Bar()
    shown: Progress = bar
    outcomes = every_kind(path)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        outcomes += pool.map(bnfold.fold, [path])
    print(
        *evidence(bnfold.verify(path, outcomes[0].to_proto(), options=VerifyOptions(explain=""), progress=shown)),
        sep="\n",
    )
    print(*decisions(outcomes[0]), sep="\n")
    for outcome in outcomes:
        proto, model, saved = forms(outcome, folder)
        assert all(bnfold.verify(path, result, options=QUICK) for result in (proto, model, saved))
    assert pickle.loads(pickle.dumps(outcomes[0])).status == "verified"
    assert bnfold.convert(path, target_opset=13, verify=QUICK, progress=shown).report.opset_after == 13
    assert bnfold.decompose(path, opset=15, verify=QUICK, progress=shown).report.count("decomposed")
    assert bnfold.diff(path, outcomes[0].to_proto())["equal"] is False
    assert bnfold.verify(path, pipeline(onnx_ir.load(path)), options=QUICK)
    refused = other_program(path, folder)
    assert refused is None or refused.status != "verified"
    print("gate", gate(path), bar.phases[0])


if __name__ == "__main__":
    main()
