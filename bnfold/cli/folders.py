"""The commands for a folder, a pattern or a URL of models: choose an executor, collect, print, set the exit code."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bnfold.batch import pairs, scheduler
from bnfold.batch.addresses import STREAM, is_url
from bnfold.batch.disk import OnDisk
from bnfold.batch.locations import Place, place
from bnfold.batch.worker import FileResult, Settings, process_one
from bnfold.cli import publish, terminal
from bnfold.cli.invocation import Invocation
from bnfold.cli.progress import progress_bar
from bnfold.cli.remedy import remedy
from bnfold.errors import EXIT_INTERRUPTED
from bnfold.operators.plugins import absolute, is_file
from bnfold.pipeline import external_tools, formats, path_conflicts

if TYPE_CHECKING:
    from collections.abc import Sequence


_STREAMS = "'-' is one model; where there are several, name the files, folders or URLs that they lie in and go to"
_MOST_UNSEEN = 100_000
"""Objects to be made before garbage is looked for: what is left of one model goes before there are many."""


def process(args: Invocation) -> int:
    """Process all models; the exit code is the worst of theirs."""
    started = time.monotonic()
    gc.set_threshold(_MOST_UNSEEN)
    _refuse(args)
    if args.run.scheduler:  # a worker stands in another folder
        data = args.checks.data
        checks = replace(args.checks, data=data and data.absolute())
        sources, output = tuple(map(_absolute, args.sources)), args.output and _absolute(args.output)
        run = replace(args.run, plugin=tuple(map(absolute, args.run.plugin)))
        args = args._replace(sources=sources, output=output, checks=checks, run=run)
    planned = scheduler.plan_tasks(args.sources, args.output, in_place=args.delivery.in_place)
    given = args.run
    settings = Settings(args.options, args.checks, args.delivery, given.assert_none, given.force, given.plugin)
    return _all(_kept(planned.tasks, args), partial(process_one, settings=settings), planned, args, started)


def run_tool(args: Invocation) -> int:
    """Run another program on all models."""
    started = time.monotonic()
    gc.set_threshold(_MOST_UNSEEN)
    if STREAM in (*args.sources, args.output):
        raise click.UsageError(_STREAMS)
    is_in_place = args.delivery.in_place and Path(args.source).resolve() == Path(args.output).resolve()
    planned = scheduler.plan_tasks(args.sources, args.output, in_place=is_in_place)
    tasks = _kept(planned.tasks, args)
    external_tools.command(args.run.command)
    program = pairs.ToolRun(args.run.command, args.options, args.checks, args.delivery)
    return _all(tasks, partial(pairs.run_one, program=program), planned, args, started)


def verify_pairs(args: Invocation) -> int:
    """Compare all models of two folders, pair by pair."""
    started = time.monotonic()
    gc.set_threshold(_MOST_UNSEEN)
    publish.require(args.run.report)
    paired = pairs.pair_up(args.source, args.output)
    kept = _kept(paired.pairs, args)
    found = scheduler.Planned([*paired.pairs], paired.alone, paired.left_out)
    return _all(kept, partial(pairs.verify_pair, checks=args.checks), found, args, started)


def _all(
    tasks: Sequence[scheduler.J],
    work: Callable[[scheduler.J], FileResult],
    found: scheduler.Planned[scheduler.J],
    args: Invocation,
    started: float,
) -> int:
    """Do the work on the tasks that are left of those that were found."""
    unreadable = _unreadable(found, args)
    if not tasks and not unreadable:
        return _nothing(len(found.tasks), args)
    if args.run.report:
        kept = [("the recorded inputs", args.checks.data)] if args.checks.data else []
        kept += [("the scheduler file", Path(args.run.scheduler))] if args.run.scheduler else []
        kept += [*_inputs(task.source for task in tasks), *_outputs(tasks, args)]
        path_conflicts.refuse([("the report", path) for path in args.reports], kept)
    results = []
    if tasks:
        with progress_bar(enabled=not args.run.quiet) as progress, _workers(args, tasks) as pool:
            results = scheduler.process_all(tasks, work, pool, progress)
    left_out = scheduler.LeftOut(found.left_out, len(found.tasks) - len(tasks))
    return _finish([*unreadable, *results], args, left_out, started)


def inspect(args: Invocation) -> int:
    """Inspect all models; 1 if one of them cannot be processed. One behind a URL shows each BatchNormalization, too."""
    started = time.monotonic()
    gc.set_threshold(_MOST_UNSEEN)
    if STREAM in args.sources:
        raise click.UsageError(_STREAMS)
    found = scheduler.find_models(args.sources)
    kept = [place for place in found.models if not args.leaves_out(str(place))]
    unreadable = _unreadable(found, args)
    if not kept and not unreadable and not args.lists_findings and not args.delivery.explained:
        return _nothing(len(found.models), args)
    left_out = scheduler.LeftOut(found.left_out, len(found.models) - len(kept))
    is_one = len(args.sources) == 1 and [*map(str, kept)] == [str(place(args.source))]
    if args.run.report:
        path_conflicts.refuse([("the report", path) for path in args.reports], _inputs(kept))
    delivery = replace(args.delivery, explained=args.delivery.explained or is_one)
    with progress_bar(enabled=not args.run.quiet) as progress:
        settings = Settings(args.options, args.checks, delivery, args.run.assert_none)
        results = scheduler.inspect(kept, settings, progress)
    rows = results[0].report.get("batchnorms") if is_one and results[0].report else None
    if rows and not (args.run.as_json or args.run.quiet or args.lists_findings):
        from bnfold.cli import tables

        tables.batchnorms(rows)
    return _finish([*unreadable, *results], args, left_out, started)


def _kept(tasks: Sequence[scheduler.J], args: Invocation) -> list[scheduler.J]:
    """Return the tasks whose models are not excluded; one that is named itself never is."""
    return [task for task in tasks if str(task.source) in args.sources or not args.leaves_out(str(task.source))]


def _unreadable(found: scheduler.Found | scheduler.Planned[Any], args: Invocation) -> list[FileResult]:
    """Return what could not be looked at, and is not excluded."""
    return [result for result in found.unreadable if not args.leaves_out(result.source)]


def _nothing(count: int, args: Invocation) -> int:
    """Say that every model is excluded, which is no error."""
    if not args.run.quiet:
        what = "the model is" if count == 1 else f"all {count} models are"
        terminal.say(f"nothing to do: {what} excluded by --exclude or pyproject.toml")
    return 0


def _refuse(args: Invocation) -> None:
    """Raise UsageError for what makes no sense with many models."""
    many, given, written = "IN is many models", args.run, args.delivery
    verbose = f"--verbose is for one file; {many}: --report FILE has every BatchNormalization"
    jobs = "--jobs is for this machine; with --scheduler the cluster's workers say how many"
    names = "behind a URL each model has its own data file: --external-data auto, keep or none"
    for is_wrong, text in (
        (STREAM in (*args.sources, args.output), _STREAMS),
        (written.keep_failed, f"--keep-failed is for one file; {many}"),
        (given.verbose, verbose),
        (given.scheduler and given.jobs, jobs),
        (is_url(args.output) and written.external_data not in ("auto", "keep", "none"), names),
    ):
        if is_wrong:
            raise click.UsageError(text)


@contextmanager
def _workers(args: Invocation, tasks: Sequence[scheduler.Job]) -> Iterator[Executor]:
    """Return processes of this machine, or a cluster's; all of them have to see the plain paths that are in use."""
    if not args.run.scheduler:
        with scheduler.processes(args.run.jobs or os.cpu_count() or 1, len(tasks)) as pool:
            yield pool
        return
    from bnfold.batch import cluster

    shared = [tasks[0].source.path] if isinstance(tasks[0].source, OnDisk) else []
    shared += [args.checks.data] if args.checks.data else []
    shared += [Path(name) for name in args.run.plugin if is_file(name)]
    target = place(args.output or args.source)
    if isinstance(target, OnDisk) and args.output:
        folder = tasks[0].output.path.parent if tasks[0].output == target else target.path
        target.make_folder(folder)
        shared.append(folder)
    with cluster.connected(args.run.scheduler, shared) as pool:
        yield pool


