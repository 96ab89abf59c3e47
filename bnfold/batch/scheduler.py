"""Run many models at once. A model that fails does not stop the others, and finished ones are not redone.

An executor does the work: the processes of this machine, or a cluster. `batch.locations` reads and writes the models.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from bnfold.batch import locations, stopping, up_to_date
from bnfold.batch.disk import OnDisk
from bnfold.batch.locations import Place
from bnfold.batch.walk import Walked
from bnfold.batch.worker import (
    Counts,
    FileResult,
    Settings,
    Task,
    aliases,
    describe,
    remaining,
    renamed,
    report,
    timed,
)
from bnfold.errors import BadInput, SameFile, WrongUsage
from bnfold.operators import workers
from bnfold.pipeline.job import process
from bnfold.pipeline.outcome import open_in_runtime
from bnfold.settings.progress import MODELS, Progress

INTERRUPTED = "interrupted: run the same command again to resume"


class Job(Protocol):
    """One model of a folder, and what is done with it; it travels to the process that does it."""

    @property
    def source(self) -> Place:
        """The model."""

    @property
    def output(self) -> Place:
        """Where the result goes, or the model that it is compared with."""


J = TypeVar("J", bound=Job)


class LeftOut(NamedTuple):
    """The numbers of models that were not looked at: in hidden folders or installed packages, or by --exclude."""

    foreign: int
    excluded: int


class Found(NamedTuple):
    """The models that sources name, what could not be looked at, and the number of models left out (`walk.Walked`)."""

    models: list[Place]
    unreadable: list[FileResult]
    left_out: int


class Planned(NamedTuple, Generic[J]):
    """As `Found`, with the place of each model's result, or of the model that it is compared with."""

    tasks: list[J]
    unreadable: list[FileResult]
    left_out: int


def find_models(sources: Sequence[str]) -> Found:
    """Find the models below folders, matching patterns (``**`` crosses folders), or named themselves.

    Raises:
        BadInput: A source names none, or a URL cannot be used.
    """
    located = [locations.below(source) for source in sources]
    models = dict.fromkeys(root.child(path) for root, walked in located for path in walked.models)
    return Found(list(models), found_faults(located), sum(walked.left_out for _, walked in located))


def found_faults(located: Sequence[tuple[Place, Walked]]) -> list[FileResult]:
    """Return a failed result for each file or folder that could not be looked at."""
    faults = {root.child(path): error for root, walked in located for path, error in walked.unreadable}
    return [FileResult(str(place), None, "failed", error) for place, error in faults.items()]


def plan_tasks(sources: Sequence[str], output: str, *, in_place: bool = False) -> Planned[Task]:
    """Find the models that sources name, each with the place of its result below ``output``, or ``in_place``.

    One file may go to a file: ``output`` that ends in .onnx is one.

    Raises:
        BadInput: There are no models, or a URL cannot be used.
        WrongUsage: ``output`` is or looks like a file, or is the folder that the models are in, or two results would
            have one name.
    """
    located = [locations.below(source) for source in sources]
    left_out = sum(walked.left_out for _, walked in located)
    if in_place:
        made = {root.child(path): up_to_date.memory(root, path) for root, found in located for path in found.models}
        return Planned([Task(model, model, memory) for model, memory in made.items()], found_faults(located), left_out)
    target = locations.place(output)
    tasks: dict[Place, Task] = {}
    for source, (root, walked) in zip(sources, located, strict=True):
        is_one = [str(root.child(model)) for model in walked.models] == [str(locations.place(source))]
        if not is_one and target.holds(root) and root.holds(target):
            raise WrongUsage(f"{target}: is the folder of the models; choose another one for the results")
        if is_one and len(sources) == 1 and output.endswith(".onnx") and not Path(output).is_dir():
            memory = up_to_date.memory(target.sibling(""), target.name)
            _refuse_same(task := Task(root.child(walked.models[0]), target, memory))
            return Planned([task], [], left_out)
        for task in _tasks_below(root, walked.models, target, tasks):
            tasks[task.output] = task
    unreadable = found_faults([(root, _outside(target, root, walked)) for root, walked in located])
    if not tasks and not unreadable:
        raise BadInput(f"{sources[0]}: no .onnx files there but in {target}, where results go")
    what = f"{sources[0]} is a folder" if Path(sources[0]).is_dir() else f"there are {len(tasks)} models"
    if output.lower().endswith(".onnx") and not Path(output).is_dir():
        raise WrongUsage(f"{what}, so OUT must be a folder too, not {target}")
    if target.is_file():
        raise WrongUsage(f"{target}: is a file, but {len(tasks)} models need a folder")
    return Planned(list(tasks.values()), unreadable, left_out)


def _outside(target: Place, root: Place, walked: Walked) -> Walked:
    """Leave out what cannot be looked at where the results go."""
    return walked._replace(unreadable=[each for each in walked.unreadable if not target.holds(root.child(each.path))])


