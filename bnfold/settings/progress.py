"""The phases of a run: a callback for progress is called with one of them, how much of it is done, and the total.

The total is 0 if it is not known. A phase may come more than once, and phases may alternate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

Progress = Callable[[str, int, int], None]
"""A callback that takes a phase, how much of it is done, and the total."""
ESTIMATE = "estimate"
"""The phase in which ``progress`` is called with an estimate: how many seconds the rest of a comparison takes."""
MODELS = "models"
"""The phase in which ``progress`` is called with how many models of a folder are done."""


class Phase(NamedTuple):
    """One phase: what people read, and what its numbers count."""

    title: str
    unit: Literal["", "bytes", "work"] = ""


PHASES: Mapping[str, Phase] = {
    MODELS: Phase("models"),
    "rewrite": Phase("rewriting"),
    "fold": Phase("folding"),
    "write": Phase("writing", "bytes"),
    "program": Phase("running the other program"),
    "rewrites": Phase("verifying each rewrite"),
    "changes": Phase("verifying other changes"),
    "runtime": Phase("verifying in a runtime"),
    "float64": Phase("verifying whole models", "work"),
    "original": Phase("running the original"),
    "rewritten": Phase("running the result"),
    "disturbed": Phase("measuring rounding"),
    "next step": Phase("looking for what helps"),
}
"""Phases by name. ``work`` is counted in milliseconds of a modest machine."""
