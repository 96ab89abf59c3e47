"""How a worker process ends in the middle of a model: what is half-written goes first."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_AT_WORK: list[bool] = []


class Stopped(BaseException):
    """The worker is to end; raised wherever it is, so that temporary files are removed on the way."""


def prepare() -> None:
    """Make this process end tidily. Ctrl-C reaches every process of a terminal; only the one that waits acts on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)


@contextmanager
def at_work() -> Iterator[None]:
    """Let a model be finished or cleaned up; a worker that was stopped meanwhile does not come back."""
    _AT_WORK.append(True)
    try:
        yield
    except Stopped:
        os._exit(1)  # the pool would give it the next model
    finally:
        _AT_WORK.pop()


def _stop(*_: Any) -> None:
    if not _AT_WORK:
        os._exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up is not interrupted
    raise Stopped
