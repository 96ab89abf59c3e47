"""Where bytes lie: a file read piece by piece, or a buffer. Never mapped: a mapped file that shrinks kills the process."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from bnfold.errors import BadInput, MalformedModel


class Source:
    """Random access to a run of bytes of known size."""

    size: int
    path: Path | None = None

    def read(self, offset: int, length: int) -> bytes:
        """Exactly ``length`` bytes at ``offset``, or MalformedModel."""
        raise NotImplementedError

    def fileno(self) -> int | None:
        """A descriptor for kernel-side copies, where there is a file."""
        return None

    def check_unchanged(self) -> None:
        """Raise BadInput if the bytes are no longer those that were indexed."""


class BufferSource(Source):
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedModel(f"a length points outside the data ({offset}+{length} of {self.size} bytes)")
        return self._data[offset : offset + length]


class FileSource(Source):
    """A file held open, so that replacing it by rename does not disturb us; a change in place is detected."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - lives as long as the model
        except OSError as error:
            raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
        status = os.fstat(self._file.fileno())
        self.size = status.st_size
        self._stamp = (status.st_size, status.st_mtime_ns)
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise MalformedModel(f"{self.path}: a length points outside the file ({offset}+{length} of {self.size} bytes)")
        try:
            data = self._pread(length, offset)
        except OSError as error:
            raise BadInput(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if len(data) != length:
            raise BadInput(f"{self.path}: the file became shorter while it was being read")
        return data

    def _pread(self, length: int, offset: int) -> bytes:
        if hasattr(os, "pread") and length < 1 << 30:
            return os.pread(self._file.fileno(), length, offset)
        with self._lock:
            self._file.seek(offset)
            return self._file.read(length) or b""

    def fileno(self) -> int:
        return self._file.fileno()

    def check_unchanged(self) -> None:
        status = os.fstat(self._file.fileno())
        if (status.st_size, status.st_mtime_ns) != self._stamp:
            raise BadInput(f"{self.path}: the file was changed while it was being processed; run again")

    def close(self) -> None:
        self._file.close()
