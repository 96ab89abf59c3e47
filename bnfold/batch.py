"""Many models at once, in worker processes: one failing model does not stop the rest, finished ones are not redone.

The processes are those of an executor, this machine's or a cluster's; where models lie and go is `bnfold.places`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from bnfold import places
from bnfold.errors import BadInput, BnfoldError, VerificationFailed
from bnfold.ir.payloads import THRESHOLD
from bnfold.job import Checks, Delivery, Outcome, process, versions
from bnfold.pipeline import Options

if TYPE_CHECKING:
    from pathlib import Path

    from bnfold.places import Place

Status = Literal["verified", "unverified", "unchecked", "inspected", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is the same for every model of a batch.

    Attributes:
        unwanted: Operators of which no node is to be left.
        force: Redo models whose output is up to date.
        full_reports: Whether anybody will read more of a report than a summary shows.
    """

    options: Options
    checks: Checks
    external_data: str = "auto"
    size_threshold: int = THRESHOLD
    unwanted: frozenset[str] = frozenset()
    force: bool = False
    full_reports: bool = True

    def fingerprint(self) -> str:
        """Changes when results could: the options, and the versions of what computes them."""
        unwanted = sorted(self.unwanted)
        text = repr((self.options, self.checks, self.external_data, self.size_threshold, unwanted, versions()))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Task:
    """One model, and where it goes."""

    source: Place
    output: Place


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one model of a batch; ``message`` is the error or the verdict's reason.

    ``output`` is None where nothing was to be written, ``report`` is empty where there is none. ``is_verified`` holds
    for what was skipped, too, if it was when it was made; ``left`` counts the nodes that were not to be there.
    """

    source: str
    output: str | None
    status: Status
    message: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    is_verified: bool = False
    left: int = 0


def find(source: str, output: str) -> list[Task]:
    """The models below a folder or matching a pattern (``**`` crosses folders), each with its place below ``output``.

    One file may go to a file: ``output`` that ends in .onnx is one.

    Raises:
        BadInput: There are none, ``output`` is a file, or a URL cannot be used.
    """
    root, found = places.below(source)
    target = places.place(output)
    models = [path for path in found if not target.holds(root.child(path))]
    if not models:
        raise BadInput(f"{source}: no .onnx files there but in {target}, where results go")
    if output.endswith(".onnx") and str(root.child(models[0])) == str(places.place(source)):
        return [Task(root.child(models[0]), target)]
    if target.is_file():
        raise BadInput(f"{target}: is a file, but {len(models)} models need a folder")
    return [Task(root.child(path), target.child(path)) for path in models]


def inspect(
    source: str, options: Options, progress: Callable[[str, int, int], None], *, full_reports: bool = True
) -> list[Result]:
    """What would become of every model below a folder or matching a pattern; nothing is written.

    Raises:
        BadInput: There are none.
    """
    root, models = places.below(source)
    results = []
    for done, relative in enumerate(models):
        progress("models", done, len(models))
        place = root.child(relative)
        names: dict[str, str] = {}
        try:
            with place.opened() as path:
                names = _names(path, place)
                outcome = process(path, None, options, Checks(depth="none"))
                result = Result(str(place), None, "inspected", report=_report(outcome, full=full_reports))
        except BnfoldError as error:
            result = Result(str(place), None, "failed", str(error))
        results.append(_renamed(result, names))
    return results


def run(
    tasks: Sequence[Task], settings: Settings, pool: Executor, progress: Callable[[str, int, int], None]
) -> list[Result]:
    """Process every task; the results are in the order of the tasks, whatever finished first."""
    futures: dict[Future[Result], Task] = {pool.submit(work, task, settings): task for task in tasks}
    done: dict[Task, Result] = {}
    for future in as_completed(futures):
        task = futures[future]
        try:
            done[task] = future.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - `work` raises nothing: its process is the matter
            done[task] = Result(str(task.source), str(task.output), "failed", _cause(error))
        progress("models", len(done), len(tasks))
    return [done[task] for task in tasks]


def _cause(error: BaseException) -> str:
    if isinstance(error, BrokenProcessPool):
        return "its worker process died"
    if isinstance(error, CancelledError):
        return "the connection to the scheduler was lost"
    return f"its worker failed: {type(error).__name__}: {' '.join(str(error).split())}"


def work(task: Task, settings: Settings) -> Result:
    """In a worker. A user's error is a result; a bug is one as well, with its name, so that the others go on."""
    source, output = str(task.source), str(task.output)
    names: dict[str, str] = {}
    try:
        fingerprint = settings.fingerprint()
        made = None if settings.force else _made(task, fingerprint)
        if made is not None:
            return Result(source, output, "skipped", "up to date", is_verified=made == "verified")
        result = _process(task, settings, names)
        if result.status != "failed" and not result.left:  # what is not as it was to be is looked at again
            _stamp(task, fingerprint, result.status)
    except BnfoldError as error:
        result = Result(source, output, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - reported as what it is, a bug in processing this one model
        result = Result(source, output, "failed", f"internal error, please report it: {error!r}")
    return _renamed(result, names)


def _process(task: Task, settings: Settings, names: dict[str, str]) -> Result:
    """The ordinary job; ``names`` learns where on disk the model lay meanwhile."""
    source, output = str(task.source), str(task.output)
    with task.source.opened() as path:
        names |= _names(path, task.source)
        try:
            with task.output.replaced() as target:
                names |= _names(target, task.output)
                delivery = Delivery(target, settings.external_data, size_threshold=settings.size_threshold)
                outcome = process(path, delivery, settings.options, settings.checks)
                report = _report(outcome, full=settings.full_reports)
                left = _left(outcome, settings.unwanted)
        except VerificationFailed as failure:
            failed = failure.outcome
            report = _report(failed, full=settings.full_reports) if isinstance(failed, Outcome) else {}
            return Result(source, output, "failed", str(failure), report)
    verdict = outcome.verdict
    status: Status = "unchecked" if verdict is None else "verified" if verdict.verified else "unverified"
    message = verdict.reason if verdict else ""
    if left:
        message = f"{len(left)} left that were not to be: {', '.join(left)}"
    return Result(source, output, status, message, report, status == "verified", len(left))


def _left(outcome: Outcome, unwanted: frozenset[str]) -> list[str]:
    if not unwanted:
        return []
    from bnfold import decomposing

    found = decomposing.left(outcome.model, unwanted, outcome.options.policy)
    return [f"{graph}: {label}" if graph else label for label, graph, _ in found]


def _report(outcome: Outcome, *, full: bool) -> dict[str, Any]:
    """All there is to say reads both models again; a summary needs but what became of each BatchNormalization."""
    return outcome.to_json() if full else outcome.report.to_json()


def _names(path: Path, place: Place) -> dict[str, str]:
    """What stands in messages -> what the user knows it by; the file first, then what lies beside it."""
    if str(path) == str(place):
        return {}
    return {str(path): str(place), f"{path.parent}{os.sep}": str(place.sibling(""))}


def _renamed(result: Result, names: Mapping[str, str]) -> Result:
    """With the places that the user knows for where models lay while they were processed."""

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            for path, name in names.items():
                value = value.replace(path, name)
            return value
        if isinstance(value, dict):
            return {key: renamed(item) for key, item in value.items()}
        return [renamed(item) for item in value] if isinstance(value, list | tuple) else value

    return replace(result, message=renamed(result.message), report=renamed(result.report)) if names else result


def _stamp_place(task: Task) -> Place:
    return task.output.sibling(f".{task.output.name}.bnfold")


def _signatures(task: Task) -> dict[str, Any]:
    return {"source": task.source.signature(), "output": task.output.signature()}


def _stamp(task: Task, fingerprint: str, status: Status) -> None:
    """Remember beside the output what it was made from, and how it was found."""
    _stamp_place(task).write(json.dumps({"settings": fingerprint, **_signatures(task), "status": status}))


def _made(task: Task, fingerprint: str) -> str | None:
    """The status of the output when it was made, if that was from this input in this way; else None."""
    try:
        held = json.loads(_stamp_place(task).read())
        signatures = _signatures(task)
        if None in signatures.values() or held != {"settings": fingerprint, **signatures, "status": held["status"]}:
            return None
        return str(held["status"])
    except (BnfoldError, OSError, ValueError, KeyError, TypeError):
        return None


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
                "input": result.source,
                "output": result.output,
                "status": result.status,
                "message": result.message,
                "report": result.report or None,
            }
            for result in results
        ],
    }
