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
from bnfold.settings import VerifyOptions
from bnfold.verification.as_read import as_read
from bnfold.verification.unscaled import Scaled

T = TypeVar("T")

RUNTIME_SHARE = 1 / 12
"""Share of the budget for a runtime beside the reference evaluator."""


class Clock:
    """Where the time went, and how much of the budget is left. It starts when it is made; phases add up by name.

    ``work`` counts what is evaluated: it decides what is tried, and the budget, a limit on the clock, when all ends.
    """

    def __init__(self, budget_seconds: float) -> None:
        self._start = time.monotonic()
        self.budget = budget_seconds
        self.end = self._start + budget_seconds
        self._needed = budget_seconds
        self.share = 0.0
        """How much of the parts has been compared."""
        self.work = reference.Work()
        self.seconds: dict[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds of the budget that are not spent; never below a tenth, so that a limit stays a limit."""
        return max(0.1, self.end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return time.monotonic() > self.end

    def over(self, seconds: float = math.inf) -> str:
        """Say that the limit struck, and which limit would be enough, as far as that is known.

        That follows from the ``seconds`` that what was cut off needs, or from how much had been compared.
        """
        missing = self.budget * (1 / self.share - 1) if self.share else 3 * self.budget
        self._needed = max(self._needed, seconds if math.isfinite(seconds) else missing)
        return f"the limit of {self.budget:g} s struck: raise it with --verify-seconds {self.enough(self._needed)}"

    def enough(self, seconds: float) -> int:
        """Return a limit with time for what should take so many seconds more, and may take twice as many."""
        limit = max(math.ceil(time.monotonic() - self._start + 2 * seconds), 1)
        step = int(10 ** max(len(str(limit)) - 2, 0))  # to two digits
        return -(-limit // step) * step

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside under ``name``."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begin


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
    scaled: Scaled
    progress: Callable[[str, int, int], None]
    _found: dict[object, Any] = field(default_factory=dict)

    def once(self, find: Callable[[Request], T]) -> T:
        """Return the result of ``find`` for this request, found once for all tests. Raises its exception each time."""
        if find not in self._found:
            self._found[find] = find(self)
        found: T = self._found[find]
        return found

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
