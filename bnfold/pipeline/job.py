"""One model from file to file: load, rewrite, write beside the place, verify, and only then put it there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from bnfold import ir, log
from bnfold.errors import BadInput, VerificationFailed
from bnfold.ir.storage.stream import check_range
from bnfold.ir.tensor import RangeViolation
from bnfold.ir.traits import ARITHMETIC
from bnfold.pipeline import formats, order, path_conflicts
from bnfold.pipeline.formats import Progress, Source, Staged
from bnfold.pipeline.versions import versions
from bnfold.report import totals
from bnfold.report.events import Report
from bnfold.settings import Options, OutputOptions, VerifyOptions, to_json

if TYPE_CHECKING:
    from bnfold.pipeline.chain import StepRow
    from bnfold.verification import Verdict

MAX_REPLANS = 8


@dataclass(slots=True, eq=False, repr=False)
class Outcome:
    """What became of one model.

    Attributes:
        model: The rewritten model.
        report: What was done, and why not.
        options: What was asked for, with ``banned`` as it turned out.
        checks: How it was to be verified.
        source: Where the model came from.
        output: Where the model was written; None if it was not.
        data: The data file beside it that weights were written to; None where there is none.
        verdict: What verification found; None where none was asked for.
        seconds: Time by phase: load, rewrite, write, verify.
        original: What the report says of the original, gathered before the result was put in place.
        steps: What became of each step, bnfold's own first; empty without `Options.simplify`.
    """

    model: ir.Model
    report: Report
    options: Options
    checks: VerifyOptions
    source: Source
    output: Path | None = None
    data: Path | None = None
    verdict: Verdict | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    original: Mapping[str, Any] | None = None
    steps: list[StepRow] = field(default_factory=list)

    def __repr__(self) -> str:
        """What the command line says after a run."""
        source = self.source if isinstance(self.source, str | os.PathLike) else "a model in memory"
        told = [self.report.versions, self.report.became, self.verdict.summary if self.verdict else "not verified"]
        written = [f"written to {self.output}"] if self.output else []
        return "\n  ".join([f"Outcome of {source}", *told, *written])

    def _repr_html_(self) -> str | None:
        """The report, for notebooks; None without jinja2, of the extra ``report``."""
        from html import escape
        from importlib.util import find_spec

        if find_spec("jinja2") is None:
            return None
        from bnfold.report.html import html

        page = escape(html([self.to_json()]))
        return f'<iframe title="bnfold report" srcdoc="{page}" style="width: 100%; height: 40rem; border: 0"></iframe>'

    def to_proto(self) -> onnx.ModelProto:
        """The rewritten model with its weights inside. Raises OutputError beyond 2 GB, Unsupported for an IR."""
        proto = onnx.ModelProto()
        proto.ParseFromString(formats.of(self.source).encode(self.model))
        return proto

    def left(self, operators: frozenset[str]) -> list[tuple[str, str, str]]:
        """The nodes of these operators that are still there, as `decomposing.left` lists them."""
        return formats.of(self.source).left(self.model, operators, self.options.policy)

    def to_json(self) -> dict[str, Any]:
        """The whole report, as ``bnfold/report/report.schema.json`` describes it.

        Reads the original model anew, unless that was done before the result was put in place.
        """
        document = self.report.to_json()
        facts = dict(self.original or self.read_original())
        for row, more in zip(document["batchnorms"], facts.pop("batchnorms"), strict=True):
            row.update(more)
        document.update(facts)
        document["output"] = _file_facts(self.output)
        document["verify"] = self.verdict.to_json() if self.verdict is not None else None
        document["steps"] = [row.to_json() for row in self.steps]
        document["options"] = to_json(self.options)
        document["seed"] = self.checks.seed
        document["seconds"] = {phase: round(spent, 4) for phase, spent in self.seconds.items()}
        document["versions"] = versions()
        return document

    def read_original(self) -> dict[str, Any]:
        """The parts of the report that come from the original model."""
        from bnfold.pipeline.explain import explain

        before = formats.of(self.source).load(self.source)
        before.freeze_overridable = bool(self.report.frozen)
        facts = explain(before, self.model, self.report, self.options.policy)
        count_products(self, before)
        both = {"before": self.report.before.products, "after": self.report.after.products}
        counted = {when: products and products.to_json() for when, products in both.items()}
        return {**facts, "multiply_adds": counted, "input": _file_facts(self.source)}


def process(
    source: Source,
    delivery: OutputOptions | None,
    options: Options,
    checks: VerifyOptions,
    progress: Progress | None = None,
    *,
    reports: Sequence[Path] = (),
    second_opinion: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Rewrite the model at ``source``, verify it, and write it (``delivery`` None: leave it in memory).

    ``reports`` are the files that the caller is going to write: none that the model is read from or written to.
    ``second_opinion`` is asked about a result that did not fail verification, before it is put in place; it raises
    VerificationFailed, or another `BnfoldError`, to keep it out.

    Raises:
        BadInput, Unsupported: The model cannot be read or processed.
        OutputError: The output cannot be written.
        SameFile: It would overwrite the input unasked, or another two of the files are one.
        VerificationFailed: The result differs; nothing was written (but to ``keep_failed``).
    """
    if isinstance(source, str | os.PathLike):
        source = Path(source)
    kind = formats.of(source)
    kind.check(options, delivery, frozenset())
    if delivery is not None:
        path_conflicts.check_target(source, delivery)
    tell = progress or (lambda *_: None)
    for _ in range(MAX_REPLANS):
        seconds: dict[str, float] = {}
        try:
            with _timed(seconds, "load"):
                model = kind.load(source)
            path_conflicts.refuse_for_one(source, model, delivery, checks.data, reports)
            formats.start_runtime(kind, checks, model)
            with _timed(seconds, "rewrite"):
                done = kind.rewrite(model, options, lambda graph, wanted: order.rewrite(graph, wanted, tell))
            outcome = Outcome(model, done, options, checks, source, seconds=seconds)
            _deliver(outcome, delivery, tell, second_opinion or (lambda _: None))
        except RangeViolation as violation:
            banned = violation.tensor.maker
            if banned is None:
                raise AssertionError("a weight overflows that no fold made") from violation
            options = replace(options, banned=options.banned | {banned})
        else:
            return outcome
    raise BadInput(f"more than {MAX_REPLANS} folded weights overflow; leave out their operators with --except")


