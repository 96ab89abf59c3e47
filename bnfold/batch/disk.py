"""Files and folders on disk as places of a batch."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bnfold.batch.addresses import MAGIC
from bnfold.batch.walk import IN_A_FOLDER, Entry, NotLookedAt, Walked, fixed_parts, is_foreign, walk
from bnfold.errors import BadInput, OutputError


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A plain path: a file of a batch, or a folder of them; ``str`` is what people read. It travels to workers."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    def child(self, relative: str) -> OnDisk:
        """Return the file below this folder."""
        return OnDisk(self.path / relative)

    def sibling(self, name: str) -> OnDisk:
        """Return the file beside this one; the folder that it lies in if ``name`` is empty."""
        return OnDisk(self.path.parent / name)

    def holds(self, other: object) -> bool:
        """Whether ``other`` is this folder or below it."""
        return isinstance(other, OnDisk) and Path(other.real()).is_relative_to(self.real())

    def real(self) -> str:
        """Return the path without links."""
        return os.path.realpath(self.path)

    def entries(self) -> list[Entry]:
        """List this folder. Raises BadInput."""
        try:
            with os.scandir(self.path) as entries:
                return [_entry(entry) for entry in entries]
        except OSError as error:
            raise BadInput(f"{self}: {_cannot(error)}") from error

    def entry(self, name: str) -> list[Entry]:
        """Return the entry of this name in this folder, or nothing. Raises BadInput."""
        path = self.path / name
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise BadInput(f"{path}: {_cannot(error)}") from error
        return [_followed(path)]

    def is_file(self) -> bool:
        """Whether a file, no folder, has this name."""
        return self.path.exists() and not self.path.is_dir()

    def signature(self) -> list[Any]:
        """Return the size, and what changes when the content does. Raises if there is no such file."""
        status = self.path.stat()
        return [status.st_size, status.st_mtime_ns]

    def read(self) -> str:
        """Return a small text. Raises if there is no such file."""
        return self.path.read_text(encoding="utf-8")

    def write(self, text: str) -> None:
        """Put a small text there."""
        self.make_folder(self.path.parent)
        try:
            self.path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError.at(str(self), error) from error

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """Open the model as a file on disk, its external data beside it."""
        yield self.path

    @contextmanager
    def replaced(self) -> Iterator[Path]:
        """Return where to write the model that is to stand here.

        The place itself, a job writes beside it and renames.
        """
        self.make_folder(self.path.parent)
        yield self.path

    @staticmethod
    def make_folder(folder: Path) -> None:
        """Make the folder. Raises OutputError where there can be none."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made: {error.strerror or error}") from error


def below(source: str) -> tuple[OnDisk, Walked]:
    """Find the models that a path or a pattern names.

    Returns:
        The folder that results are placed relative to, and what is below it.

    Raises:
        BadInput: There is no such file, or it cannot be read.
    """
    path = Path(source)
    is_named = any(map(is_foreign, path.parts))
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if not any(mark in source for mark in MAGIC):
            raise BadInput(f"{source}: {_cannot(error)}") from error
        fixed = fixed_parts(path.parts)
        root = OnDisk(Path(*fixed))
        return root, walk(root, path.parts[len(fixed) :], is_named=is_named)
    if stat.S_ISDIR(mode):
        return OnDisk(path), walk(OnDisk(path), IN_A_FOLDER, is_named=is_named)
    entry = _followed(path)
    faults = [] if entry.kind == "file" else [NotLookedAt(path.name, f"{source}: {entry.why}")]
    return OnDisk(path.parent), Walked([path.name] if not faults else [], faults, 0)


def _entry(entry: os.DirEntry[str]) -> Entry:
    if entry.is_dir(follow_symlinks=False):
        return Entry(entry.name, "folder")
    return Entry(entry.name, "file") if entry.is_file(follow_symlinks=False) else _followed(Path(entry.path))


def _followed(path: Path) -> Entry:
    """Return the entry of this path; for a link that of its target."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            return Entry(path.name, "unreadable", _cannot(error))
        return Entry(path.name, "missing", "is a link that leads nowhere" if path.is_symlink() else _cannot(error))
    if stat.S_ISDIR(mode):
        return Entry(path.name, "folder", target=os.path.realpath(path) if path.is_symlink() else "")
    return Entry(path.name, "file") if stat.S_ISREG(mode) else Entry(path.name, "special", "is no regular file")


def _cannot(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"
