"""One model from file to file: load, rewrite, write beside the place, verify, and only then put it there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bnfold import ir, log
from bnfold.errors import BadInput, BadSetting, BnfoldError, VerificationFailed
from bnfold.ir.fixing import fix_inputs
from bnfold.ir.storage.stream import check_range
from bnfold.ir.tensor import RangeViolation
from bnfold.pipeline import formats, passes, path_conflicts
from bnfold.pipeline.context import NodeKey
from bnfold.pipeline.formats import ModelSource, StagedFile
from bnfold.pipeline.outcome import Outcome, ProcessedModel, count_products
from bnfold.report.rewrites import CHANNELS, wrong_rewrites
from bnfold.settings import Options, OutputOptions, VerifyOptions
from bnfold.settings.progress import Progress

MAX_REPLANS = 8


def process(
    source: ModelSource,
    delivery: OutputOptions | None,
    options: Options,
    checks: VerifyOptions,
    progress: Progress | None = None,
    *,
    reports: Sequence[Path] = (),
    second_opinion: Callable[[ProcessedModel], None] | None = None,
) -> ProcessedModel:
    """Rewrite the model at ``source``, verify it, and write it (``delivery`` None: leave it in memory).

    ``reports`` are the files that the caller is going to write: none that the model is read from or written to.
    ``second_opinion`` is asked about a result that did not fail verification, before it is put in place; it raises
    VerificationFailed, or another `BnfoldError`, to keep it out.

    If the result differs because of a simplification, it is left out, logged as an error, and listed in the report's
    ``wrong_rewrites``.

    Raises:
        BadInput, Unsupported: The model cannot be read or processed.
        BadSetting: A tolerance is given, or frozen weights are asked for.
        OutputError: The output cannot be written.
        SameFile: It would overwrite the input unasked, or another two of the files are one.
        VerificationFailed: The result differs; nothing was written (but to ``keep_failed``).
    """
    if isinstance(source, str | os.PathLike):
        source = Path(source)
    kind = formats.of(source)
    kind.check(options, delivery, frozenset())
    if checks.tolerance is not None:
        raise BadSetting("tolerance", "a tolerance is for verify and run; bnfold's own rewrites have none")
    if checks.frozen:
        raise BadSetting(
            "frozen", "it is for verify and run; here --overridable freeze makes constants of such weights"
        )
    if delivery is not None:
        path_conflicts.check_target(source, delivery)
    tell, given = progress or (lambda *_: None), options

    def attempt(
        withheld: frozenset[NodeKey],
        options: Options,
        delivery: OutputOptions | None,
        trial: VerifyOptions | None = None,
    ) -> ProcessedModel:
        seconds: dict[str, float] = {}
        with _timed(seconds, "load"):
            model = kind.load(source)
        size = _size(source, model)
        path_conflicts.refuse_for_one(source, model, delivery, checks.data, reports)
        formats.start_runtime(kind, checks, model)
        with _timed(seconds, "rewrite"):
            run = partial(passes.rewrite, progress=None if trial else tell, withheld=withheld, runtime=checks.runtime)
            done = kind.rewrite(model, options, run)
        done.size_before = size
        # Files that show what a wrong simplification did stay when the result without it is verified.
        asked = checks if options.disable == given.disable else replace(checks, save=None)
        outcome = ProcessedModel(done, options, trial or asked, model=model, source=source, seconds=seconds)
        if trial is not None:
            check_range(model)
            return replace(outcome, verdict=kind.verify(source, model, trial, None, options, done))
        again = partial(attempt, withheld, delivery=None)
        return _deliver(outcome, delivery, tell, second_opinion or (lambda _: None), again)

    try:
        return _without_overflow(attempt, options, delivery)
    except VerificationFailed as failure:
        outcome = _without_wrong(partial(_without_overflow, attempt), failure.outcome, options, delivery)
        if outcome is None:
            if isinstance(failure.outcome, ProcessedModel):
                again = partial(attempt, frozenset(), delivery=None)
                failure.outcome = _advised(failure.outcome, None, again, tell)
            raise
        return outcome


RunAttempt = Callable[[frozenset[NodeKey], Options, OutputOptions | None], ProcessedModel]


def _without_overflow(attempt: RunAttempt, options: Options, delivery: OutputOptions | None) -> ProcessedModel:
    """Return the outcome without those folds whose weights overflow; only computing them shows which do."""
    folds: frozenset[NodeKey] = frozenset()
    for _ in range(MAX_REPLANS):
        try:
            return attempt(folds, options, delivery)
        except RangeViolation as violation:
            if violation.tensor.origin is None:
                raise AssertionError("a weight overflows that no fold made") from violation
            folds |= {violation.tensor.origin}
    raise BadInput(f"more than {MAX_REPLANS} folded weights overflow; leave out their operators with --except")


def _without_wrong(
    attempt: Callable[[Options, OutputOptions | None], ProcessedModel],
    failed: Outcome | None,
    options: Options,
    delivery: OutputOptions | None,
) -> ProcessedModel | None:
    """Return the outcome without the one simplification that is wrong, or without any; None if that is no better."""
    report = failed.report if isinstance(failed, ProcessedModel) else None
    made = {event.rewrite.name: event.rewrite for event in report.simplified} if report is not None else {}
    if report is not None and report.channels:
        made[CHANNELS.name] = CHANNELS

    def without(names: Iterable[str], delivery: OutputOptions | None) -> ProcessedModel:
        return attempt(replace(options, disable=options.disable.union(names)), delivery)

    try:
        if not made or without(made, None).verdict is None:
            return None
    except BnfoldError:
        return None
    for withheld in [*([rewrite] for rewrite in made.values()), [*made.values()]]:
        with suppress(VerificationFailed):
            outcome = without([rewrite.name for rewrite in withheld], delivery)
            outcome.report.wrong_rewrites += withheld
            log.error(__name__, "%s", wrong_rewrites([rewrite.name for rewrite in withheld]))
            return outcome
    return None


def _size(source: ModelSource, model: ir.Model) -> int | None:
    """Return the bytes of the files that a model came in; None for one in memory, and for an OpenVINO IR."""
    if not isinstance(source, Path) or formats.of(source).is_two_files:
        return None
    return sum(file.stat().st_size for file in dict.fromkeys([source, *model.external_files()]))


def quantization(outcome: ProcessedModel) -> list[dict[str, Any]]:
    """Return what int8 would make of each layer's weight, before folding, folded, and equalized as well."""
    from bnfold.pipeline.explain import quantization as explained

    kind = formats.of(outcome.source)
    models = [kind.load(outcome.source) for _ in explained.FORMS]
    for model, equalize in zip(models[1:], (False, True), strict=True):
        kind.rewrite(model, replace(outcome.options, equalize=equalize), passes.rewrite)
    return explained.describe(models)