def forbidden(count: int, operators: frozenset[str]) -> str:
    """Say that nodes of ``operators`` remain although none should."""
    one = count == 1
    plural = "" if one else "s"
    what = (
        f"{next(iter(operators))}{plural}" if len(operators) == 1 else f"node{plural} of {', '.join(sorted(operators))}"
    )
    return f"{count} {what} remain{'s' if one else ''}, and --assert-none forbids {'it' if one else 'them'}"


def count_products(outcome: Outcome, before: ir.Model | None = None) -> None:
    """Add multiply-adds to the totals, which shapes have to be inferred for, so only who shows them waits for that."""
    report = outcome.report
    if report.before.products is None and report.before.nodes <= totals.MANY_NODES:
        before = before or formats.of(outcome.source).load(outcome.source)
        report.before = replace(report.before, products=totals.multiply_adds(before))
    if report.after.products is None:
        report.after = replace(report.after, products=totals.multiply_adds(outcome.model))


def more_arithmetic(outcome: Outcome) -> int:
    """The constant Mul, Add, Sub, Div and Neg that ``all_affines`` would take out too."""
    if outcome.options.all_affines or not (left := _arithmetic(outcome.model)):
        return 0
    kind = formats.of(outcome.source)
    model, options = kind.load(outcome.source), replace(outcome.options, all_affines=True)
    kind.rewrite(model, options, order.rewrite)
    return left - _arithmetic(model)


