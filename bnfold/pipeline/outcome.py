"""The result of one model's way through the pipeline: the model, the report, the verdict, where it was written."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import onnx

from bnfold import ir
from bnfold.errors import brief
from bnfold.pipeline import formats
from bnfold.pipeline.formats import ModelSource
from bnfold.pipeline.versions import versions
from bnfold.report import totals
from bnfold.report.events import Report
from bnfold.settings import Options, OutputOptions, VerifyOptions, to_json
from bnfold.settings.python_words import in_python, speaks_python

if TYPE_CHECKING:
    import onnx_ir

    from bnfold.pipeline.chain import StepRow
    from bnfold.verification import Verdict

NOT_VERIFIED = "not verified: --no-verify was given"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Outcome(ABC):
    """What became of one model. It can be pickled; weights that lie in files stay there.

    Attributes:
        report: What was done, and why not.
        options: What was asked for.
        checks: How it was to be verified.
        output: Where the model was written; None if it was not.
        data: The data file beside it that weights were written to; None where there is none.
        verdict: What verification found; None where none was asked for.
        seconds: Time by phase: load, rewrite, write, verify.
        steps: What became of each step, bnfold's own first; empty without `Options.simplify`.
    """

    report: Report
    options: Options
    checks: VerifyOptions
    output: Path | None = None
    data: Path | None = None
    verdict: Verdict | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    steps: list[StepRow] = field(default_factory=list)

    @property
    def status(self) -> Literal["verified", "unverified", "failed", "unchecked"]:
        """The verdict's status; ``unchecked`` if there is none."""
        return "unchecked" if self.verdict is None else self.verdict.status

    @property
    def verified(self) -> bool:
        """Whether the result was verified."""
        return self.status == "verified"

    @abstractmethod
    def to_proto(self) -> onnx.ModelProto:
        """Return the rewritten model with its weights inside.

        Raises:
            OutputError: It is larger than the 2 GB that protobuf allows.
            Unsupported: It is an OpenVINO IR.
        """

    @abstractmethod
    def to_onnx_ir(self) -> onnx_ir.Model:
        """Return the rewritten model as an ``onnx_ir.Model``; no weight is read before it is used.

        If an ``onnx_ir.Model`` came in, its untouched tensors are the same objects. A tensor of a file is read from
        that file, and a folded weight is computed, whenever its values are asked for.

        Raises:
            Unsupported: It holds what onnx_ir cannot, such as a sparse tensor, or it is an OpenVINO IR.
        """

    @abstractmethod
    def save(self, output: str | os.PathLike[str], *, external_data: str = "auto", in_place: bool = False) -> None:
        """Write the rewritten model.

        Args:
            output: The file to write. Its folder is made if it is not there.
            external_data: Where the weights go: ``auto`` or ``keep`` (as in the input), ``none`` (inside the model
                file), or the name of a data file.
            in_place: Whether ``output`` may be the file that the model was read from.

        Raises:
            OutputError: The file cannot be written, or is the input.
            BadSetting: ``external_data`` is no plain file name.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the whole report, as ``bnfold/report/report.schema.json`` describes it.

        Reads the original model anew, unless that was done before the result was put in place.
        """

    @abstractmethod
    def left(self, operators: AbstractSet[str]) -> list[tuple[str, str, str]]:
        """Return the nodes of these operators that are still there, as ``--assert-none`` lists them.

        Each is its label, the path of its graph (empty for the main graph), and why it is there, if that is known.
        """

    def _repr_html_(self) -> str | None:
        """Return the report, for notebooks; None without jinja2, of the extra ``report``."""
        from html import escape
        from importlib.util import find_spec

        if find_spec("jinja2") is None:
            return None
        from bnfold.report.html import html

        page = escape(html([self.to_json()]))
        return f'<iframe title="bnfold report" srcdoc="{page}" style="width: 100%; height: 40rem; border: 0"></iframe>'


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ProcessedModel(Outcome):
    """An outcome with the model as bnfold holds it.

    Attributes:
        model: The rewritten model.
        source: Where the model came from.
        original: What the report says of the original, gathered before the result was put in place.
    """

    model: ir.Model
    source: ModelSource
    original: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """What the command line says after a run."""
        source = self.source if isinstance(self.source, str | os.PathLike) else "a model in memory"
        told = [
            self.report.versions,
            self.report.became,
            self.verdict.summary if self.verdict is not None else "not verified",
        ]
        if self.verdict is not None and self.verdict.next is not None:
            told.append(f"next: {in_python(self.verdict.next.text)}")
        written = [f"written to {self.output}"] if self.output else []
        return "\n  ".join(map(brief, [f"Outcome of {source}", *told, *written]))

    @speaks_python
    def to_proto(self) -> onnx.ModelProto:
        proto = onnx.ModelProto()
        proto.ParseFromString(ir.encode(formats.of(self.source).as_onnx(self.model)))
        return proto

    def to_onnx_ir(self) -> onnx_ir.Model:
        model = formats.of(self.source).as_onnx(self.model)
        from bnfold.interop.onnx_ir import to_onnx_ir

        return to_onnx_ir(model)

    @property
    def size_after(self) -> int | None:
        """Bytes of the files that were written; None if nothing was."""
        files = [path for path in (self.output, self.data) if path is not None]
        return sum(path.stat().st_size for path in files) if files else None

    @speaks_python
    def save(self, output: str | os.PathLike[str], *, external_data: str = "auto", in_place: bool = False) -> None:
        from bnfold.pipeline import path_conflicts

        delivery = OutputOptions(Path(output), external_data=external_data, in_place=in_place)
        path_conflicts.check_target(self.source, delivery)
        path_conflicts.refuse_for_one(self.source, self.model, delivery, None)
        with formats.of(self.source).stage(self.model, delivery) as staged:
            staged.commit()

    def left(self, operators: AbstractSet[str]) -> list[tuple[str, str, str]]:
        return formats.of(self.source).left(self.model, frozenset(operators), self.options.policy)

    def to_json(self) -> dict[str, Any]:
        document = self.report.to_json()
        facts = dict(self.original or self.read_original())
        for row, more in zip(document["batchnorms"], facts.pop("batchnorms"), strict=True):
            row.update(more)
        document.update(facts)
        document["output"] = _file_facts(self.output)
        document["verify"] = self.verdict.to_json() if self.verdict is not None else None
        if self.report.runtime is not None:
            document["runtime"] = dict(self.report.runtime)
        if self.report.latency is not None:
            document["latency"] = dict(self.report.latency)
        document["steps"] = [row.to_json() for row in self.steps]
        document["options"] = to_json(self.options)
        document["seed"] = self.checks.seed
        document["seconds"] = {phase: round(spent, 4) for phase, spent in self.seconds.items()}
        document["versions"] = versions()
        return document

    def read_original(self) -> dict[str, Any]:
        """Return the parts of the report that come from the original model."""
        from bnfold.pipeline.explain import explain

        before = self.open_original()
        count_products(self)  # of models as they were read: explaining infers shapes
        facts = explain(before, self.model, self.report, self.options.policy)
        both = {"before": self.report.before.products, "after": self.report.after.products}
        counted = {when: products and products.to_json() for when, products in both.items()}
        return {**facts, "multiply_adds": counted, "input": _file_facts(self.source)}

    def open_original(self) -> ir.Model:
        """Return the original, whose inputs with a default are constants if the rewrite took them for constants."""
        before: ir.Model = formats.of(self.source).load(self.source)
        before.freeze_overridable = bool(self.report.frozen)
        return before


