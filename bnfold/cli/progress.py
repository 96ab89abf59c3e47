"""A bar on a terminal while a run lasts; off a terminal a line every ten seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import NamedTuple

from bnfold.cli.terminal import say
from bnfold.settings import VerifyOptions
from bnfold.settings.progress import ESTIMATE, MODELS, PHASES, Phase, Progress

_PATIENCE = 0.5
"""Seconds before a bar appears: one that is gone at once only flickers."""
_INTERVAL = 10.0
"""Seconds between two lines off a terminal."""
_BAR = 20
"""Columns of a bar: text fits beside it on 80."""


@contextmanager
def progress_bar(*, enabled: bool = True, checks: VerifyOptions | None = None) -> Iterator[Progress]:
    """Yield a callback (phase, done, total) that shows a bar on a terminal, and prints lines elsewhere.

    What takes long to verify is said before, and with ``checks`` what is quicker.
    """
    if not enabled:
        yield lambda *_: None
        return
    with _bar() if sys.stderr.isatty() else _lines() as show:

        def tell(phase: str, done: int, total: int) -> None:
            if phase == ESTIMATE:
                say(f"verifying will take about {about(done)} more{_quicker(checks)}")
            else:
                show(phase, done, total)

        yield tell


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    bars = RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=_BAR),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
    begun, shown = monotonic(), ""
    task = bars.add_task("", total=None, count="")

    def show(phase: str, done: int, total: int) -> None:
        nonlocal shown
        kind = _kind(phase)
        if phase != shown:
            shown = phase
            bars.reset(task, description=kind.title, total=total or None)
        bars.update(task, completed=done, total=total or None, count=counted(kind, done, total))
        if not bars.live.is_started and monotonic() - begun > _PATIENCE:
            bars.start()

    try:
        yield show
    finally:
        if bars.live.is_started:
            bars.stop()


class _State(NamedTuple):
    """The last call, and when its phase began."""

    phase: str
    done: int
    total: int
    begun: float

    @property
    def line(self) -> str:
        """The state as a line, with the time left if the phase goes on at the same speed."""
        count = counted(_kind(self.phase), self.done, self.total)
        spent = monotonic() - self.begun
        left = spent * (self.total - self.done) / self.done if 0 < self.done <= self.total else 0.0
        known = f", about {about(left)} left" if left >= 1 else ""
        return f"{_kind(self.phase).title}{f' {count}' if count else ''}: {about(spent)}{known}"


@contextmanager
def _lines() -> Iterator[Progress]:
    """Yield a callback whose last call is printed every ten seconds, even if nothing calls it meanwhile."""
    is_over, state, thread, was_printed = Event(), _State("", 0, 0, monotonic()), Thread(daemon=True), False

    def show(phase: str, done: int, total: int) -> None:
        nonlocal state, thread
        state = _State(phase, done, total, state.begun if phase == state.phase else monotonic())
        if thread.ident is None:  # not before there is something to show: a process with threads should not fork
            thread = Thread(target=print_states, daemon=True)
            thread.start()

    def print_states() -> None:
        nonlocal was_printed
        while not is_over.wait(_INTERVAL):
            was_printed = True
            say(state.line)

    try:
        yield show
    finally:
        is_over.set()
        if thread.ident is not None:
            thread.join()
        if was_printed and state.phase == MODELS and state.done == state.total:
            say(state.line)


def _kind(phase: str) -> Phase:
    return PHASES.get(phase, Phase(phase))


def counted(kind: Phase, done: int, total: int) -> str:
    """Return how much of a phase is done: a share of work, megabytes, or so many of so many."""
    if kind.unit == "work":
        return f"{min(100 * done // total, 100)} %" if total else ""
    if kind.unit == "bytes":
        megabytes = f"{done / 1e6:.1f}"
        return f"{megabytes} of {max(done, total) / 1e6:.1f} MB" if total else f"{megabytes} MB"
    return f"{done} of {total}" if total else f"{done}" if done else ""


def about(seconds: float) -> str:
    """Return a time with few digits."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _quicker(checks: VerifyOptions | None) -> str:
    """Return what takes less time than what was asked for, as the end of a sentence."""
    if checks is None:
        return ""
    ways = []
    if checks.samples > 1:
        ways.append("--samples 1 is quicker")
    if checks.depth == "full":
        ways.append("--verify auto is quicker")
    elif checks.depth == "auto" and checks.tolerance is None:
        ways.append("--verify local is quicker, but may leave the result unverified")
    return "".join(f"; {way}" for way in ways)
