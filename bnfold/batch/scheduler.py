"""Many models at once: one failing model does not stop the rest, finished ones are not redone.

Who works is an executor, the processes of this machine or a cluster; where models lie and go is `batch.places`.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bnfold.batch import places
from bnfold.batch.worker import Counts, Result, Settings, Task, aliases, nodes_left, renamed, report, work
from bnfold.errors import BadInput, BnfoldError
from bnfold.pipeline.job import process

INTERRUPTED = "interrupted: run the same command again to resume"


def find(source: str, output: str) -> list[Task]:
    """The models below a folder or matching a pattern (``**`` crosses folders), each with its place below ``output``.

    One file may go to a file: ``output`` that ends in .onnx is one.

    Raises:
        BadInput: There are none, ``output`` is or looks like a file, or is the folder that they are in, or a URL cannot
            be used.
    """
    root, found = places.below(source)
    target = places.place(output)
    if target.holds(root) and root.holds(target):
        raise BadInput(f"{target}: is the folder of the models; choose another one for the results")
    models = [path for path in found if not target.holds(root.child(path))]
    if not models:
        raise BadInput(f"{source}: no .onnx files there but in {target}, where results go")
    if output.endswith(".onnx") and str(root.child(models[0])) == str(places.place(source)):
        return [Task(root.child(models[0]), target)]
    if output.lower().endswith(".onnx") and not Path(output).is_dir():
        raise BadInput(f"{target}: {source} is many models, so OUT is a folder: leave out .onnx")
    if target.is_file():
        raise BadInput(f"{target}: is a file, but {len(models)} models need a folder")
    return [Task(root.child(path), target.child(path)) for path in models]


def inspect(source: str, settings: Settings, progress: Callable[[str, int, int], None]) -> list[Result]:
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
                names = aliases(path, place)
                outcome = process(path, None, settings.options, settings.checks)
                document = report(outcome, full=settings.delivery.explained)
                left = len(nodes_left(outcome, settings.unwanted))
                result = Result(str(place), None, "inspected", report=document, left=left, counts=Counts.of(document))
        except BnfoldError as error:
            result = Result(str(place), None, "failed", str(error))
        results.append(renamed(result, names))
    return results


def run(
    tasks: Sequence[Task], settings: Settings, pool: Executor, progress: Callable[[str, int, int], None]
) -> list[Result]:
    """Process every task; the results are in the order of the tasks, whatever finished first.

    When the user interrupts, what is not finished counts as failed.
    """
    futures: dict[Future[Result], Task] = {pool.submit(work, task, settings): task for task in tasks}
    done: dict[Task, Result] = {}
    try:
        for future in as_completed(futures):
            task = futures[future]
            try:
                done[task] = future.result()
            except (Exception, CancelledError) as error:  # noqa: BLE001 - `work` raises nothing: its process is it
                done[task] = Result(str(task.source), str(task.output), "failed", _cause(error))
            progress("models", len(done), len(tasks))
    except KeyboardInterrupt:
        for child in multiprocessing.active_children():  # what they have written so far is no file of the user's yet
            child.terminate()
        for task in tasks:
            done.setdefault(task, Result(str(task.source), str(task.output), "failed", INTERRUPTED))
    return [done[task] for task in tasks]


def _cause(error: BaseException) -> str:
    if isinstance(error, BrokenProcessPool):
        return "its worker process died"
    if isinstance(error, CancelledError):
        return "the connection to the scheduler was lost"
    return f"not finished: {type(error).__name__}: {' '.join(str(error).split())}"


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    """The summary report of a batch."""
    return {
        "schema": "bnfold-batch/1",
        "counts": dict(Counter(result.status for result in results)),
        "models": [
            {
                "input": result.source,
                "output": result.output,
                "status": result.status,
                "message": result.message,
                "counts": asdict(result.counts) if result.counts is not None else None,
                "report": result.report or None,
            }
            for result in results
        ],
    }