Again = Callable[..., ProcessedModel]
"""Does the same with other options, in memory, and verifies it as its ``trial`` says. Raises as `process`."""


def _advised(
    outcome: ProcessedModel, result: ir.Model | Path | None, again: Again, progress: Progress
) -> ProcessedModel:
    """Return the outcome with the next step in its verdict; ``result`` is what was verified, None if it is gone."""
    verdict = outcome.verdict
    if verdict is None or verdict.verified:
        return outcome
    from bnfold.pipeline.next_step import Candidate, Case, Tried, next_step

    kind = formats.of(outcome.source)

    def attempt(candidate: Candidate) -> Tried:
        if candidate.options is None and result is not None:
            model = result if isinstance(result, Path) else kind.load(result)
            return Tried(kind.verify(outcome.source, model, candidate.checks, None, outcome.options, outcome.report))
        other = again(options=replace(candidate.options or outcome.options, simplify=()), trial=candidate.checks)
        assert other.verdict is not None, "it was asked for"
        opset = other.report.opset_after
        more_nodes = other.report.after.nodes - outcome.report.after.nodes
        return Tried(other.verdict, more_nodes, opset if opset != outcome.report.opset_after else None)

    is_onnx = kind is formats.ONNX
    before = kind.load(outcome.source) if is_onnx else None
    after = (ir.load(result) if isinstance(result, Path) else result) if is_onnx else None
    seconds = sum(outcome.seconds.get(phase, 0.0) for phase in ("load", "rewrite", "verify"))
    case = Case(verdict, outcome.checks, attempt, before, after, outcome.options, outcome.report, seconds, progress)
    with _timed(outcome.seconds, "next step"):
        verdict = replace(verdict, next=next_step(case))
    return replace(outcome, verdict=verdict)


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - started
    log.info(__name__, "%s: %.3f s", phase, seconds[phase])


