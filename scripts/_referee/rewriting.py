"""Run tasks in bnfold as it is, or with an alteration, and have the results judged."""

from __future__ import annotations

import ast
import hashlib
import importlib
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

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


Result = tuple[int, str]
"""The number of a task, and the digest of a file that it wrote."""


class Baseline(NamedTuple):
    """The results without an alteration, the folder that has them, and the tasks that reach a line, and a file.

    ``seconds`` is the processor time of each task, measured. ``judged`` has what results with alterations were found
    to be: many alterations end in the same one.
    """

    results: Sequence[Rewritten]
    seconds: Sequence[float]
    folder: Path
    lines: Mapping[Place, Sequence[int]]
    files: Mapping[str, Sequence[int]]
    judged: dict[Result, str]

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
    return Baseline(results, seconds, folder, lines, files, {})


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
        return Rewritten("written", _digest(*sorted(folder.iterdir())))
    if outcome.report.wrong_rewrites:
        return Rewritten("failed", "a simplification was left out: it differs")
    return Rewritten(outcome.verdict.status, outcome.verdict.summary)


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Trial(NamedTuple):
    """What is run with an alteration: at most so many tasks, and at most so many seconds of them.

    The first results with an effect, ``verified`` of them, are verified; then no other task is run. Nor is one if
    verifying took as long.
    """

    tasks: int = 20
    verified: int = 3
    seconds: float = 1.0

    def of(self, numbers: Sequence[int], right: Baseline) -> list[int]:
        """Return the tasks that are run: one that takes longer than all may, only if no other one is there."""
        chosen: list[int] = []
        left = self.seconds
        for number in numbers:
            if right.seconds[number] <= left and len(chosen) < self.tasks:
                chosen.append(number)
                left -= right.seconds[number]
        return chosen or sorted(numbers, key=lambda number: right.seconds[number])[:1]


def preload(right: Baseline) -> None:
    """Import what the tasks needed, for the processes that `findings` forks, and start the runtime that they ask."""
    serving.preload("bnfold", sorted(altering.module(file) for file in right.files))
    _start_runtime()


_HELPERS = "bnfold.verification.runtimes.helpers"


def _start_runtime() -> None:
    """Have a runtime ready for the processes that are forked, unless it is."""
    helpers: Any = importlib.import_module(_HELPERS)
    if not any(helper._process.poll() is None for helper in helpers._idle.get(os.getpid(), [])):  # noqa: SLF001 - below
        helpers.start(sys.executable, "onnxruntime")


def _end_runtime() -> None:
    """End it, for a process may have left it in the middle of a request."""
    helpers: Any = importlib.import_module(_HELPERS)
    for helper in helpers._idle.pop(os.getpid(), []):  # noqa: SLF001 - below
        helper.end()


def _share_runtime() -> None:
    """Ask the runtime of the process that forked this one. If it dies, this process asks a new one of its own.

    bnfold itself never asks the runtime of another process, for two may ask at once. Here one waits for the other.
    """
    helpers: Any = importlib.import_module(_HELPERS)
    shared = helpers._idle.get(os.getppid(), [])  # noqa: SLF001 - see above
    for helper in shared:
        helper.answers = 1  # what has answered before may have died of that
    helpers._idle[os.getpid()] = shared  # noqa: SLF001 - see above


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
    numbers = trial.of(numbers, right)
    _start_runtime()
    try:
        made = serving.in_child(lambda place: _with(trees, numbers, tasks, right, place, trial), folder, SECONDS)
    except serving.Late:
        _end_runtime()
        return [Finding("late", number, runtime, "") for number in numbers[:1] for runtime in RUNTIMES]
    except serving.Died as error:
        _end_runtime()
        last = (str(error).strip().splitlines() or ["the process died"])[-1]
        return [Finding("crash", number, runtime, last) for number in numbers[:1] for runtime in RUNTIMES]
    files = [_file(each, folder) for each in made]
    keys = [None if file is None else (each[0], _digest(file)) for each, file in zip(made, files, strict=True)]
    new = {key: file for key, file in zip(keys, files, strict=True) if key and file and key not in right.judged}
    try:
        if new:
            right.judged.update(serving.in_child(lambda _: _judged(new, tasks, right), folder, 3 * SECONDS))
    except (serving.Late, serving.Died) as error:
        return [Finding("unclear", numbers[0], runtime, f"not judged: {error!r}") for runtime in RUNTIMES]
    return [
        Finding(result.how if key is None else _kind(right.judged[key], result.how), number, runtime, result.text)
        for (number, runtime, result), key in zip(made, keys, strict=True)
    ]


Made = tuple[int, Runtime, Rewritten]
"""The number of a task, and what it ended in with one runtime."""


def _with(
    trees: Mapping[str, ast.Module],
    numbers: Sequence[int],
    tasks: Sequence[Task],
    right: Baseline,
    folder: Path,
    trial: Trial,
) -> list[Made]:
    """Run the tasks; those with another result again, with verification. This is a process of its own."""
    _share_runtime()
    serving.alter(trees, "bnfold")
    made: list[Made] = []
    verified, spent = 0, 0.0
    for number in numbers:
        result = _rewrite(tasks[number], folder / str(number))
        if result == right.results[number]:
            continue
        if result.how != "written":
            made += [(number, runtime, result) for runtime in RUNTIMES]
            continue
        spent -= time.process_time()
        for runtime in RUNTIMES:
            made.append((number, runtime, _rewrite(tasks[number], folder / str(number) / runtime, runtime)))
        verified, spent = verified + 1, spent + time.process_time()
        if verified == trial.verified or spent > trial.seconds:
            break
    return made


def _file(made: Made, folder: Path) -> Path | None:
    """Return the file that was written, or was rejected; None if there is none."""
    number, runtime, result = made
    if result.how in ("refused", "crash"):
        return None
    places = [folder / str(number) / runtime, folder / str(number)][result.how == "failed" :]
    return next((file for place in places if (file := place / "out.onnx").is_file()), None)


def _judged(files: Mapping[Result, Path], tasks: Sequence[Task], right: Baseline) -> dict[Result, str]:
    """Return what each of the files is; what one process learned of a file, others need not find out again."""
    return {
        key: judge(tasks[key[0]].file, right.file(key[0]), file, tasks[key[0]].feeds) for key, file in files.items()
    }


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
