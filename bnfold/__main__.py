"""The console command, and ``python -m bnfold``."""

from __future__ import annotations

import atexit
import gc
import os
import threading

from bnfold.cli import streams


def run() -> None:
    """The console command."""
    streams.fill_closed()
    streams.spell_out()
    gc.set_threshold(100_000)  # what is imported stays: looking through it 60 times takes a tenth of a small run
    from bnfold.cli.commands import main

    try:
        main()
    except SystemExit as end:
        _end(end.code)
        raise


def _end(code: object) -> None:
    """End the process; return where that has to be left to the interpreter.

    It would search what is left in memory for cycles and take it apart piece by piece, only for the system to get it
    all in the same moment. What others rely on happens here as well: buffers are written, exit handlers are called.
    """
    if not isinstance(code, int | None) or threading.active_count() > 1:
        return  # a message to be printed, or threads to be waited for
    atexit._run_exitfuncs()  # noqa: SLF001 - as `multiprocessing` does
    if streams.flush():  # otherwise nobody reads any more, and the interpreter has its own way to say so
        os._exit(code or 0)


if __name__ == "__main__":
    run()