def quantization(outcome: Outcome) -> list[dict[str, Any]]:
    """What int8 would make of each layer's weight, before folding, folded, and equalized as well."""
    from bnfold.pipeline.explain import quantization as explained

    kind = formats.of(outcome.source)
    models = [kind.load(outcome.source) for _ in explained.FORMS]
    for model, equalize in zip(models[1:], (False, True), strict=True):
        kind.rewrite(model, replace(outcome.options, equalize=equalize), order.rewrite)
    return explained.describe(models)


def _arithmetic(model: ir.Model) -> int:
    return sum(node.has_trait(ARITHMETIC) for node in model.nodes())


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - started


def _deliver(
    outcome: Outcome, delivery: OutputOptions | None, progress: Progress, second_opinion: Callable[[Outcome], None]
) -> None:
    """Write and verify, or only verify what stays in memory."""
    written = 0

    def wrote(count: int) -> None:
        nonlocal written
        written += count
        progress("write", written, 0)

    def stage() -> AbstractContextManager[Staged | None]:
        if delivery is None:
            return nullcontext()
        with _timed(outcome.seconds, "write"):
            return formats.of(outcome.source).stage(outcome.model, delivery, wrote)

    def put_in_place(staged: Staged | None) -> None:
        second_opinion(outcome)
        if delivery is not None and staged is not None:
            if delivery.explained or path_conflicts.overwrites(outcome.source, delivery):
                outcome.original = outcome.read_original()
            staged.commit()
            outcome.output, outcome.data = delivery.path, staged.data_path

    if outcome.options.simplify:
        with _simplified(outcome, delivery, progress), stage() as staged:
            put_in_place(staged)
        return
    if delivery is None and outcome.checks.depth != "none":
        check_range(outcome.model)
    with stage() as staged:
        _verify(outcome, outcome.model if staged is None else staged.path, delivery, progress)
        put_in_place(staged)


@contextmanager
def _simplified(outcome: Outcome, delivery: OutputOptions | None, progress: Progress) -> Iterator[None]:
    """Let other programs go on with the result; what they made of it lies in files until the end of the block."""
    from bnfold.pipeline import chain, foreign

    first, *others = map(foreign.simplifier, outcome.options.simplify)
    with (
        chain.working_folder(outcome.model, in_memory=delivery is None) as folder,
        foreign.begun(first) as begun,
    ):
        ir.save(outcome.model, own := folder / "own.onnx")
        _verify(outcome, own, delivery, progress)
        count_products(outcome)
        steps = chain.Chain(own, ir.load(own), folder, outcome.options, outcome.checks, progress)
        with _timed(outcome.seconds, "simplify"):
            outcome.steps = steps.run([begun, *others], outcome.report, outcome.verdict, sum(outcome.seconds.values()))
        outcome.model = steps.model
        yield
        outcome.model = ir.load(ir.encode(outcome.model) if delivery is None else delivery.path)


def _verify(outcome: Outcome, result: ir.Model | Path, delivery: OutputOptions | None, progress: Progress) -> None:
    """Compare the result, staged or in memory, with the model as it came. Raises VerificationFailed."""
    if outcome.checks.depth == "none":
        return
    kind = formats.of(outcome.source)
    with _timed(outcome.seconds, "verify"):
        verdict = kind.verify(outcome.source, result, outcome.checks, progress, outcome.options, outcome.report)
    outcome.verdict = verdict
    tell = log.info if verdict.verified else log.warning
    tell(__name__, "%s: %s", verdict.status, verdict.reason)
    if verdict.status != "failed":
        return
    if delivery is not None and delivery.keep_failed is not None:
        with kind.stage(outcome.model, replace(delivery, path=delivery.keep_failed)) as staged:
            staged.commit()
    label = delivery.path if delivery is not None else "the result"
    raise VerificationFailed(f"{label}: not written: {verdict.reason}", outcome)


def _file_facts(path: Source | None) -> dict[str, Any] | None:
    if not isinstance(path, Path):
        return None
    import hashlib

    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"path": str(path), "bytes": path.stat().st_size, "sha256": digest}
