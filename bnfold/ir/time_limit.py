"""A limit on the clock for everything that runs inside a block: loops that may take long look at it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float] = ContextVar("end", default=math.inf)


class LimitStruck(Exception):
    """The time of the block is over."""


@contextmanager
def ends_at(end: float) -> Iterator[None]:
    """Let `look_at_clock` raise inside the block, from ``end`` (of `time.monotonic`) on."""
    token = _END.set(min(end, _END.get()))
    try:
        yield
    finally:
        _END.reset(token)


def enclosing_end() -> float:
    """Return when the enclosing blocks end (of `time.monotonic`)."""
    return _END.get()


def look_at_clock() -> None:
    """Raise LimitStruck if the time of an enclosing block is over; each step of a long loop calls it."""
    if time.monotonic() > _END.get():
        raise LimitStruck
