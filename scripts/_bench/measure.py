"""Whole processes: wall time, processor time and peak memory, taken in interleaved rounds so that ratios hold."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from _bench.tools import Tool

# Linux counts in KiB, macOS in bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Run:
    """One process that has ended.

    Attributes:
        wall: Seconds by the clock.
        cpu: Seconds of processors, with those of the processes that it started.
        peak: Bytes of memory.
        code: Its exit code.
        output: Its standard output.
        errors: Its standard error.
    """

    wall: float
    cpu: float
    peak: int
    code: int = 0
    output: str = ""
    errors: str = ""


class DidNotFinishError(Exception):
    """A tool failed or took too long; the message names the tool's failure in a few words."""


@dataclass
class Series:
    """A tool's runs on one case, in the order of the rounds, or the reason why there are none.

    Attributes:
        tool: The tool.
        runs: One a round.
        failure: Empty if the tool works.
        quality: Result of `quality.py` on the tool's output.
    """

    tool: Tool
    runs: list[Run] = field(default_factory=list)
    failure: str = ""
    quality: dict[str, float | None] = field(default_factory=dict)


def run(tool: Tool, source: Path, folder: Path, timeout: float) -> Run:
    """Run `tool` once, into an emptied `folder`.

    Raises:
        DidNotFinishError: It failed or exceeded `timeout` seconds.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = process(tool.command(source, folder / "model.onnx"), folder, timeout, tool.environment)
    if done.code:
        raise DidNotFinishError(_reason(done, timeout))
    return done


def process(command: Sequence[str], folder: Path, timeout: float, variables: Mapping[str, str]) -> Run:
    """Run a command in ``folder``; it is killed, with the processes that it started, after ``timeout`` seconds."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**_environment(), **variables},
            cwd=folder,
            start_new_session=True,
        )
        late = threading.Timer(timeout, os.killpg, (child.pid, signal.SIGKILL))
        late.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        late.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _RSS_UNIT, child.returncode, *texts)


def _environment() -> dict[str, str]:
    """Return this process's environment, with bytecode kept.

    pip compiles the packages that it installs; a checkout has to be compiled too, after its first run.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _reason(done: Run, timeout: float) -> str:
    if done.wall >= timeout:
        return f"more than {timeout:.0f} s"
    lines = [line for line in done.errors.splitlines() if line.strip()]
    return f"exit {done.code}: {lines[-1].strip()[:100]}" if lines else f"exit {done.code}"


def paired(
    tools: list[Tool],
    source: Path,
    folder: Path,
    *,
    rounds: int,
    timeout: float,
    judge: Callable[[Path], dict[str, float | None]],
) -> list[Series]:
    """Run every tool once a round, after one round that is not counted; each round begins with another tool.

    The uncounted round fills the page cache, finds the tools that work, and gives `judge` every output to look at.
    """
    series = [Series(tool) for tool in tools]
    for entry in series:
        try:
            run(entry.tool, source, folder, timeout)
        except DidNotFinishError as reason:
            entry.failure = str(reason)
            continue
        if entry.tool.rewrites:
            entry.quality = judge(folder / "model.onnx")
    for turn in range(rounds):
        first = turn % len(series)
        for entry in series[first:] + series[:first]:
            _add(entry, source, folder, timeout)
    shutil.rmtree(folder, ignore_errors=True)
    return series


def _add(entry: Series, source: Path, folder: Path, timeout: float) -> None:
    if entry.failure:
        return
    try:
        entry.runs.append(run(entry.tool, source, folder, timeout))
    except DidNotFinishError as reason:
        entry.failure = str(reason)
        entry.runs.clear()
