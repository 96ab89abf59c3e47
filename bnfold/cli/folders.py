"""The commands for a folder, a pattern or a URL of models: choose who works, collect, print, say the exit code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bnfold.batch import scheduler
from bnfold.batch.addresses import is_url
from bnfold.batch.disk import OnDisk, Place
from bnfold.batch.places import below, place
from bnfold.batch.worker import Result, Settings, Task
from bnfold.cli import parsed, publish, terminal
from bnfold.pipeline import formats, path_conflicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bnfold.pipeline.job import Checks
    from bnfold.pipeline.order import Options


def run(arguments: dict[str, Any], options: Options, checks: Checks) -> int:
    """Process all models; the exit code is the worst of theirs."""
    parsed.refuse_for_many(arguments)
    source, output = arguments["source"], arguments["output"]
    if arguments["scheduler"]:  # a worker stands in another folder
        source, output = _absolute(source), _absolute(output)
        checks = replace(checks, data=checks.data and checks.data.absolute())
    tasks = scheduler.find(source, output)
    if arguments["report"]:
        kept = [("the recorded inputs", checks.data)] if checks.data else []
        kept += [("the scheduler file", Path(arguments["scheduler"]))] if arguments["scheduler"] else []
        _refuse_report(arguments, [*kept, *_inputs(task.source for task in tasks), *_outputs(tasks, arguments)])
    settings = Settings(
        options,
        checks,
        arguments["external_data"],
        arguments["size_threshold"],
        frozenset(parsed.names(arguments.get("assert_none", ""))),
        arguments["force"],
        _wants_reports(arguments),
    )
    with (
        terminal.progress(enabled=not arguments["quiet"]) as progress,
        _workers(arguments, output, tasks, checks) as pool,
    ):
        results = scheduler.run(tasks, settings, pool, progress)
    _publish(results, arguments)
    return _exit_code(results, require_verified=arguments["require_verified"])


def inspect(arguments: dict[str, Any], options: Options) -> int:
    """Inspect all models; 1 if one of them cannot be processed."""
    if arguments["report"]:
        root, found = below(arguments["source"])
        _refuse_report(arguments, list(_inputs(root.child(path) for path in found)))
    with terminal.progress() as progress:
        results = scheduler.inspect(arguments["source"], options, progress, full_reports=_wants_reports(arguments))
    _publish(results, arguments)
    return _exit_code(results, require_verified=False)


@contextmanager
def _workers(arguments: dict[str, Any], output: str, tasks: Sequence[Task], checks: Checks) -> Iterator[Executor]:
    """Processes of this machine, or a cluster's; all of them have to see the plain paths that are in use."""
    if not arguments["scheduler"]:
        with ProcessPoolExecutor(min(arguments["jobs"] or os.cpu_count() or 1, len(tasks))) as pool:
            yield pool
        return
    from bnfold.batch import cluster

    shared = [tasks[0].source.path] if isinstance(tasks[0].source, OnDisk) else []
    shared += [checks.data] if checks.data else []
    target = place(output)
    if isinstance(target, OnDisk):
        folder = tasks[0].output.path.parent if tasks[0].output == target else target.path
        target.make_folder(folder)
        shared.append(folder)
    with cluster.connected(arguments["scheduler"], shared) as pool:
        yield pool


def _refuse_report(arguments: dict[str, Any], kept: Sequence[path_conflicts.Named]) -> None:
    """The report must be no file of the run. Raises SameFile."""
    path_conflicts.refuse([("the report", Path(arguments["report"]))], kept)


def _inputs(sources: Iterable[Place]) -> Iterator[path_conflicts.Named]:
    return ((f"the input {source}", source.path) for source in sources if isinstance(source, OnDisk))


def _outputs(tasks: Sequence[Task], arguments: dict[str, Any]) -> Iterator[path_conflicts.Named]:
    """The results on disk, and the files that their weights may go to."""
    for path in (task.output.path for task in tasks if isinstance(task.output, OnDisk)):
        yield f"the output {path}", path
        beside = formats.data_file(path, arguments["external_data"])
        if beside is not None:
            yield f"the data file of {path}", beside


def _absolute(name: str) -> str:
    return name if is_url(name) else str(Path(name).absolute())


def _wants_reports(arguments: dict[str, Any]) -> bool:
    return bool(arguments["report"] or arguments["as_json"])


def _publish(results: Sequence[Result], arguments: dict[str, Any]) -> None:
    if _wants_reports(arguments):
        publish.emit(scheduler.to_json(results), arguments["report"], as_json=arguments["as_json"])
    shown = [result for result in results if result.status in ("failed", "unverified") or result.left]
    if not arguments.get("quiet"):
        terminal.batch_summary(results, table=not arguments["as_json"])
    elif shown:
        terminal.batch_summary(shown, table=not arguments["as_json"])


def _exit_code(results: Sequence[Result], *, require_verified: bool) -> int:
    if any(result.status == "failed" for result in results):
        return 1
    if require_verified and not all(result.is_verified for result in results):
        return 3
    return 4 if any(result.left for result in results) else 0
