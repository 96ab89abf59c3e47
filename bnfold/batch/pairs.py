"""Two folders of models, compared pair by pair; and another program, run on each model of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bnfold.batch import locations
from bnfold.batch.locations import Place
from bnfold.batch.scheduler import found_faults
from bnfold.batch.worker import Counts, FileResult, FileStatus, Task, aliases, describe, next_step, renamed, timed
from bnfold.errors import StepRefused, WrongUsage
from bnfold.pipeline import command, formats
from bnfold.pipeline.chain import StepRow
from bnfold.report import totals
from bnfold.settings import Options, OutputOptions, VerifyOptions


@dataclass(frozen=True, slots=True)
class ModelsOfOneName:
    """Two models of one name."""

    source: Place
    output: Place


class Paired(NamedTuple):
    """The pairs, a failed result for whatever has no partner or cannot be looked at, and the number left out."""

    pairs: list[ModelsOfOneName]
    alone: list[FileResult]
    left_out: int


def pair_up(before: str, after: str) -> Paired:
    """Find the models that ``before`` names, each with the model of its name in the folder ``after``.

    Names are paths below the folders. What only ``after`` has counts if ``before`` is a folder.

    Raises:
        BadInput: A source names no models.
        WrongUsage: ``after`` is a file.
    """
    target = locations.place(after)
    if target.is_file():
        raise WrongUsage(f"{after}: is a file, and {before} is compared with a folder; name a folder")
    old_root, old = locations.below(before)
    new_root, new = locations.below(after)
    olds = _children(old_root, old.models, target if not target.holds(old_root) else None)
    news = _children(new_root, new.models, old_root if not old_root.holds(new_root) else None)
    alone = [_alone(place, new_root.child(path)) for path, place in olds.items() if path not in news]
    if str(old_root) == str(locations.place(before)):
        alone += [_alone(place, old_root.child(path)) for path, place in news.items() if path not in olds]
    faults = found_faults([(old_root, old), (new_root, new)])
    pairs = [ModelsOfOneName(place, news[path]) for path, place in olds.items() if path in news]
    named = {result.source for result in faults}
    alone = [result for result in alone if result.output not in named]
    return Paired(pairs, [*faults, *alone], old.left_out + new.left_out)


def _children(root: Place, models: Sequence[str], other: Place | None) -> dict[str, Place]:
    """Return the models below ``root`` by their paths there, without those that ``other`` holds, a folder inside it."""
    places = {path: root.child(path) for path in models}
    return {path: place for path, place in places.items() if other is None or not other.holds(place)}


def _alone(place: Place, missing: Place) -> FileResult:
    message = f"has no partner: there is no {missing}"
    return FileResult(str(place), str(missing), "failed", message)


def verify_pair(pair: ModelsOfOneName, checks: VerifyOptions) -> FileResult:
    """Compare two models, in a worker. Errors are results, so that the others go on."""
    return timed(_verified, pair, checks)


def _verified(pair: ModelsOfOneName, checks: VerifyOptions) -> FileResult:
    source, output = str(pair.source), str(pair.output)
    names: dict[str, str] = {}
    try:
        with pair.source.opened() as before, pair.output.opened() as after:
            names = {**aliases(before, pair.source), **aliases(after, pair.output)}
            (old, old_size), (new, new_size) = _facts(before), _facts(after)
            verdict = formats.verify_two(before, after, checks)
            message = "" if verdict.verified else "; ".join([verdict.reason, *next_step(verdict)])
            result = FileResult(
                *(source, output, verdict.status, message),
                is_verified=verdict.verified,
                counts=_counts(old, new),
                bytes_before=old_size,
                bytes_after=new_size,
                verdict=verdict,
            )
    except Exception as error:  # noqa: BLE001 - the others go on
        result = FileResult(source, output, "failed", describe(error))
    return renamed(result, names)


def _facts(path: Path) -> tuple[totals.Totals, int]:
    """Return what a model consists of, and the bytes of its files."""
    model = formats.of(path).load(path)
    files = dict.fromkeys([path, *formats.of(path).data_files(model)])
    return totals.count(model), sum(file.stat().st_size for file in files)


def _counts(before: totals.Totals, after: totals.Totals) -> Counts:
    nodes, opset = (before.nodes, after.nodes), (before.opset, after.opset)
    return Counts(before.batchnorms, after.batchnorms, {}, nodes=nodes, opset=opset)


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What is the same for every model that another program is run on."""

    words: Sequence[str]
    options: Options
    checks: VerifyOptions
    delivery: OutputOptions


def run_one(task: Task, program: ToolRun) -> FileResult:
    """Run the program on a model, in a worker, and keep its output if it is equivalent."""
    return timed(_run, task, program)


def _run(task: Task, program: ToolRun) -> FileResult:
    source, output = str(task.source), str(task.output)
    names: dict[str, str] = {}
    try:
        with task.source.opened() as path, task.output.replaced() as target:
            names = {**aliases(path, task.source), **aliases(target, task.output)}
            (_, size), delivery = _facts(path), replace(program.delivery, path=target)
            before, row, written = command.run_command(path, delivery, program.words, program.options, program.checks)
            result = FileResult(
                *(source, output, "unchecked" if row.verdict is None else "verified"),
                is_verified=row.verdict is not None,
                counts=_counts(before, row.totals or before),
                bytes_before=size,
                bytes_after=sum(file.stat().st_size for file in written),
                verdict=row.verdict,
            )
    except StepRefused as refusal:
        verdict = refusal.step.verdict if isinstance(refusal.step, StepRow) else None
        status: FileStatus = "unverified" if verdict is not None and verdict.status == "unverified" else "failed"
        result = FileResult(source, None, status, "; ".join([str(refusal), *next_step(verdict)]), verdict=verdict)
    except Exception as error:  # noqa: BLE001 - the others go on
        result = FileResult(source, output, "failed", describe(error))
    return renamed(result, names)
