"""Measure two models in onnxruntime, run in turns in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.registered.table import LIBRARIES
from bnfold.settings import VerifyOptions
from bnfold.verification.inputs.candidates import candidates
from bnfold.verification.runtimes import helpers

SECONDS = 3.0
"""How long the runs may take that count."""


class Latency(NamedTuple):
    """Seconds of one run of both models; ``before[i]`` and ``after[i]`` were taken next to each other.

    ``error`` says why there are none.
    """

    runtime: str
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    error: str = ""

    @property
    def ratio(self) -> float:
        """Median of after ÷ before over the pairs."""
        return median(after / before for before, after in zip(self.before, self.after, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the entries of a report."""
        measured = bool(self.before)
        return {
            "runtime": self.runtime,
            "rounds": len(self.before),
            "before": median(self.before) if measured else None,
            "after": median(self.after) if measured else None,
            "ratio": round(self.ratio, 4) if measured else None,
            "error": self.error,
        }


def measure(before: Path, after: Path, checks: VerifyOptions, *, seconds: float = SECONDS) -> Latency:
    """Return times of both on the same inputs, on one thread with the default optimisation.

    Inputs are the recorded ones, or random ones of the first sizes that the original runs at.
    """
    found = Latency("onnxruntime", error="no inputs fit the original")
    try:
        for feeds in feeds_for(before, checks):
            found = _ask(before, after, feeds, seconds, checks.verify_seconds)
            if not found.error:
                break
    except BnfoldError as error:
        return Latency("onnxruntime", error=str(error))
    return found


def feeds_for(before: Path, checks: VerifyOptions) -> Iterator[Mapping[str, Array]]:
    """Yield inputs to try one after the other: the recorded ones, or random ones of several sizes."""
    for first, *_ in candidates(ir.load(before), replace(checks, samples=1)):
        yield first


def _ask(before: Path, after: Path, feeds: Mapping[str, Array], seconds: float, limit: float) -> Latency:
    request: dict[str, Any] = {
        "runtime": "onnxruntime",
        "model": str(before.absolute()),
        "beside": str(after.absolute()),
    }
    request |= {"libraries": [*LIBRARIES]}
    try:
        head, _ = helpers.ask(sys.executable, request | {"seconds": seconds}, [feeds], limit)
    except (helpers.HelperLate, helpers.HelperDied, OSError) as error:
        return Latency("onnxruntime", error=" ".join(str(error).split()))
    if head["error"]:
        return Latency(head["version"], error=" ".join(head["error"].split())[:300])
    first, second = head["times"]
    return Latency(head["version"], tuple(first), tuple(second))
