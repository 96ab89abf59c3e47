"""Run one mode for a time or a count: ask the worker, survive its death, keep its findings and shrink them."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from fuzz import watch
from fuzz.case import Case, Outcome, read
from fuzz.smaller import shrink

WALL_SECONDS = 120.0
"""A worker that sends no answer for so many seconds hangs."""
FOREIGN_SECONDS = 20.0
"""The same limit while another program's code runs."""
SCRIPTS = Path(__file__).resolve().parent.parent
LEAD = 40
"""Lines of standard error that are kept of a dead worker."""


@dataclass
class Totals:
    """The counts of a campaign, and its findings: kind → the first line of each."""

    executions: int = 0
    refused: int = 0
    compared: int = 0
    batchnorms: int = 0
    folded: int = 0
    others: int = 0
    behaviours: set[str] = field(default_factory=set)
    findings: dict[str, str] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    tally: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.executions += 1
        self.refused += outcome.refused
        self.compared += outcome.compared
        self.batchnorms += outcome.batchnorms
        self.folded += outcome.folded
        self.tally.update(outcome.tally)

    def line(self, mode: str, seconds: float) -> str:
        """Return one line with the totals, and before it the mode's own counts."""
        others = f", {self.others} runs that another program did not survive" if self.others else ""
        tally = "".join(f"{words}: {count}\n" for words, count in sorted(self.tally.items()))
        return tally + (
            f"{mode}: {self.executions} executions in {seconds:.0f} s, {self.refused} refused, {self.compared} "
            f"compared, {self.batchnorms} BatchNormalizations, {self.folded} of them gone, "
            f"{len(self.behaviours)} behaviours{others}, "
            f"{sum(self.times.values())} findings of {len(self.findings)} kinds"
        )


class Worker:
    """A `fuzz.worker`, started anew whenever it is gone."""

    def __init__(self, mode: str, scratch: Path) -> None:
        self.mode, self.scratch, self.phase = mode, scratch, ""
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._listener: threading.Thread | None = None

    def run(self, place: Path | None, seed: int = 0, corpus: tuple[str, ...] = ()) -> tuple[Outcome, bool]:
        """Run a case, drawn or stored; return its outcome, and whether another program's code died in it."""
        child = self._started()
        assert child.stdin is not None
        request = {"place": str(place) if place else "", "seed": seed, "corpus": corpus}
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
        answer = self._answer()
        while answer is not None and "outcome" not in answer:  # the ready message, late
            answer = self._answer()
        if answer is not None:
            return Outcome(**answer["outcome"]), False
        error = self._death(child)
        return (Outcome(), True) if self.phase else (Outcome(error), False)

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._answers, self.phase = queue.Queue(), ""
            command = [sys.executable, "-m", "fuzz.worker", self.mode, str(self.scratch)]
            with (self.scratch / "stderr").open("w") as errors:
                self._child = subprocess.Popen(
                    command, cwd=SCRIPTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    env=watch.environment(), stderr=errors, errors="replace",
                )  # fmt: skip
            self._listener = threading.Thread(target=self._listen, args=(self._child, self._answers), daemon=True)
            self._listener.start()
            self._answer()  # the ready message
        return self._child

    @staticmethod
    def _listen(child: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            answers.put(line)
        answers.put(None)

    def _answer(self) -> dict[str, Any] | None:
        """Return the next answer that is not about a phase; None if the worker died or hangs."""
        while True:
            try:
                line = self._answers.get(timeout=FOREIGN_SECONDS if self.phase else WALL_SECONDS)
            except queue.Empty:
                return None
            if line is None:
                return None
            answer: dict[str, Any] = json.loads(line)
            if "phase" not in answer:
                return answer
            self.phase = answer["phase"]

    def _death(self, child: subprocess.Popen[str]) -> str:
        """Describe the end of the worker."""
        if child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1)
        if child.poll() is None:
            child.kill()
            child.wait()
            return f"hang: no answer in {WALL_SECONDS:.0f} s"
        lines = (self.scratch / "stderr").read_text(errors="replace").splitlines()[-LEAD:]
        where = next((line.strip() for line in lines if f"{watch.ROOT}/bnfold" in line), lines[-1] if lines else "")
        code = child.returncode
        if code == -signal.SIGPROF:
            return f"hang: too much processor time, {where}"
        return f"death: {signal.Signals(-code).name if code < 0 else f'exit {code}'}, {where}"

    def close(self) -> None:
        """Close the process, if there is one."""
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        if self._listener is not None:
            self._listener.join()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._child = None


class Campaign:
    """A mode, the folders of its corpus and its findings, and the totals so far."""

    def __init__(self, mode: str, *, corpus: Path | None, keep: Path) -> None:
        self.mode, self.corpus, self.keep = mode, corpus, keep
        self.totals = Totals()
        self._scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.worker = Worker(mode, self._scratch)
        self._files: list[str] = []
        if corpus is not None:
            corpus.mkdir(parents=True, exist_ok=True)
            self._files = sorted(str(path) for path in corpus.glob("*/model.onnx"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def replay(self, place: Path) -> str:
        """Judge one kept case; return its finding."""
        return self.take(place)

    def run(self, *, seconds: float, count: int, seed: int) -> None:
        """Judge the corpus, then draw until the time or the count is over."""
        ends = time.monotonic() + seconds
        for place in [Path(name).parent for name in self._files]:
            if time.monotonic() < ends:
                self.take(place)
        for number in range(seed, seed + count):
            if time.monotonic() > ends:
                break
            self.take(None, number)

    def take(self, place: Path | None, seed: int = 0) -> str:
        """Judge a case; count and keep the outcome."""
        outcome, foreign = self.worker.run(place, seed, tuple(self._files))
        self.totals.add(outcome)
        self.totals.others += foreign
        drawn = place or self._scratch / str(seed)
        if outcome.error:
            self.found(outcome.error, drawn)
        elif place is None and outcome.behaviour and outcome.behaviour not in self.totals.behaviours:
            self._remember(drawn)
        self.totals.behaviours.add(outcome.behaviour)
        if place is None:
            shutil.rmtree(drawn, ignore_errors=True)
        return outcome.error

    def _remember(self, drawn: Path) -> None:
        if self.corpus is None or not drawn.is_dir():
            return
        kept = self.corpus / read(drawn).digest
        if not kept.exists():
            shutil.copytree(drawn, kept)
            self._files.append(str(kept / "model.onnx"))

    def found(self, error: str, drawn: Path) -> None:
        """Count a finding; keep the first of its kind, shrunk."""
        sort = watch.kind(error)
        self.totals.times[sort] += 1
        if sort in self.totals.findings:
            return
        self.totals.findings[sort] = error
        if not drawn.exists():
            print(f"FINDING {error}\n  before a case was drawn", flush=True)
            return
        print(f"FINDING {error}", flush=True)  # before the shrinking, which may end badly
        small = shrink(read(drawn), lambda case: watch.kind(self._judged(case)) == sort)
        place = self.keep / self.mode / small.digest
        small.keep(place)
        print(f"  .venv/bin/python scripts/fuzz --mode {self.mode} --replay {place}", flush=True)

    def _judged(self, case: Case) -> str:
        place = self._scratch / "candidate"
        shutil.rmtree(place, ignore_errors=True)
        case.keep(place)
        return self.worker.run(place)[0].error
