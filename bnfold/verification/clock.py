"""Where the time went, and how much of the budget is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Started on construction; phases add up under their names."""

    def __init__(self, budget_seconds: float) -> None:
        self._start = time.monotonic()
        self.budget = budget_seconds
        self.seconds: dict[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds of the budget that are not spent; never below a tenth, so that a limit stays a limit."""
        return max(0.1, self.budget - (time.monotonic() - self._start))

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return time.monotonic() - self._start > self.budget

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside under ``name``."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begin