def _inputs(sources: Iterable[Place]) -> Iterator[path_conflicts.Named]:
    return ((f"the input {source}", source.path) for source in sources if isinstance(source, OnDisk))


def _outputs(tasks: Sequence[scheduler.Job], args: Invocation) -> Iterator[path_conflicts.Named]:
    """Yield the results on disk, and the files that their weights may go to."""
    for path in (task.output.path for task in tasks if isinstance(task.output, OnDisk)):
        yield f"the output {path}", path
        beside = formats.of(path).data_file(path, args.delivery.external_data)
        if beside is not None:
            yield f"the data file of {path}", beside


def _absolute(name: str) -> str:
    return name if is_url(name) else str(Path(name).absolute())


def _finish(results: Sequence[FileResult], args: Invocation, left_out: scheduler.LeftOut, started: float) -> int:
    """Print and write what was found, and return the exit code."""
    given, refuses = args.run, args.delivery.require_verified or bool(args.run.command)
    if args.delivery.explained:
        publish.emit(scheduler.to_json(results, left_out), given.report, as_json=given.as_json)
    if args.lists_findings:
        publish.findings(results, given.output_format)
    else:
        shows_table = not (given.as_json or given.quiet)
        shows_why = "BatchNormalization" in given.assert_none  # `bnfold inspect` does
        offenders = [
            (result.source, result.left, shows_why and bool(result.counts and result.counts.reasons))
            for result in results
            if result.left and shows_table
        ]
        terminal.batch_summary(
            results,
            table=shows_table,
            advises=not given.quiet,
            remedy=remedy(offenders, args),
            seconds=time.monotonic() - started,
            is_refused=refuses,
        )
    terminal.left_out(left_out, quiet=given.quiet)
    if not given.quiet:
        terminal.wrote_reports(given.report)
    if any(result.message == scheduler.INTERRUPTED for result in results):
        return EXIT_INTERRUPTED
    if any(result.status == "failed" for result in results):
        return 1
    if refuses and not all(result.is_verified for result in results):
        return 3
    return 4 if any(result.left for result in results) else 0
