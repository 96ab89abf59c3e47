"""Files and folders on disk as places of a batch."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bnfold.batch.addresses import MAGIC
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
        return isinstance(other, OnDisk) and other.path.resolve().is_relative_to(self.path.resolve())

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
            raise OutputError.at(self, error) from error

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


def below(source: str) -> tuple[OnDisk, list[str], int]:
    """Find the models that a path or a pattern names.

    Returns:
        The folder that results are placed relative to, the models below it, and the number of models left out: those
        in folders of other programs (`is_foreign`) that ``source`` does not name.

    Raises:
        BadInput: There is no such file.
    """
    path = Path(source)
    if path.is_dir():
        root = path
        found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names if name.endswith(".onnx")]
    elif path.exists():
        return OnDisk(path.parent), [path.name] if path.is_file() else [], 0
    elif not any(mark in source for mark in MAGIC):
        raise BadInput(f"{source}: cannot be read: {os.strerror(errno.ENOENT)}")
    else:
        root = Path(*fixed_parts(path.parts))
        found = [Path(path) for path in glob.glob(source, recursive=True)]  # noqa: PTH207 - keeps the user's path
    models = sorted(path.relative_to(root).as_posix() for path in found if path.is_file())
    kept = models if any(map(is_foreign, path.parts)) else [model for model in models if not in_foreign(model)]
    return OnDisk(root), kept, len(models) - len(kept)


FOREIGN = frozenset({"venv", "node_modules", "site-packages", "__pycache__"})
"""Folders that hold installed packages, whose models are not the user's."""


def is_foreign(folder: str) -> bool:
    """Whether a folder of this name is hidden, or belongs to installed packages."""
    return folder in FOREIGN or (folder.startswith(".") and folder.strip(".") != "")


def in_foreign(relative: str) -> bool:
    """Whether a file's path leads through such a folder."""
    return any(map(is_foreign, relative.split("/")[:-1]))


def fixed_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders in front of the first part of a pattern that has a wildcard; of a plain file its folder."""
    fixed = next((index for index, part in enumerate(parts) if any(mark in part for mark in MAGIC)), len(parts) - 1)
    return parts[:fixed]
