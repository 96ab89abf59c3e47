"""Run tasks in bnfold as it is, or with an alteration, and have the results judged."""

from __future__ import annotations

import ast
import hashlib
import importlib
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from _environment import ROOT

from _referee import altering, serving
from _referee.judging import judge
from _referee.tasks import COMMANDS, Task

Runtime = Literal["onnxruntime", "none"]
RUNTIMES: tuple[Runtime, ...] = ("onnxruntime", "none")
SECONDS = 20.0
"""Of processor time, for all of an alteration; one that makes a loop endless is late."""
VERIFY_SECONDS = 30

Place = tuple[str, int]
"""A file of the checkout and a line."""


class Rewritten(NamedTuple):
    """What a task ended in: ``written``, ``refused`` or ``crash``; the digest of the files, or the message."""

    how: str
    text: str


HEAVY = 0.5
"""Seconds of processor time; a task that takes more is run only where no other one reaches the line."""


class Baseline(NamedTuple):
    """The results without an alteration, the folder that has them, and the tasks that reach a line, and a file.

    ``seconds`` is the processor time of each task, measured.
    """

    results: Sequence[Rewritten]
    seconds: Sequence[float]
    folder: Path
    lines: Mapping[Place, Sequence[int]]
    files: Mapping[str, Sequence[int]]

    def file(self, number: int) -> Path | None:
        """Return the result of a task, if it has one."""
        return self.folder / str(number) / "out.onnx" if self.results[number].how == "written" else None


class Finding(NamedTuple):
    """What one task with an alteration ended in, with one runtime."""

    kind: str
    number: int
    runtime: Runtime
    reason: str


WORST_FIRST = (
    "WRONG & VERIFIED", "LOADS NOWHERE & VERIFIED", "right & failed", "crash", "late", "wrong & unverified",
    "loads nowhere & unverified", "wrong & failed", "loads nowhere & failed", "refused", "unclear", "legal",
    "no effect",
)  # fmt: skip
LISTED = WORST_FIRST[:3]


def baseline(tasks: Sequence[Task], folder: Path) -> Baseline:
    """Run every task as it is, and record which lines each of them reaches."""
    folder.mkdir(exist_ok=True)
    results, seconds, reached = serving.in_child(lambda _: _recorded(tasks, folder), folder, 3600.0)
    lines: dict[Place, list[int]] = {}
    files: dict[str, list[int]] = {}
    for path, places in reached.items():
        file = Path(path).relative_to(ROOT).as_posix()
        numbers = {line: sorted(map(int, filter(None, names))) for line, names in places.items()}
        lines |= {(file, line): reaching for line, reaching in numbers.items()}
        files[file] = sorted({number for reaching in numbers.values() for number in reaching})
    return Baseline(results, seconds, folder, lines, files)


Recorded = tuple[list[Rewritten], list[float], dict[str, dict[int, list[str]]]]


def _recorded(tasks: Sequence[Task], folder: Path) -> Recorded:
    """Return the results, their seconds, and by file and line the numbers of the tasks that reach it."""
    import coverage

    serving.serve({}, "bnfold")
    importlib.import_module("bnfold.api")
    measured = coverage.Coverage(data_file=None, config_file=False, include=[f"{ROOT}/bnfold/*"])
    measured.start()
    results, seconds = [], []
    for number, task in enumerate(tasks):
        measured.switch_context(str(number))
        started = time.process_time()
        results.append(_rewrite(task, folder / str(number)))
        seconds.append(time.process_time() - started)
    measured.stop()
    data = measured.get_data()
    return results, seconds, {file: data.contexts_by_lineno(file) for file in data.measured_files()}


