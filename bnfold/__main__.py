"""The console command, and ``python -m bnfold``."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import threading
from typing import Any

from bnfold.cli import streams
from bnfold.errors import EXIT_INTERRUPTED, EXIT_TERMINATED

MOST_UNSEEN = 2_000_000
"""Objects to be made before anybody looks for garbage among them.

What is imported stays, and so do the models: to look through them takes a tenth of a run, and the process ends soon.
"""


def run() -> None:
    """Run the console command."""
    streams.fill_closed()
    streams.keep_stdout()
    streams.escape_unencodable()
    gc.set_threshold(MOST_UNSEEN)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            from bnfold.cli.commands import main

            main()
        except KeyboardInterrupt:  # before there is a command that catches it
            from bnfold.cli.terminal import end_interrupted

            end_interrupted()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED and _TERMINATED:
            end.code = EXIT_TERMINATED
        _end(end.code)
        raise


_TERMINATED: list[int] = []


def _terminate(number: int, _: Any) -> None:
    """End as after Ctrl-C, so that nothing half-written is left; what cleans up is not interrupted again."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _TERMINATED.append(number)
    raise KeyboardInterrupt


def _end(code: object) -> None:
    """End the process; return where that has to be left to the interpreter.

    It would search what is left in memory for cycles and take it apart piece by piece, only for the system to get it
    all in the same moment. What others rely on happens here as well: buffers are written, exit handlers are called.
    """
    if not isinstance(code, int | None) or threading.active_count() > 1:
        return  # a message to be printed, or threads to be waited for
    atexit._run_exitfuncs()  # noqa: SLF001 - as `multiprocessing` does
    if streams.flush():  # otherwise the other end of the pipe is gone, and the interpreter reports it in its own way
        os._exit(code or 0)


if __name__ == "__main__":
    run()
