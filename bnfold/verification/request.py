"""What is asked of a verification, in one place, and the time that it may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bnfold import ir, reference
from bnfold.ir.cut import ValueMaps
from bnfold.ir.time_limit import enclosing_end
from bnfold.settings import ESTIMATE, VerifyOptions
from bnfold.settings.progress import Progress
from bnfold.verification.as_read import as_read
from bnfold.verification.claims import Ledger, Why
from bnfold.verification.codes import Code

T = TypeVar("T")

_BUSY = 5
"""How many times as long as on an idle machine the same may take beside other programs."""

_QUICK = 60
"""Seconds of a limit that are all for counted work."""

LONG = 10.0
"""What takes more seconds is announced, as soon as that is known."""
_EARLY = 2.0
"""Seconds after which it is known how long the rest takes."""
_STEPS = 200
"""How often counted work is reported, at most."""

RUNTIME_SHARE = 1 / 12
"""Share of the budget for a runtime beside the reference evaluator."""


def budget_of(limit_seconds: float) -> float:
    """Return the counted seconds of work that a limit on the clock leaves: of a long one, a fifth."""
    return max(min(limit_seconds, _QUICK), limit_seconds / _BUSY)


class Clock:
    """Where the time went, and how much is left. It starts when it is made; phases add up by name.

    ``work`` counts what is evaluated. The ``budget``, in counted seconds, decides what is tried, whatever else the
    machine does; the ``limit``, on the clock, decides when all ends.
    """

    def __init__(self, limit_seconds: float) -> None:
        self._start = time.monotonic()
        self.limit = limit_seconds
        self.budget = budget_of(limit_seconds)
        self.end = min(self._start + limit_seconds, enclosing_end())
        self._needed = limit_seconds
        self.share = 0.0
        """How much of the parts has been compared."""
        self.work = reference.Work()
        self.seconds: dict[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds until the limit; never below a tenth, so that a limit stays a limit."""
        return max(0.1, self.end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the limit has struck."""
        return time.monotonic() > self.end

    def over(self, seconds: float = math.inf, about: str = "") -> Why:
        """Say that the limit struck; the data say which limit would be enough, as far as that is known.

        It follows from the ``seconds`` that what was cut off needs, or from how much had been compared. The sentence
        begins with ``about``.
        """
        missing = self.limit * (1 / self.share - 1) if self.share else 3 * self.limit
        self._needed = max(self._needed, seconds if math.isfinite(seconds) else missing)
        enough = self.enough(self._needed)
        text = f"the limit of {self.limit:g} s struck"
        return Why(Code.TIME, f"{about}: {text}" if about else text, {"verify_seconds": enough})

    def enough(self, seconds: float) -> int:
        """Return a limit with time for what should take so many seconds more, and may take twice as many."""
        return _rounded(time.monotonic() - self._start + 2 * seconds)

    def too_long(self, seconds: float, what: str = "running both models") -> Why:
        """Say that what takes so many counted seconds is not begun; the data say which limit leaves the time for it."""
        enough = _rounded((2 if seconds <= _QUICK else _BUSY) * seconds)
        text = f"{what} needs about {seconds:.0f} s, and there are {self.budget:.0f} s for it"
        return Why(Code.TIME, text, {"verify_seconds": enough})

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside under ``name``."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begin


def _rounded(seconds: float) -> int:
    """Return the next larger number of two digits, with zeros behind."""
    limit = max(math.ceil(seconds), 1)
    step = int(10 ** max(len(str(limit)) - 2, 0))
    return -(-limit // step) * step


@dataclass(frozen=True, slots=True)
class Request:
    """The two models, opened, with the arguments of `bnfold.verification.verify`; the files where they came as such."""

    before: ir.Model
    after: ir.Model
    checks: VerifyOptions
    before_file: Path | None
    after_file: Path | None
    cuts: tuple[ir.Cut, ...]
    policy: reference.Policy
    clock: Clock
    scaled: ValueMaps
    chose_version: bool
    progress: Progress
    ledger: Ledger = field(default_factory=Ledger)
    _announced: list[float] = field(default_factory=list)
    _begun: dict[str, tuple[int, float]] = field(default_factory=dict)
    _found: dict[object, Any] = field(default_factory=dict)

    def announce(self, seconds: float) -> None:
        """Tell the caller once if what begins now will take long."""
        if seconds > LONG and not self._announced:
            self._announced.append(seconds)
            self.progress(ESTIMATE, round(seconds), 0)

    def tell_parts(self, phase: str, done: int, total: int) -> None:
        """Tell how many parts have been compared, and once it can be known that the rest takes long."""
        self.clock.share = done / total
        first, started = self._begun.setdefault(phase, (done, time.monotonic()))
        if done > first and (spent := time.monotonic() - started) > _EARLY:
            self.announce(spent * (total - done) / (done - first))
        self.progress(phase, done, total)

    def count_work(self, seconds: float) -> None:
        """Tell how much of about so many counted seconds of work has been done, from now on.

        How long that takes is known from what has been done: machines differ, and counted seconds are of a modest one.
        """
        begun, last, started = self.clock.work.seconds, -1.0, time.monotonic()

        def tell(now: float) -> None:
            nonlocal last
            if now - last > seconds / _STEPS:
                last = now
                done, total = round(1000 * (now - begun)), round(1000 * seconds)
                if 0 < done < total and (spent := time.monotonic() - started) > _EARLY:
                    self.announce(spent * (total - done) / done)
                self.progress("float64", done, total if done <= total else 0)

        self.clock.work.tell = tell

    def once(self, find: Callable[[Request], T]) -> T:
        """Return the result of ``find`` for this request, found once for all tests. Raises its exception each time."""
        if find not in self._found:
            self._found[find] = find(self)
        found: T = self._found[find]
        return found

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the original's outputs."""
        return tuple(value.name for value in self.before.graph.outputs)

    @property
    def sources(self) -> tuple[ir.Model | Path, ir.Model | Path]:
        """The two models for a runtime: a file if there is one, because a runtime reads files itself."""
        return self.once(_sources)


def _sources(request: Request) -> tuple[ir.Model | Path, ir.Model | Path]:
    before, after = (
        as_read(model, file, request.policy)
        for model, file in ((request.before, request.before_file), (request.after, request.after_file))
    )
    return before, after