def _refuse_same(task: Task) -> None:
    """Raise SameFile if a model would be written over itself; on disk, where names may be links, the job does it."""
    if task.source == task.output and not isinstance(task.source, OnDisk):
        raise SameFile(f"{task.output}: OUT is the input file. Choose another name, or add --in-place.")


def _tasks_below(root: Place, models: Sequence[str], target: Place, known: Mapping[Place, Task]) -> Iterator[Task]:
    for path in models:
        model = root.child(path)
        if target.holds(model):
            continue
        task = Task(model, target.child(path), up_to_date.memory(target, path))
        if task.output in known and known[task.output].source != model:
            both = f"{known[task.output].source} and {model}"
            raise WrongUsage(f"{both} would both be written to {task.output}; give the folder that holds both")
        yield task


def inspect(models: Sequence[Place], settings: Settings, progress: Progress) -> list[FileResult]:
    """Inspect every model; nothing is written."""
    results = []
    for done, place in enumerate(models):
        progress(MODELS, done, len(models))
        results.append(timed(_inspected, place, settings))
    progress(MODELS, len(models), len(models))
    return results


def _inspected(place: Place, settings: Settings) -> FileResult:
    names: dict[str, str] = {}
    try:
        with place.opened() as path:
            names = aliases(path, place)
            outcome = process(path, None, settings.options, settings.checks)
            open_in_runtime(outcome)
            document = report(outcome, full=settings.delivery.explained)
            left, why = remaining(outcome, settings.unwanted)
            message = "; ".join(filter(None, (why, outcome.report.loading)))
            nodes = outcome.left(settings.unwanted) if left else []
            if not settings.options.fold:  # nothing was tried, so there is no reason
                nodes = [(label, graph, "") for label, graph, _ in nodes]
            result = FileResult(
                *(str(place), None, "inspected", message, document),
                left=left,
                counts=Counts.of(document),
                nodes=nodes,
                unloadable=outcome.report.unloadable,
                bytes_before=outcome.report.size_before,
            )
    except Exception as error:  # noqa: BLE001 - the others go on
        result = FileResult(str(place), None, "failed", describe(error))
    return renamed(result, names)


@contextmanager
def processes(jobs: int, tasks: int) -> Iterator[Executor]:
    """Return processes of this machine, no more than there are tasks.

    Raises BadSetting if they cannot know an operator that is registered here.
    """
    with ProcessPoolExecutor(
        min(jobs, tasks), initializer=_prepare, initargs=(workers.registrations_for_workers(),)
    ) as pool:
        yield pool


def _prepare(given: workers.Registrations) -> None:
    """Make a worker ready: it ends tidily, and knows the operators that are registered here."""
    stopping.prepare()
    workers.register_in_worker(given)


def process_all(
    tasks: Sequence[J],
    work: Callable[[J], FileResult],
    pool: Executor | None,
    progress: Progress,
) -> list[FileResult]:
    """Do the ``work`` on every task; the results are in the order of the tasks, whatever finished first.

    Without a pool one follows the other in this process. When the user interrupts, what is not finished counts as
    failed.
    """
    done: dict[J, FileResult] = {}
    try:
        started = _started(tasks, work, pool)
        progress(MODELS, 0, len(tasks))  # processes are forked by now: a display may have a thread
        for task, finished in started:
            try:
                done[task] = finished()
            except (Exception, CancelledError) as error:  # noqa: BLE001 - `work` raises nothing: its process is it
                done[task] = FileResult(str(task.source), str(task.output), "failed", _cause(error))
            progress(MODELS, len(done), len(tasks))
    except KeyboardInterrupt:
        if pool is None:  # for a caller from Python it is an exception
            raise
        for child in multiprocessing.active_children():  # what they have written so far is no file of the user's yet
            child.terminate()
        for task in tasks:
            done.setdefault(task, FileResult(str(task.source), str(task.output), "failed", INTERRUPTED))
    return [done[task] for task in tasks]


def _started(
    tasks: Sequence[J], work: Callable[[J], FileResult], pool: Executor | None
) -> Iterator[tuple[J, Callable[[], FileResult]]]:
    """Return each task with a function that returns its result, or raises; from a pool what ends first comes first."""
    if pool is None:
        return ((task, partial(work, task)) for task in tasks)
    futures: dict[Future[FileResult], J] = {pool.submit(work, task): task for task in tasks}
    return ((futures[future], future.result) for future in as_completed(futures))


def _cause(error: BaseException) -> str:
    if isinstance(error, BrokenProcessPool):
        return "its worker process died"
    if isinstance(error, CancelledError):
        return "the connection to the scheduler was lost"
    return f"not finished: {type(error).__name__}: {' '.join(str(error).split())}"


def to_json(results: Sequence[FileResult], left_out: LeftOut) -> dict[str, Any]:
    """Return the summary report of a batch."""
    return {
        "schema": "bnfold-batch/1",
        "counts": dict(Counter(result.status for result in results)),
        "left_out": left_out._asdict(),
        "models": [result.to_json() for result in results],
    }