def _deliver(
    outcome: ProcessedModel,
    delivery: OutputOptions | None,
    progress: Progress,
    second_opinion: Callable[[ProcessedModel], None],
    again: Again,
) -> ProcessedModel:
    """Write and verify, or only verify what stays in memory."""
    written, total = 0, outcome.model.parameter_bytes()

    def wrote(count: int) -> None:
        nonlocal written
        written += count
        progress("write", written, total if written <= total else 0)  # encoded text is written, too

    def stage(outcome: ProcessedModel) -> AbstractContextManager[StagedFile | None]:
        if delivery is None:
            return nullcontext()
        with _timed(outcome.seconds, "write"):
            return formats.of(outcome.source).stage(outcome.model, delivery, wrote)

    def put_in_place(outcome: ProcessedModel, staged: StagedFile | None) -> ProcessedModel:
        second_opinion(outcome)
        if delivery is None or staged is None or (delivery.require_verified and not outcome.verified):
            return outcome
        if delivery.explained or path_conflicts.overwrites(outcome.source, delivery):
            outcome = replace(outcome, original=outcome.read_original())
        staged.commit()
        return replace(outcome, output=delivery.path, data=staged.data_path)

    if outcome.options.simplify:
        with _simplified(outcome, delivery, progress, again) as simplified:
            with stage(simplified) as staged:
                outcome = put_in_place(simplified, staged)
            # The steps' files go at the end of this block.
            model = ir.load(ir.encode(outcome.model) if outcome.output is None else outcome.output)
            return replace(outcome, model=model)
    if delivery is None:
        check_range(outcome.model)
    with stage(outcome) as staged:
        result = outcome.model if staged is None else staged.path
        verified = _verified(outcome, result, delivery, progress)
        return put_in_place(_advised(verified, result, again, progress), staged)


@contextmanager
def _simplified(
    outcome: ProcessedModel, delivery: OutputOptions | None, progress: Progress, again: Again
) -> Iterator[ProcessedModel]:
    """Let other programs go on with the result; what they made of it lies in files until the end of the block."""
    from bnfold.pipeline import chain, external_tools

    first, *others = map(external_tools.simplifier, outcome.options.simplify)
    with (
        chain.working_folder(outcome.model, in_memory=delivery is None) as folder,
        external_tools.begun(first) as begun,
    ):
        ir.save(outcome.model, own := folder / "own.onnx")
        outcome = _advised(_verified(outcome, own, delivery, progress), own, again, progress)
        count_products(outcome)
        options = replace(outcome.options, fix_shapes={})  # they are fixed in what the steps start from
        checks = replace(outcome.checks, explain=None, save=None)  # what is asked is asked about the result so far
        steps = chain.ToolChain(own, ir.load(own), folder, options, checks, progress)
        with _timed(outcome.seconds, "simplify"):
            rows = steps.run([begun, *others], outcome.report, outcome.verdict, sum(outcome.seconds.values()))
        yield replace(outcome, steps=rows, model=steps.model)


def _verified(
    outcome: ProcessedModel, result: ir.Model | Path, delivery: OutputOptions | None, progress: Progress
) -> ProcessedModel:
    """Return the outcome with its verdict on the result, staged or in memory. Raises VerificationFailed."""
    if outcome.checks.depth == "none":
        _require_runtime(outcome)
        return outcome
    kind = formats.of(outcome.source)
    with _timed(outcome.seconds, "verify"):
        verdict = kind.verify(outcome.source, result, outcome.checks, progress, outcome.options, outcome.report)
    outcome = replace(outcome, verdict=verdict)
    tell = log.info if verdict.verified else log.warning
    tell(__name__, "%s: %s", verdict.status, verdict.reason)
    _require_runtime(outcome)
    if verdict.status != "failed":
        return outcome
    if delivery is not None and delivery.keep_failed is not None:
        with kind.stage(outcome.model, replace(delivery, path=delivery.keep_failed)) as staged:
            staged.commit()
    label = delivery.path if delivery is not None else "the result"
    raise VerificationFailed(f"{label}: not written: {verdict.reason}", outcome)


def _require_runtime(outcome: ProcessedModel) -> None:
    """Raise BadInput if the runtime refuses the original at the fixed sizes; not asked if verification has run it."""
    witnesses = outcome.verdict.witnesses if outcome.verdict is not None else ()
    if not outcome.report.fixed or any(row.ran_before for row in witnesses):
        return
    from bnfold.verification.fixed_sizes import FixedSizes

    original = formats.of(outcome.source).load(outcome.source)
    asked = outcome.options.fix_shapes
    fix_inputs(fixed := original.clone(), asked)
    FixedSizes(original, fixed, asked, outcome.options.policy, outcome.checks.runtime).require_runtime()