def open_in_runtime(outcome: ProcessedModel) -> None:
    """Add to the report whether the runtime loads the original, if one is asked for."""
    if outcome.checks.runtime == "none":
        return
    from bnfold.verification.runtimes.runtime import RuntimeProcess

    source = outcome.source if isinstance(outcome.source, Path) else formats.of(outcome.source).load(outcome.source)
    answer = RuntimeProcess(outcome.checks.runtime).run(source, [], outcome.checks.verify_seconds)
    loads = None if answer.error and answer.obstacle == "not looked" else answer.ran
    outcome.report.runtime = {"name": answer.runtime, "loads": loads, "reason": answer.error}


def measure(outcome: ProcessedModel) -> None:
    """Add the time of both models in onnxruntime to the report."""
    from bnfold.verification.runtimes import timing

    with tempfile.TemporaryDirectory(prefix="bnfold-") as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        if isinstance(outcome.source, Path):
            before = outcome.source
        else:
            ir.save(formats.of(outcome.source).load(outcome.source), before)
        ir.save(outcome.model, after)
        outcome.report.latency = timing.measure(before, after, outcome.checks).to_json()


def count_products(outcome: ProcessedModel) -> None:
    """Add multiply-adds to the totals, only if they are shown: counting them needs shape inference."""
    report = outcome.report
    if report.before.products is None and report.before.nodes <= totals.MANY_NODES:
        products = totals.multiply_adds(outcome.open_original())
        report.before = replace(report.before, products=products)
    if report.after.products is None:
        report.after = replace(report.after, products=totals.multiply_adds(outcome.model.clone()))


def forbidden(count: int, operators: frozenset[str]) -> str:
    """Say that nodes of ``operators`` remain although none should."""
    one = count == 1
    plural = "" if one else "s"
    name = next(iter(operators), "")
    has_plural = len(operators) == 1 and (one or not name.endswith(("s", "x", "y", "h")))  # no Identitys
    what = f"{name}{plural}" if has_plural else f"node{plural} of {', '.join(sorted(operators))}"
    return f"{count} {what} remain{'s' if one else ''}, and --assert-none forbids {'it' if one else 'them'}"


def _file_facts(path: ModelSource | None) -> dict[str, Any] | None:
    if not isinstance(path, Path):
        return None
    import hashlib

    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"path": str(path), "bytes": path.stat().st_size, "sha256": digest}
