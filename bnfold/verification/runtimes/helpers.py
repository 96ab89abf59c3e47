"""Processes that answer one request after the other, for starting one takes longer than most models do.

A helper that has answered waits for the next request of this process; one that crashed or took too long is gone, and
all of them end with their parent, whose pipe to them then closes.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO, Any

from bnfold.ir.elements import Array
from bnfold.verification.runtimes import worker

RuntimeSample = dict[str, Array]
Answer = tuple[dict[str, Any], list[RuntimeSample]]

MOST_ANSWERS = 200
"""Then a helper makes room for a new one: what leaks in a runtime goes with it."""


_FROM_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGXCPU"})
"""Signals that come from outside, such as from the system if memory is short."""

_LARGEST_CODE = 255
"""Of a process that ends by itself; what Windows says of a crash is larger."""


class HelperDied(Exception):
    """Raised if the helper died; the message says how.

    It ``crashed`` if it died of what it did, and was not killed from outside.
    """

    def __init__(self, text: str, *, crashed: bool = False) -> None:
        super().__init__(text)
        self.crashed = crashed


class HelperLate(Exception):
    """Raised if there is no answer in time."""


class Helper:
    """One process, run by the interpreter ``python``; ``answers`` counts what it has done. Raises OSError.

    It imports the ``modules`` before anybody asks.
    """

    def __init__(self, python: str, *modules: str) -> None:
        self.python = python
        self.answers = 0
        self._errors = _scratch()
        self._last_words: list[str] = []
        with ExitStack() as failed:
            if self._errors is not None:
                failed.callback(self._errors.close)
            self._process = subprocess.Popen(
                [python, "-P", worker.__file__, *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors or subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # numpy's, which spin, and compute nothing here
            )
            failed.pop_all()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def ask(self, request: bytes, limit_seconds: float) -> Answer:
        """Return the answer; raises HelperLate or HelperDied, and then the process is gone."""
        process, late = self._process, threading.Event()
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit_seconds, give_up)
        timer.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            answer = worker.unpack(process.stdout)
        except (OSError, ValueError) as error:
            self.end(grace_seconds=limit_seconds)
            if late.is_set():
                raise HelperLate(f"took longer than {limit_seconds:.0f} s") from error
            raise self._death() from error
        finally:
            timer.cancel()
            timer.join()
        self.answers += 1
        return answer

    def end(self, grace_seconds: float = 0.0) -> None:
        """Close the pipes, and kill what does not end by itself in time."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what could not be written
                if pipe is not None:
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_seconds)
        self._process.kill()
        self._process.wait()
        if self._errors is not None:
            self._errors.seek(0)
            self._last_words = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
            self._errors.close()

    def _death(self) -> HelperDied:
        code = self._process.returncode
        if code < 0:
            cause = signal.Signals(-code).name
            was_killed = cause in _FROM_OUTSIDE
            return HelperDied(f"{'was killed' if was_killed else 'crashed'} ({cause})", crashed=not was_killed)
        return HelperDied(": ".join([f"ended with code {code}", *self._last_words]), crashed=code > _LARGEST_CODE)


def _scratch() -> IO[bytes] | None:
    """Return the file for error output of a helper; None if there is no place for temporary files."""
    with suppress(OSError):
        return tempfile.TemporaryFile()
    return None


_idle: dict[int, list[Helper]] = {}
"""Idle helpers by process id, because a fork must not write to the pipes of its parent."""

_lock = threading.Lock()


def start(python: str, runtime: str) -> None:
    """Start a helper process ahead of its first request. If it cannot be started, that request reports it."""
    helper = _take(python)
    with suppress(OSError):
        _keep(helper or Helper(python, runtime))


def ask(python: str, head: Mapping[str, Any], samples: Sequence[Mapping[str, Array]], limit_seconds: float) -> Answer:
    """Return the answer of a helper. One that did other work before may have died of that: then a new one is asked.

    Raises HelperLate, HelperDied, and OSError where no process can be started.
    """
    request = worker.pack(head, samples)
    helper = _take(python)
    if helper is not None and helper.answers:
        with suppress(HelperDied):
            return _ask(helper, request, limit_seconds)
        helper = None
    return _ask(helper or Helper(python), request, limit_seconds)


def _ask(helper: Helper, request: bytes, limit_seconds: float) -> Answer:
    answer = helper.ask(request, limit_seconds)
    if helper.answers >= MOST_ANSWERS:
        helper.end()
        return answer
    _keep(helper)
    return answer


def _keep(helper: Helper) -> None:
    with _lock:
        _idle.setdefault(os.getpid(), []).append(helper)


def _take(python: str) -> Helper | None:
    with _lock:
        mine = _idle.get(os.getpid(), [])
        helper = next((one for one in mine if one.python == python), None)
        if helper is not None:
            mine.remove(helper)
        return helper


@atexit.register
def _end_all() -> None:
    for helper in _idle.pop(os.getpid(), []):
        helper.end()
