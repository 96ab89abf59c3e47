"""Observers of what must never happen: internal errors, too much memory, and files in wrong places."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import traceback
from pathlib import Path

from bnfold.errors import BnfoldError

ROOT = Path(__file__).resolve().parent.parent.parent


def crash(error: BaseException) -> str:
    """Describe an exception that is not meant for users: its type, its place in bnfold, and its message."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}bnfold{os.sep}" in frame.filename]
    place = f" in {Path(ours[-1].filename).relative_to(ROOT)}:{ours[-1].name}" if ours else ""
    return f"{type(error).__name__}{place}: {' '.join(str(error).split())[:300]}"


def refusal(error: BnfoldError) -> str:
    """Return the kind of a refusal: its type and its words, without the names and numbers in them."""
    words = re.sub(r"'[^']*'|\"[^\"]*\"|[^\s]*/[^\s]*|\d+", "", str(error))
    return f"{type(error).__name__}: {' '.join(words.split())[:80]}"


def kind(error: str) -> str:
    """Return the kind of a finding; two findings of one kind count as the same."""
    return re.sub(r"\d+", "", error.split(": ", maxsplit=1)[0])


class Memory:
    """The largest memory in use since the object was made; always 0 if the system does not report it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
        self._before = _peak()

    def finding(self) -> str:
        """Return a line if a case took more memory than its limit."""
        taken = _peak() - self._before
        return f"memory: the case took {taken >> 20} MiB" if taken > self._limit else ""


def _peak() -> int:
    with contextlib.suppress(OSError, IndexError):
        text = Path("/proc/self/status").read_text(encoding="ascii")
        return int(text.partition("VmHWM:")[2].split(maxsplit=1)[0]) << 10
    return 0


def listing(folder: Path) -> dict[str, str]:
    """List every file and link under ``folder`` with its content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"  # noqa: PTH115 - as it stands, whatever it says
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def environment() -> dict[str, str]:
    """Return the environment of a child: it finds bnfold and these scripts, and no runtime takes all processors."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "scripts")])
    return os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
