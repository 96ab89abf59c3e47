"""Where bytes lie: a buffer, or a file read piece by piece.

Never mapped into memory: a mapped file that shrinks kills the process.
"""

from __future__ import annotations

import copyreg
import os
import stat
import threading
from pathlib import Path
from typing import Any

from bnfold.errors import BadInput, MalformedModel

MAY_HOLD = os.name != "nt"
"""Windows neither replaces nor removes a file that is open, be it the input or what was just written."""


class Source:
    """Random access to a run of bytes of known size."""

    size: int
    path: Path | None = None

    def read(self, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes at ``offset``, or MalformedModel."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedModel(f"a length points outside the data: {offset}+{length} of {self.size} bytes")
        return self._read(offset, length)

    def _read(self, offset: int, length: int) -> bytes:
        raise NotImplementedError

    def fileno(self) -> int | None:
        """Return a descriptor for kernel-side copies, where a file is held open."""
        return None

    def check_unchanged(self) -> None:
        """Raise BadInput if the bytes are no longer those that were indexed."""


class BufferSource(Source):
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def _read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class FileSource(Source):
    """A regular file; a change in place is detected.

    It is held open where possible, so that replacing it by rename does not disturb us. Without ``hold``, because a
    model may have a data file for each tensor and a process has few descriptors, and on Windows it is opened for every
    read; then the path must go on leading to the same file.
    Raises BadInput for what cannot be opened or is no regular file, and never waits for a pipe.
    """

    path: Path

    def __init__(self, path: Path, *, hold: bool = True) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._held: int | None = None
        descriptor = self._open()
        try:
            self._first = os.fstat(descriptor)
            if not stat.S_ISREG(self._first.st_mode):
                what = "a directory" if stat.S_ISDIR(self._first.st_mode) else "no regular file"
                raise BadInput(f"{path}: is {what}")
            self.size = self._first.st_size
            if hold and MAY_HOLD:
                self._held, descriptor = descriptor, -1
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the file is, and how it was; its bytes only if another file, or none, is there by now."""
        try:
            self._compare(self.path.stat())
        except (OSError, BadInput):
            return BufferSource, (self.read(0, self.size),)
        return copyreg.__newobj__, (FileSource,), (self.path.absolute(), self._first)  # type: ignore[attr-defined]

    def __setstate__(self, state: tuple[Path, os.stat_result]) -> None:
        """Open the file whenever it is read: that raises BadInput if it is not as it was."""
        self.path, self._first = state
        self.size, self._lock, self._held = self._first.st_size, threading.RLock(), None

    def _open(self) -> int:
        # Without blocking: a pipe by this name would never answer. Windows would translate line ends.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            return os.open(self.path, flags)
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error

    def _read(self, offset: int, length: int) -> bytes:
        try:
            data = self._pieces(offset, length)
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if len(data) != length:
            raise BadInput(f"{self.path}: the file became shorter while it was being read")
        return data

    def _pieces(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes. What is not held is opened for this thread alone.

        Another one would close it.
        """
        if self._held is not None:
            return self._all_pieces(self._held, offset, length)
        descriptor = self._open()
        try:
            self._compare(os.fstat(descriptor))
            return self._all_pieces(descriptor, offset, length)
        finally:
            os.close(descriptor)

    def _all_pieces(self, descriptor: int, offset: int, length: int) -> bytes:
        """Read in pieces: one system call gives no more than 2 GB."""
        data = self._pread(descriptor, length, offset)
        while 0 < len(data) < length and (more := self._pread(descriptor, length - len(data), offset + len(data))):
            data += more
        return data

    def _pread(self, descriptor: int, length: int, offset: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(descriptor, length, offset)
        with self._lock:  # Windows has one position a descriptor
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)

    def fileno(self) -> int | None:
        return self._held

    def check_unchanged(self) -> None:
        """Do as `Source.check_unchanged`."""
        try:
            self._compare(self.path.stat() if self._held is None else os.fstat(self._held))
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _compare(self, now: os.stat_result) -> None:
        """Compare the change time too: it betrays an edit whose author put the old modification time back.

        It says nothing when the number of links changed too: then the file was merely unlinked or linked.
        """
        first = self._first
        same_file = (now.st_dev, now.st_ino, now.st_size) == (first.st_dev, first.st_ino, first.st_size)
        touched = now.st_ctime_ns != first.st_ctime_ns and now.st_nlink == first.st_nlink
        if not same_file or now.st_mtime_ns != first.st_mtime_ns or touched:
            raise BadInput(f"{self.path}: the file was changed while it was being processed; run again")

    @property
    def links(self) -> int:
        """How many names the file had when it was opened."""
        return self._first.st_nlink

    def is_at(self, path: Path) -> bool:
        """Whether the file that was opened stands at ``path``, by itself and not behind a link."""
        try:
            return os.path.samestat(path.lstat(), self._first)
        except OSError:
            return False

    def __del__(self) -> None:
        held = getattr(self, "_held", None)
        if held is not None:
            os.close(held)
