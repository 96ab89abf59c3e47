"""Files that a run holds while it works on them, as distinct from those that a killed run has left behind.

A claim is a shared lock on an open file: the system takes it back when the process ends, however it ends. So there is
no need to guess from a name or an age whether a temporary file is still in use. Where files cannot be locked (Windows,
some network shares) claims hold nothing, and what a killed run has left stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_TEMPORARY = re.compile(r"\.bnfold-[0-9a-f]{12}\.tmp")
_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class LockedFile:
    """A file that this run holds, until `release` or the end of the process."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    def is_there(self) -> bool:
        """Whether the path still leads to the file that was claimed."""
        if self._descriptor is None:
            return self.path.is_file()
        return _leads_to(self.path, self._descriptor)

    def rename(self, path: Path) -> None:
        """Give the file another name, in place of what has it. Raises OSError."""
        self.path.replace(path)
        self.path = path

    def link(self, path: Path) -> bool:
        """Give the file a name that nothing has; False where something has it, or files can have one name only.

        Beside that no other run can come in between, ext4 does not begin to write the file to the disk, as it does
        when a file is renamed over another.
        """
        try:
            os.link(self.path, path)
        except (OSError, AttributeError):  # not every system has it
            return False
        temporary, self.path = self.path, path
        temporary.unlink()
        return True

    def release(self) -> None:
        """Leave the file to others; harmless when done twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the file, if it still has its name."""
        with suppress(OSError):
            if self.is_there():
                self.path.unlink()
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def temporary(folder: Path) -> LockedFile:
    """Return a new, empty file in ``folder`` for what is being written. Raises OSError."""
    while True:
        claim = create(folder / f".bnfold-{os.urandom(6).hex()}.tmp")
        if claim is not None:
            return claim


def create(path: Path) -> LockedFile | None:
    """Return an empty file of this name.

    None where the name is taken, unless by an empty file that a killed run has left.
    """
    try:
        descriptor = os.open(path, _FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        claim = _alone(path)
        return claim if claim is not None and path.stat().st_size == 0 else None
    return _claimed(path, descriptor)


def open_shared(path: Path) -> LockedFile | None:
    """Hold a file that is there, so that no other run removes it; None where one is just doing so."""
    try:
        return _claimed(path, os.open(path, _FLAGS | os.O_RDONLY))
    except OSError:
        return None


def remove_unheld(path: Path, *, unless: Callable[[], bool]) -> None:
    """Remove a file if no other run holds it and, once none can, nothing speaks against it. Raises OSError."""
    if fcntl is None:
        if not unless():
            path.unlink()
        return
    descriptor = os.open(path, _FLAGS | os.O_RDONLY)
    try:
        if _lock(descriptor, exclusive=True) is not False and _leads_to(path, descriptor) and not unless():
            path.unlink()
    finally:
        os.close(descriptor)


def remove_stale(folder: Path) -> None:
    """Remove the temporary files in ``folder`` that killed runs have left."""
    with suppress(OSError):
        for name in [entry.name for entry in os.scandir(folder) if _TEMPORARY.fullmatch(entry.name)]:
            left = _alone(folder / name)
            if left is not None:
                left.remove()


def _claimed(path: Path, descriptor: int) -> LockedFile | None:
    """Return the file just opened or made; None where another run took it away in between."""
    if fcntl is None:
        os.close(descriptor)
        return LockedFile(path, None)
    if _lock(descriptor, exclusive=False) is False or not _leads_to(path, descriptor):
        os.close(descriptor)
        return None
    return LockedFile(path, descriptor)


def _alone(path: Path) -> LockedFile | None:
    """Return a file that certainly no other process holds."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(path, _FLAGS | os.O_RDWR)
    except OSError:
        return None
    if _lock(descriptor, exclusive=True) and _leads_to(path, descriptor):
        return LockedFile(path, descriptor)
    os.close(descriptor)
    return None


def _lock(descriptor: int, *, exclusive: bool) -> bool | None:
    """Whether the lock was had; None where files cannot be locked."""
    assert fcntl is not None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _leads_to(path: Path, descriptor: int) -> bool:
    """Whether the path is a name of the open file, not of another that has replaced it."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False