def _rewrite(task: Task, folder: Path, runtime: Runtime | None = None) -> Rewritten:
    """Run the command, verified only with a runtime; the text is then the verdict's."""
    import bnfold
    from bnfold.errors import VerificationFailed

    folder.mkdir(parents=True, exist_ok=True)
    name, options = COMMANDS[task.command]
    checks = bnfold.VerifyOptions(depth="none")
    if runtime:
        checks = bnfold.VerifyOptions(runtime=runtime, verify_seconds=VERIFY_SECONDS)
    try:
        outcome = getattr(bnfold, name)(task.file, folder / "out.onnx", verify=checks, **options)
    except VerificationFailed as failure:
        return Rewritten("failed", str(failure))
    except bnfold.BnfoldError as error:
        return Rewritten("refused", f"{type(error).__name__}: {error}".replace(str(folder), ""))
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is a result
        return Rewritten("crash", f"{type(crash).__name__}: {crash}")
    if not runtime:
        return Rewritten("written", _digest(folder))
    if outcome.report.wrong_rewrites:
        return Rewritten("failed", "a simplification was left out: it differs")
    return Rewritten(outcome.verdict.status, outcome.verdict.summary)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Trial(NamedTuple):
    """How many tasks are run with an alteration, and of how many results with an effect each is verified."""

    tasks: int = 20
    verified: int = 3


def preload(right: Baseline) -> None:
    """Import what the tasks needed, for the processes that `findings` forks."""
    serving.preload("bnfold", sorted(altering.module(file) for file in right.files))


def findings(
    trees: Mapping[str, ast.Module],
    numbers: Sequence[int],
    tasks: Sequence[Task],
    right: Baseline,
    folder: Path,
    trial: Trial,
) -> list[Finding]:
    """Return what the tasks of these numbers end in with altered modules; an empty list if nothing changes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    numbers = ([number for number in numbers if right.seconds[number] < HEAVY] or numbers)[: trial.tasks]
    try:
        made = serving.in_child(lambda place: _with(trees, numbers, tasks, right, place, trial), folder, SECONDS)
    except serving.Late:
        return [Finding("late", number, runtime, "") for number in numbers[:1] for runtime in RUNTIMES]
    except serving.Died as error:
        last = (str(error).strip().splitlines() or ["the process died"])[-1]
        return [Finding("crash", number, runtime, last) for number in numbers[:1] for runtime in RUNTIMES]
    try:
        judged: list[Finding] = serving.in_child(
            lambda place: [*_judged(made, tasks, right, place)], folder, 3 * SECONDS
        )
    except (serving.Late, serving.Died) as error:
        return [Finding("unclear", numbers[0], runtime, f"not judged: {error!r}") for runtime in RUNTIMES]
    return judged


Made = list[tuple[int, Runtime, Rewritten]]


def _with(
    trees: Mapping[str, ast.Module],
    numbers: Sequence[int],
    tasks: Sequence[Task],
    right: Baseline,
    folder: Path,
    trial: Trial,
) -> Made:
    """Run the tasks; those with another result again, with verification. This is a process of its own."""
    serving.alter(trees, "bnfold")
    made: Made = []
    commands: dict[str, list[int]] = defaultdict(list)
    for number in numbers:
        result = _rewrite(tasks[number], folder / str(number))
        if result == right.results[number]:
            continue
        if result.how == "written":
            commands[tasks[number].command].append(number)
        else:
            made += [(number, runtime, result) for runtime in RUNTIMES]
    turns = [group[turn] for turn in range(trial.verified) for group in commands.values() if turn < len(group)]
    for number in turns[: trial.verified]:
        for runtime in RUNTIMES:
            made.append((number, runtime, _rewrite(tasks[number], folder / str(number) / runtime, runtime)))
    return made


def _judged(made: Made, tasks: Sequence[Task], right: Baseline, folder: Path) -> Iterator[Finding]:
    judged: dict[tuple[int, Path], str] = {}
    for number, runtime, result in made:
        if result.how in ("refused", "crash"):
            yield Finding(result.how, number, runtime, result.text)
            continue
        written = folder / str(number) / runtime / "out.onnx"
        file = written if written.is_file() and result.how != "failed" else folder / str(number) / "out.onnx"
        key = number, file
        if key not in judged:
            task = tasks[number]
            judged[key] = judge(task.file, right.file(number), file, task.feeds)
        yield Finding(_kind(judged[key], result.how), number, runtime, result.text)


def _kind(judgement: str, status: str) -> str:
    if judgement == "right":
        return "right & failed" if status == "failed" else "legal"
    if judgement == "unclear":
        return judgement
    kind = f"{judgement} & {status}"
    return kind.upper() if status == "verified" else kind


def worst(found: Sequence[Finding], runtime: str) -> str:
    """Return the worst kind with one runtime."""
    kinds = {finding.kind for finding in found if finding.runtime == runtime}
    return next((kind for kind in WORST_FIRST if kind in kinds), "no effect")
