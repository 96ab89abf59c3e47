"""Many models at once, in worker processes: one failing model does not stop the rest, finished ones are not redone."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bnfold.errors import BadInput, BnfoldError, VerificationFailed, machine_trouble
from bnfold.ir.payloads import THRESHOLD
from bnfold.job import Checks, Delivery, Outcome, process, versions
from bnfold.parsed import MAGIC
from bnfold.pipeline import Options

Status = Literal["verified", "unverified", "unchecked", "inspected", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same for every model of a batch."""

    options: Options
    checks: Checks
    external_data: str = "auto"
    size_threshold: int = THRESHOLD
    force: bool = False

    def fingerprint(self) -> str:
        """Changes when results could: the options, and the versions of what computes them."""
        text = repr((self.options, self.checks, self.external_data, self.size_threshold, versions()))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Task:
    """One model, and where it goes."""

    source: Path
    output: Path


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one model of a batch; ``message`` is the error or the verdict's reason.

    ``output`` is None where nothing was to be written, ``report`` is empty where there is none.
    """

    source: Path
    output: Path | None
    status: Status
    message: str = ""
    report: dict[str, Any] = field(default_factory=dict)


def find(source: str, output: str | os.PathLike[str]) -> list[Task]:
    """The models below a folder or matching a pattern (``**`` crosses folders), each with its place below ``output``.

    Raises:
        BadInput: There are none, or ``output`` is a file.
    """
    output = Path(output)
    root, found = _below(source)
    inside = output.resolve()
    models = [path for path in found if not path.resolve().is_relative_to(inside)]
    if not models:
        raise BadInput(f"{source}: no .onnx files there")
    if output.exists() and not output.is_dir():
        raise BadInput(f"{output}: is a file, but {len(models)} models need a folder")
    return [Task(path, output / path.relative_to(root)) for path in models]


def _below(source: str) -> tuple[Path, list[Path]]:
    """The folder that results are placed relative to, and the model files there."""
    if Path(source).is_dir():
        root = Path(source)
        found = sorted(root.rglob("*.onnx"))
    else:
        fixed = [part for part in Path(source).parts if not any(mark in part for mark in MAGIC)]
        depth = next(index for index, part in enumerate(Path(source).parts) if any(mark in part for mark in MAGIC))
        root = Path(*fixed[:depth]) if depth else Path()
        found = sorted(Path(path) for path in glob.glob(source, recursive=True))  # noqa: PTH207 - keeps the user's spelling
    return root, [path for path in found if path.is_file()]


def inspect(source: str, options: Options, progress: Callable[[str, int, int], None]) -> list[Result]:
    """What would become of every model below a folder or matching a pattern; nothing is written.

    Raises:
        BadInput: There are none.
    """
    _, models = _below(source)
    if not models:
        raise BadInput(f"{source}: no .onnx files there")
    results = []
    for done, path in enumerate(models):
        progress("models", done, len(models))
        try:
            outcome = process(path, None, options, Checks(depth="none"))
            results.append(Result(path, None, "inspected", report=outcome.to_json()))
        except BnfoldError as error:
            results.append(Result(path, None, "failed", str(error)))
    return results


def run(
    tasks: Sequence[Task], settings: Settings, *, jobs: int | None, progress: Callable[[str, int, int], None]
) -> list[Result]:
    """Process every task; the results are in the order of the tasks, whatever finished first."""
    fingerprint = settings.fingerprint()
    done: dict[Task, Result] = {}
    todo = []
    for task in tasks:
        if not settings.force and _is_current(task, fingerprint):
            done[task] = Result(task.source, task.output, "skipped", "up to date")
        else:
            todo.append(task)
    workers = min(jobs or os.cpu_count() or 1, max(len(todo), 1))
    with ProcessPoolExecutor(workers) as pool:
        futures: dict[Future[Result], Task] = {pool.submit(_one, task, settings): task for task in todo}
        for future in as_completed(futures):
            task = futures[future]
            try:
                done[task] = future.result()
            except BrokenProcessPool:
                done[task] = Result(task.source, task.output, "failed", "its worker process died")
            if done[task].status not in ("failed", "skipped"):
                _stamp(task, fingerprint)
            progress("models", len(done), len(tasks))
    return [done[task] for task in tasks]


def _one(task: Task, settings: Settings) -> Result:
    """In a worker. A user's error is a result; a bug is one as well, with its name, so that the others go on."""
    try:
        task.output.parent.mkdir(parents=True, exist_ok=True)
        delivery = Delivery(task.output, settings.external_data, size_threshold=settings.size_threshold)
        outcome = process(task.source, delivery, settings.options, settings.checks)
    except VerificationFailed as failure:
        report = failure.outcome.to_json() if isinstance(failure.outcome, Outcome) else {}
        return Result(task.source, task.output, "failed", str(failure), report)
    except BnfoldError as error:
        return Result(task.source, task.output, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - reported as what it is, a bug in processing this one model
        if trouble := machine_trouble(error):
            return Result(task.source, task.output, "failed", f"cannot be processed: {trouble}")
        return Result(task.source, task.output, "failed", f"internal error, please report it: {error!r}")
    verdict = outcome.verdict
    status: Status = "unchecked" if verdict is None else "verified" if verdict.verified else "unverified"
    return Result(task.source, task.output, status, verdict.reason if verdict else "", outcome.to_json())


def _stamp_path(task: Task) -> Path:
    return task.output.with_name(f".{task.output.name}.bnfold")


def _signature(task: Task) -> dict[str, list[int]]:
    found = {}
    for name, path in (("source", task.source), ("output", task.output)):
        status = path.stat()
        found[name] = [status.st_size, status.st_mtime_ns]
    return found


def _stamp(task: Task, fingerprint: str) -> None:
    """Remember beside the output what it was made from. Where that fails the model is done anew the next time."""
    with suppress(OSError):
        content = json.dumps({"settings": fingerprint, **_signature(task)})
        _stamp_path(task).write_text(content, encoding="utf-8")


def _is_current(task: Task, fingerprint: str) -> bool:
    try:
        held = json.loads(_stamp_path(task).read_text(encoding="utf-8"))
        return bool(held == {"settings": fingerprint, **_signature(task)})
    except (OSError, ValueError):
        return False


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    """The summary report of a batch."""
    counts: dict[str, int] = {}
    for result in results:
        counts[result.status] = counts.get(result.status, 0) + 1
    return {
        "schema": "bnfold-batch/1",
        "counts": counts,
        "models": [
            {
                "input": str(result.source),
                "output": str(result.output) if result.output is not None else None,
                "status": result.status,
                "message": result.message,
                "report": result.report or None,
            }
            for result in results
        ],
    }
