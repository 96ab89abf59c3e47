"""What a kind of model file has to do, and which kind a name has: ONNX, or OpenVINO IR (.xml), imported when met."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import onnx

from bnfold import ir
from bnfold.errors import WrongUsage
from bnfold.settings import Options, OutputOptions, Policy, VerifyOptions
from bnfold.settings.checked import OPENVINO_OPERATORS, check_operators
from bnfold.settings.progress import Progress

if TYPE_CHECKING:
    from bnfold.report.events import Report
    from bnfold.verification import Verdict

ModelSource = Path | bytes | onnx.ModelProto | ir.Model | str | os.PathLike[str]
"""What a model may be given as."""
Passes = Callable[[ir.Model, Options], "Report"]
"""What rewrites the graph of a model, in place: `passes.rewrite`."""
SUFFIX = ".xml"
FROZEN = (
    "weights that are also inputs were taken for constants, as --frozen says: other numbers for them are not compared"
)
M = TypeVar("M", bound=ir.Model)


class StagedFile(Protocol):
    """A model written beside its place, gone when its block is left."""

    @property
    def path(self) -> Path:
        """The model file, readable as it stands."""

    @property
    def data_path(self) -> Path | None:
        """The file beside the model that holds weights, if there is one."""

    def commit(self) -> None:
        """Put it in its place."""


class Format(Protocol[M]):
    """A kind of model file; ``M`` is the model that it is read as.

    Attributes:
        is_two_files: Whether a model is a file and another of a name that follows from its own, always.
    """

    is_two_files: bool

    def check(self, options: Options, delivery: OutputOptions | None, unwanted: frozenset[str]) -> None:
        """Raise BadInput for what cannot be asked of these models; ``unwanted`` are operators not to be left."""

    def load(self, source: Any) -> M:
        """Return the model, without its weights; one that is open already stays as it is.

        Raises BadInput, Unsupported.
        """

    def rewrite(self, model: M, options: Options, passes: Passes) -> Report:
        """Rewrite ``model``, in place, by ``passes``. Raises as they do."""

    def stage(
        self, model: M, delivery: OutputOptions, progress: Callable[[int], None] | None = None
    ) -> AbstractContextManager[StagedFile]:
        """Write the model beside its place. Raises OutputError, RangeViolation, BadInput."""

    def as_onnx(self, model: M) -> ir.Model:
        """Return the model as an ONNX model. Raises Unsupported for what is none."""

    def verify(
        self,
        before: Any,
        after: Path | M,
        checks: VerifyOptions,
        progress: Progress | None = None,
        options: Options | None = None,
        report: Report | None = None,
    ) -> Verdict:
        """Compare two models; ``options`` and ``report`` are those of a rewrite between them. Raises BadInput."""

    def left(self, model: M, operators: frozenset[str], policy: Policy) -> list[tuple[str, str, str]]:
        """Do as `decomposing.left`."""

    def data_file(self, target: Path, external_data: str) -> Path | None:
        """Return where weights go that are not in ``target`` itself, which is no link.

        None where all of them are in it.
        """

    def data_files(self, model: M) -> list[Path]:
        """Return the files beside the one that ``model`` was read from, which hold weights of it."""


class Onnx:
    """ONNX models: files, bytes and messages."""

    is_two_files = False
    data_files = staticmethod(ir.Model.external_files)

    def as_onnx(self, model: ir.Model) -> ir.Model:
        return model

    def check(self, options: Options, _delivery: OutputOptions | None, unwanted: frozenset[str]) -> None:
        """Raise BadSetting for an operator that only OpenVINO has."""
        names = ("only", "excluded", "decompose_ops")
        for name, given in (*((name, getattr(options, name)) for name in names), ("assert_none", unwanted)):
            check_operators(name, given & OPENVINO_OPERATORS, openvino=False)

    def load(self, source: ModelSource) -> ir.Model:
        return source.clone() if isinstance(source, ir.Model) else ir.load(source)

    def rewrite(self, model: ir.Model, options: Options, passes: Passes) -> Report:
        return passes(model, options)

    def stage(
        self, model: ir.Model, delivery: OutputOptions, progress: Callable[[int], None] | None = None
    ) -> ir.Staged:
        return ir.stage(
            model,
            delivery.path,
            external_data=delivery.external_data,
            size_threshold=delivery.size_threshold,
            progress=progress,
        )

    def verify(
        self,
        before: ModelSource,
        after: Path | ir.Model,
        checks: VerifyOptions,
        progress: Progress | None = None,
        options: Options | None = None,
        report: Report | None = None,
    ) -> Verdict:
        from bnfold import verification

        if isinstance(after, ir.Model) and after.origin.is_detached:
            reason = "the weights are in external data, and the model was not read from a file"
            verdict = verification.Verdict("unverified", reason, "nothing", code=verification.Code.NOT_COMPUTED)
            return verification.explained(verdict, self.load(before), after, checks)
        is_rewrite = options is not None  # whose inputs have to keep their names
        options = options or Options()
        verdict = verification.verify(
            before if isinstance(before, Path) else self.load(before),
            after,
            checks=checks,
            cuts=report.cuts if report is not None else (),
            scaled=report.scaled if report is not None else None,
            frozen=checks.frozen or (report is not None and bool(report.frozen)),
            fixed=options.fix_shapes,
            policy=options.policy,
            chose_version=report is None or options.names_version,  # without a report, another program made it
            progress=progress,
            by_position=not is_rewrite,
        )
        return replace(verdict, notes=(*verdict.notes, FROZEN)) if checks.frozen else verdict

    def left(self, model: ir.Model, operators: frozenset[str], policy: Policy) -> list[tuple[str, str, str]]:
        from bnfold import decomposing

        return decomposing.left(model, operators, policy)

    def data_file(self, target: Path, external_data: str) -> Path | None:
        if external_data == "none":
            return None
        return target.parent / (f"{target.name}.data" if external_data in ("auto", "keep") else external_data)


ONNX = Onnx()


def of(source: object) -> Format[Any]:
    """Return the kind of a model: by the suffix of a path, else ONNX."""
    if not (isinstance(source, str | os.PathLike) and os.fspath(source).lower().endswith(SUFFIX)):
        return ONNX
    from bnfold.interop import openvino

    return openvino


def start_runtime(kind: Format[Any], checks: VerifyOptions, model: Any) -> None:
    """Start what is going to be asked about ONNX models, while these are rewritten."""
    if kind is ONNX and checks.depth != "none":
        from bnfold import verification

        verification.start(checks, model)


def one_kind(before: ModelSource, after: ModelSource) -> Format[Any]:
    """Return the kind of two models. Raises WrongUsage if they are of two."""
    if of(before) is not of(after):
        raise WrongUsage("an ONNX model and an OpenVINO IR cannot be compared")
    return of(before)


def verify_two(
    before: ModelSource, after: ModelSource, checks: VerifyOptions, progress: Progress | None = None
) -> Verdict:
    """Compare two models of one kind, files or in memory. Raises BadInput."""
    kind = one_kind(before, after)

    def compared(checks: VerifyOptions, progress: Progress | None = None) -> Verdict:
        return kind.verify(before, after if isinstance(after, Path) else kind.load(after), checks, progress)

    return advised(kind, before, after, compared(checks, progress), checks, compared, progress)


def advised(
    kind: Format[Any],
    before: ModelSource,
    after: ModelSource,
    verdict: Verdict,
    checks: VerifyOptions,
    compared: Callable[[VerifyOptions], Verdict],
    progress: Progress | None = None,
) -> Verdict:
    """Return the verdict on two models with the next step; ``compared`` compares them with other options."""
    if verdict.verified:
        return verdict
    from bnfold.pipeline.next_step import Case, Tried, next_step

    models = (kind.load(before), kind.load(after)) if kind is ONNX else (None, None)
    tell = progress or (lambda *_: None)
    old, new = models
    case = Case(verdict, checks, lambda candidate: Tried(compared(candidate.checks)), old, new, progress=tell)
    return replace(verdict, next=next_step(case))
