"""A command as a step between two files: run on a copy, compared, and only then put in its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bnfold import ir
from bnfold.errors import StepRefused, WrongUsage
from bnfold.pipeline import chain, external_tools, formats, path_conflicts
from bnfold.pipeline.formats import Progress
from bnfold.report.totals import Totals
from bnfold.settings import Options, OutputOptions, VerifyOptions
from bnfold.verification import Verdict

_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_FLOATS = frozenset({"float16", "bfloat16", "float", "double"})
_ROUNDINGS = 8
"""Units of roundoff that a type explains at least; what rounding the weights to it does comes on top, as measured."""


def run_command(
    source: Path,
    delivery: OutputOptions,
    words: Sequence[str],
    options: Options,
    checks: VerifyOptions,
    tolerance: str = "",
    progress: Progress | None = None,
) -> tuple[Totals, chain.StepRow, list[Path]]:
    """Run the command ``words`` on a copy of ``source``, and put its output in place if that is equivalent.

    Args:
        source: An ONNX file.
        delivery: Where the result goes.
        words: The command, with ``{input}`` and ``{output}`` for the files that it reads and writes.
        options: ``step_seconds`` is its time limit.
        checks: How to verify.
        tolerance: The share of an output's scale that the result may be off by; or the type it was rounded to.
        progress: As for `job.process`.

    Returns:
        What the model consisted of before, what became of the step, and the files that were written.

    Raises:
        BadInput: The model or the command cannot be used.
        OutputError: The result cannot be written.
        StepRefused: Nothing was written, for the command failed or its output is not equivalent.
    """
    if formats.of(source) is not formats.ONNX:
        raise WrongUsage(f"{source}: a command takes an ONNX model, not an OpenVINO IR")
    step = external_tools.command(words)
    path_conflicts.check_target(source, delivery)
    model = ir.load(source)
    path_conflicts.refuse_for_one(source, model, delivery, checks.data)
    before = chain.counted(model)
    if tolerance:
        checks = replace(checks, depth="full")
    with chain.working_folder(model, in_memory=False) as folder:
        work = chain.ToolChain(source, model, folder, options, checks, progress or (lambda *_: None))
        if tolerance:
            work.accepts = lambda verdict, after: _is_within(tolerance, verdict) and _takes_the_same(model, after)
        if not work.take(step):
            [row] = work.rows
            code = 3 if row.verdict is not None and row.verdict.status == "unverified" else 1
            raise StepRefused(f"{delivery.path}: not written: {step.name}: {row.reason}", row, code)
        with formats.ONNX.stage(work.model, delivery) as staged:
            staged.commit()
            written = [delivery.path, *([staged.data_path] if staged.data_path else [])]
    return before, work.rows[-1], written


def _is_within(tolerance: str, verdict: Verdict) -> bool:
    """Whether outputs differ by no more, in float64 and as a runtime computes them; nothing else may differ."""
    rows = verdict.outputs
    if verdict.decided_by == "float64" and not any(row.fault for row in rows):
        return False  # something inside differs that an output may hide
    roundoff = _ROUNDOFF.get(tolerance)
    for row in rows:
        most = float(tolerance) if roundoff is None else max(row.allowed, _ROUNDINGS * roundoff)
        found = [row.relative, math.nan if row.error_after is None else row.error_after]
        if not (row.same_pattern and all(error <= most for error in found)):
            return False
        if row.fault and row.dtype not in _FLOATS:
            return False
    return bool(rows) and verdict.decided_by in ("float64", "storage precision")


def _takes_the_same(before: ir.Model, after: ir.Model) -> bool:
    """Whether callers feed the same; a verdict that has failed has not come to look at that."""
    taken = [
        {info.name: info.type for info in model.proto.graph.input if not model.graph.values[info.name].tensor_proto}
        for model in (before, after)
    ]
    return taken[0] == taken[1]
