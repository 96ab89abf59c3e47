"""The process that draws and judges: it may hang, run out of memory or die, and its parent goes on.

Each line that it reads requests one case. Each line that it writes is an answer, or names the program whose code runs
now. A case that takes too much processor time kills the process by SIGPROF, with the stack on standard error.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

ADDRESSES = 12 << 30


def main() -> None:
    """Serve until the input ends. Output of models and runtimes goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()
    limit()
    from fuzz import case, modes, phases, watch

    mode, taken = modes.MODES[sys.argv[1]], ""

    def tell(phase: str) -> None:
        nonlocal taken
        _alarm(0 if phase else mode.seconds)
        if phase and not phases.entered:
            taken = memory.finding()
        answers.write(json.dumps({"phase": phase}) + "\n")

    phases.tell = tell
    keep = Path(sys.argv[2])
    answers.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        memory = watch.Memory(mode.memory)  # drawing may run another program's code, too
        if asked["place"]:
            drawn = case.read(Path(asked["place"]))
        else:
            drawn = mode.draw(asked["seed"], [Path(name) for name in asked["corpus"]])
            drawn.keep(keep / str(asked["seed"]))
        with tempfile.TemporaryDirectory() as folder:
            memory, taken = watch.Memory(mode.memory), ""
            phases.entered = False
            _alarm(mode.seconds)
            outcome = mode.judge(drawn, Path(folder))
            _alarm(0)
            if not outcome.error:
                outcome = dataclasses.replace(outcome, error=taken if phases.entered else memory.finding())
        answers.write(json.dumps({"outcome": dataclasses.asdict(outcome), "size": drawn.size}) + "\n")


def limit() -> None:
    """Limit memory to that of a machine, and write no core files."""
    try:
        import resource
    except ImportError:
        return  # Windows
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)


def _alarm(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    main()
