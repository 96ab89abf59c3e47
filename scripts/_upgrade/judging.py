"""Run the converters, each in a process of its own, and compare their results with the originals."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from bnfold.errors import BnfoldError
from bnfold.verification import verify

_SCRIPT = Path(__file__).with_name("convert.py")


@dataclass(frozen=True)
class Outcome:
    """Result of one model: ``equal``, ``differs``, ``invalid``, ``unverified`` or ``failed``, and the reason."""

    verdict: str
    reason: str = ""


class Converter:
    """A child that upgrades; started anew after it died or was given up."""

    def __init__(self, tool: str, timeout: float) -> None:
        self.tool, self._timeout = tool, timeout
        self._child: subprocess.Popen[str] | None = None

    def convert(self, source: Path, out: Path, target: int) -> str:
        """Upgrade; return the reason if there is no result."""
        child = self._started()
        watchdog = threading.Timer(self._timeout, child.kill)
        watchdog.start()
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(f"{source}\t{out}\t{target}\n")
            child.stdin.flush()
            answer = child.stdout.readline()
        watchdog.cancel()
        if answer:
            return str(json.loads(answer)["error"])
        self.close()
        return "the process died, or took too long"

    def _started(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            command = [sys.executable, str(_SCRIPT), self.tool]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        return self._child

    def close(self) -> None:
        """Close the child."""
        if self._child is None:
            return
        self._child.kill()
        self._child.communicate()
        self._child = None


def outcome(converter: Converter, source: Path, out: Path, target: int, budget: float) -> Outcome:
    """Upgrade ``source`` and judge the result: first onnx's checker, then the reference evaluator in float64."""
    out.unlink(missing_ok=True)
    reason = converter.convert(source, out, target)
    if reason:
        return Outcome("failed", short(reason))
    complaint = "" if complaint_of(source) else complaint_of(out)
    if complaint:
        return Outcome("invalid", short(complaint))
    try:
        verdict = verify(source, out, runtime="none", budget_seconds=budget)
    except BnfoldError as error:
        return Outcome("invalid", short(str(error)))
    named = {"verified": "equal", "failed": "differs", "unverified": "unverified"}[verdict.status]
    return Outcome(named, "" if named == "equal" else short(verdict.reason))


def runs(source: Path, outcomes: Iterable[Outcome], budget: float) -> bool:
    """Whether the reference evaluator can run the original; a conclusive comparison implies it."""
    if any(result.verdict in ("equal", "differs") for result in outcomes):
        return True
    try:
        return verify(source, source, depth="full", runtime="none", budget_seconds=budget).status == "verified"
    except BnfoldError:
        return False


def complaint_of(path: Path) -> str:
    """Return the complaint of onnx's checker about a model; empty if there is none."""
    try:
        onnx.checker.check_model(str(path))
    except Exception as error:  # noqa: BLE001 - the checker raises whatever the file provokes
        return str(error) or type(error).__name__
    return ""


def short(reason: str) -> str:
    """Return the first line, without paths and the names of single values, so that equal reasons can be counted."""
    line = next((line.strip() for line in reason.splitlines() if line.strip()), "")
    return re.sub(r"\S*/(\S+?)(:\d+)?:", r"\1:", line)[:160]


def as_data(result: Outcome, *, runs: bool) -> dict[str, Any]:
    """Return the data for the JSON file; ``runs``: the reference evaluator can run the original."""
    return {"verdict": result.verdict, "reason": result.reason, "runs": runs}
