"""A bar on a terminal while a run lasts, and a line in a pipe where it takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from bnfold.cli.terminal import say
from bnfold.settings import ESTIMATE

_PATIENCE = 0.5
"""Seconds before a bar appears: one that is gone at once only flickers."""


@contextmanager
def progress_bar(*, enabled: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a callback (phase, done, total) that draws a bar on a terminal.

    In a pipe it says only what will take long.
    """
    if not enabled:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        yield lambda phase, done, _: _long(done) if phase == ESTIMATE else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn())
    bars = Progress(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, TaskID] = {}
    begun = monotonic()

    def tell(phase: str, done: int, total: int) -> None:
        if phase == ESTIMATE:
            _long(done)
            return
        if phase not in tasks:
            tasks[phase] = bars.add_task(phase, total=total or None)
        bars.update(tasks[phase], completed=done, total=total or None)
        if not bars.live.is_started and monotonic() - begun > _PATIENCE:
            bars.start()

    try:
        yield tell
    finally:
        if bars.live.is_started:
            bars.stop()


def _long(seconds: int) -> None:
    say(f"verifying whole models in float64 will take about {seconds} s; --verify local is faster")
