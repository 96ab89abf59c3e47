"""Steps of external tools between bnfold's own; each is kept only if it is numerically equivalent."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bnfold import ir, log
from bnfold.errors import BadSetting, BnfoldError, Unsupported, brief
from bnfold.ir.tensor import RangeViolation
from bnfold.pipeline import external_tools, formats, passes
from bnfold.pipeline.context import key_of
from bnfold.report import totals
from bnfold.report.events import Report
from bnfold.report.names import compare_names
from bnfold.report.totals import Totals
from bnfold.settings import Options, VerifyOptions
from bnfold.settings.progress import Progress

if TYPE_CHECKING:
    from bnfold.verification import Verdict

StageStatus = Literal["verified", "within tolerance", "not verified", "rolled back", "skipped"]


@dataclass(frozen=True, slots=True)
class StepRow:
    """What became of one step.

    Attributes:
        name: The tool or pass that took the step.
        status: ``not verified`` where nothing was to be compared.
        reason: Why it was rolled back or skipped.
        seconds: Time, verification included.
        totals: The model after the step; None where the step counts for nothing.
        verdict: What verification found; None where it did not come to that.
    """

    name: str
    status: StageStatus
    reason: str = ""
    seconds: float = 0.0
    totals: Totals | None = None
    verdict: Verdict | None = None

    def __str__(self) -> str:
        why = self.reason or (self.verdict.reason if self.verdict is not None else "")
        return brief(f"{self.name}: {self.status} in {self.seconds:.2f} s{f': {why}' if why else ''}")

    def to_json(self) -> dict[str, Any]:
        """Return the row of the report's ``steps``."""
        after = self.totals
        return {
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "seconds": round(self.seconds, 4),
            "nodes": after.nodes if after else None,
            "batchnorms": after.batchnorms if after else None,
            "weights": after.weights if after else None,
            "multiply_adds": after.products.to_json() if after and after.products else None,
            "opset": after.opset if after else None,
        }


@dataclass(slots=True, eq=False)
class ToolChain:
    """A model file on its way from step to step; ``folder`` is where they work.

    Attributes:
        path: The last result that was kept.
        model: The same, loaded.
        rows: What became of each step.
        reports: Those on bnfold's own passes.
    """

    path: Path
    model: ir.Model
    folder: Path
    options: Options
    checks: VerifyOptions
    progress: Progress
    rows: list[StepRow] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    def run(
        self, steps: Sequence[external_tools.ExternalTool], report: Report, verdict: Verdict | None, seconds: float
    ) -> list[StepRow]:
        """Take the steps; ``report`` and ``verdict`` are those of what came before them."""
        first = self.model
        status: StageStatus = "verified" if verdict is not None and verdict.verified else "not verified"
        own = StepRow("bnfold", status, "", seconds, report.after, verdict)
        for step in steps:
            if self.take(step):
                self.fold_again()
        report.notes.extend(f"{row.name} {row.status}: {row.reason}" for row in self.rows if row.reason)
        if self.model is not first:
            follow(report, self.model, self.reports)
        return [own, *self.rows]

    def take(self, step: external_tools.ExternalTool) -> bool:
        """Take another program's step. Returns whether it was kept."""

        def work(folder: Path) -> tuple[ir.Model, None]:
            self.progress("program", 0, 0)
            return step.run(self.model, folder, self.options.step_seconds), None

        return self._take(step.name, work)

    def fold_again(self) -> None:
        """Take a step of the own passes, where what was done since then lets them do more."""
        model = ir.load(self.path)
        report = passes.rewrite(model, replace(self.options, target_opset="keep", equalize=False))
        if not report.cuts:
            return

        def work(folder: Path) -> tuple[ir.Model, Report]:
            ir.save(model, folder / external_tools.OUTPUT)
            return ir.load(folder / external_tools.OUTPUT), report

        if self._take("bnfold", work):
            self.reports.append(report)

    def _take(self, name: str, work: Callable[[Path], tuple[ir.Model, Report | None]]) -> bool:
        folder = self.folder / str(len(self.rows))
        folder.mkdir()
        status: StageStatus = "rolled back"
        started, reason, verdict, model = time.perf_counter(), "", None, None
        try:
            model, report = work(folder)
            if self.checks.depth != "none":
                verdict = self._compared(model, folder / external_tools.OUTPUT, report)
            status = _status(verdict)
            reason = f"{verdict.status}: {verdict.reason}" if verdict is not None and status == "rolled back" else ""
        except BadSetting:
            raise
        except external_tools.StepSkipped as problem:
            status, reason = "skipped", str(problem)
        except (external_tools.StepFailed, BnfoldError) as problem:
            reason = str(problem)
        except RangeViolation:
            reason = "a folded weight would overflow"
        seconds = time.perf_counter() - started
        if model is None or reason:
            self.rows.append(StepRow(name, status, reason, seconds, verdict=verdict))
            log.warning(__name__, "%s: %s: %s", name, status, reason)
            return False
        self.path, self.model = folder / external_tools.OUTPUT, model
        self.rows.append(StepRow(name, status, "", seconds, counted(model), verdict))
        return True

    def _compared(self, model: ir.Model, path: Path, report: Report | None) -> Verdict:
        """Return the verdict on a result: many tools give back what they got, under other names."""
        from bnfold import verification

        found = verification.verdict_on_names(self.model, model)
        if found is not None:
            return verification.explained(found, self.model, model, self.checks)
        return formats.ONNX.verify(self.path, path, self.checks, self.progress, self.options, report)


def _status(verdict: Verdict | None) -> StageStatus:
    if verdict is None:
        return "not verified"
    if not verdict.verified:
        return "rolled back"
    return "within tolerance" if verdict.decided_by == "tolerance" else "verified"


@contextmanager
def working_folder(model: ir.Model, *, in_memory: bool) -> Iterator[Path]:
    """Return where the steps work. Raises Unsupported for a model whose result memory could not hold as one message."""
    if in_memory and model.parameter_bytes() > external_tools.ONE_FILE:
        raise Unsupported("weights beyond 2 GB can be simplified from file to file only: name an output")
    with tempfile.TemporaryDirectory(prefix="bnfold-") as folder:
        yield Path(folder)


def counted(model: ir.Model) -> Totals:
    """Return the model's totals, multiply-adds included."""
    return replace(totals.count(model), products=totals.multiply_adds(model))


def follow(report: Report, after: ir.Model, later: Sequence[Report]) -> None:
    """Bring the report in line with ``after``; ``later`` are those on bnfold's own passes in between."""
    report.after, report.opset_after = counted(after), after.opset()
    report.ir_after = after.proto.ir_version
    compare_names(report, after)
    there = {key_of(node) for node in after.nodes() if node.is_op("BatchNormalization")}
    left = [event for event in report.batchnorms if event.is_left and not event.is_affine]
    gone = [event for event in left if event.key not in there]
    if len(left) - len(gone) != len(there):
        report.notes.append("a step renamed BatchNormalizations, so the report cannot say which of them are left")
        return
    told = {event.key: event for each in later for event in each.batchnorms if not event.is_left}
    for event in gone:
        last = told.get(event.key)
        event.fold(*((last.direction, last.into, last.operators, ()) if last else ("", (), (), ())))
