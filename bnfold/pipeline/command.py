"""A command as a step between two files: run on a copy, compared, and only then put in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bnfold import ir
from bnfold.errors import StepRefused, WrongUsage
from bnfold.pipeline import chain, external_tools, formats, path_conflicts
from bnfold.report.totals import Totals
from bnfold.settings import Options, OutputOptions, VerifyOptions
from bnfold.settings.progress import Progress
from bnfold.verification import Verdict


def run_command(
    source: Path,
    delivery: OutputOptions,
    words: Sequence[str],
    options: Options,
    checks: VerifyOptions,
    progress: Progress | None = None,
) -> tuple[Totals, chain.StepRow, list[Path]]:
    """Run the command ``words`` on a copy of ``source``, and put its output in place if that is equivalent.

    Args:
        source: An ONNX file.
        delivery: Where the result goes.
        words: The command, with ``{input}`` and ``{output}`` for the files that it reads and writes.
        options: ``step_seconds`` is its time limit.
        checks: How to verify.
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
    with chain.working_folder(model, in_memory=False) as folder:
        work = chain.ToolChain(source, model, folder, options, checks, progress or (lambda *_: None))
        if not work.take(step):
            [row] = work.rows
            row = _advised(row, source, folder / "0" / external_tools.OUTPUT, options, checks, work.progress)
            code = 3 if row.verdict is not None and row.verdict.status == "unverified" else 1
            raise StepRefused(f"{delivery.path}: not written: {step.name}: {row.reason}", row, code)
        with formats.ONNX.stage(work.model, delivery) as staged:
            staged.commit()
            written = [delivery.path, *([staged.data_path] if staged.data_path else [])]
    return before, work.rows[-1], written


def _advised(
    row: chain.StepRow, before: Path, after: Path, options: Options, checks: VerifyOptions, progress: Progress
) -> chain.StepRow:
    """Return the row with the next step in its verdict, if there is one."""
    if row.verdict is None:
        return row

    def compared(checks: VerifyOptions) -> Verdict:
        return formats.ONNX.verify(before, after, checks, options=options)

    return replace(row, verdict=formats.advised(formats.ONNX, before, after, row.verdict, checks, compared, progress))
