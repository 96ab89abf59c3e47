"""The walk that finds the models below a folder, on disk or behind a URL, and names what it could not look at.

A folder stands for the pattern ``**/*.onnx`` below it. Links to folders are followed, but each folder is listed once
for each part of the pattern, so that a loop of links ends, and ``**`` finds no model twice.
"""

from __future__ import annotations

import os
import posixpath
from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

from bnfold.batch.addresses import MAGIC
from bnfold.errors import BadInput

ANY_DEPTH = "**"
IN_A_FOLDER = (ANY_DEPTH, "*.[oO][nN][nN][xX]")
"""The pattern of the models below a folder."""
FOREIGN = frozenset({"venv", "node_modules", "site-packages", "__pycache__"})
"""Folders that hold installed packages, whose models are not the user's."""


class Entry(NamedTuple):
    """One entry of a folder.

    Attributes:
        kind: ``missing`` is a link whose target is not there, ``special`` neither a file nor a folder, ``unreadable``
            what the system does not tell.
        why: Why it is missing, special or unreadable.
        target: Where a link to a folder leads, without further links; empty for everything else.
    """

    name: str
    kind: Literal["file", "folder", "missing", "special", "unreadable"]
    why: str = ""
    target: str = ""


class Folder(Protocol):
    """What the walk asks of a folder; ``str`` is what people read."""

    def child(self, relative: str) -> Self:
        """Return the file or folder below this one; the folder itself for an empty path."""

    def real(self) -> str:
        """Return its path without links."""

    def entries(self) -> list[Entry]:
        """List the folder. Raises BadInput if that fails; its cause says whether there is such a folder."""

    def entry(self, name: str) -> list[Entry]:
        """Return the entry of this name, or nothing. Raises as `entries`."""


class NotLookedAt(NamedTuple):
    """What could not be looked at, relative to where the walk began, and the error that names it."""

    path: str
    error: str


class Walked(NamedTuple):
    """What a walk found; paths are relative to where it began.

    ``left_out`` counts the models in hidden folders and in installed packages.
    """

    models: list[str]
    unreadable: list[NotLookedAt]
    left_out: int


def walk(root: Folder, pattern: Sequence[str], *, is_named: bool) -> Walked:
    """Find the files below ``root`` that match the parts of a pattern.

    ``is_named`` says that a folder that is hidden, or of installed packages, was named: then none is left out.
    """
    found = _Walk(root, [*pattern, "*"] if pattern[-1] == ANY_DEPTH else [*pattern])
    found.run()
    kept = sorted(path for path in found.models if is_named or not in_foreign(path))
    faults = {path.rstrip("/"): why for path, why in found.unreadable.items() if is_named or not in_foreign(path)}
    return Walked(kept, [NotLookedAt(*fault) for fault in sorted(faults.items())], len(found.models) - len(kept))


class _Visit(NamedTuple):
    """A folder to list, its path without links, and the part of the pattern that its entries are to match."""

    path: str
    real: str
    part: int


class _Walk:
    """A walk under way: what it found so far, and the folders to list, those behind links last.

    So a model keeps the name of the place where it lies.
    """

    def __init__(self, root: Folder, parts: Sequence[str]) -> None:
        self._root, self._parts, self._start = root, parts, root.real()
        self._folders, self._links = [_Visit("", self._start, 0)], deque[_Visit]()
        self._visited: set[tuple[str, int, bool]] = set()
        self.models: set[str] = set()
        self.unreadable: dict[str, str] = {}  # paths of what may be a folder end in a slash

    def run(self) -> None:
        """List every folder that may hold what matches."""
        while self._folders or self._links:
            visit = self._folders.pop() if self._folders else self._links.popleft()
            if self._is_new(visit):
                self._list(visit)

    def _is_new(self, visit: _Visit) -> bool:
        key = (visit.real, visit.part, in_foreign(f"{visit.path}/"))
        is_new = key not in self._visited
        self._visited.add(key)
        return is_new

    def _list(self, visit: _Visit) -> None:
        part, folder = self._parts[visit.part], self._root.child(visit.path)
        try:
            entries = folder.entries() if _is_magic(part) else folder.entry(part)
        except BadInput as error:
            if visit.path or not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                self.unreadable[f"{visit.path}/"] = str(error)
        else:
            self._match(visit, entries)

    def _match(self, visit: _Visit, entries: Sequence[Entry]) -> None:
        """Use what matches; ``**`` stands for no folder, too, so that the next part is about the same entries."""
        part = self._parts[visit.part]
        if part == ANY_DEPTH:
            following = visit._replace(part=visit.part + 1)
            if not _is_magic(self._parts[following.part]):
                self._folders.append(following)
            elif self._is_new(following):
                self._match(following, entries)
        use = self._take_last if visit.part + 1 == len(self._parts) else self._enter
        for entry in entries:
            if part == ANY_DEPTH or fnmatch(entry.name, part):
                use(visit, posixpath.join(visit.path, entry.name), entry)

    def _enter(self, visit: _Visit, path: str, entry: Entry) -> None:
        """Enter a folder that matches; under ``**`` no link to one that encloses where the walk began."""
        is_any = self._parts[visit.part] == ANY_DEPTH
        if entry.kind == "unreadable":
            self._name(f"{path}/", entry.why)
        elif entry.kind == "folder" and not (is_any and entry.target and _is_below(self._start, entry.target)):
            real = entry.target or os.path.join(visit.real, entry.name)  # noqa: PTH118 - only compared
            (self._links if entry.target else self._folders).append(_Visit(path, real, visit.part + (not is_any)))

    def _take_last(self, visit: _Visit, path: str, entry: Entry) -> None:
        """Take a file that matches the whole pattern; what is no file was to be a model, too."""
        part = self._parts[visit.part]
        if entry.kind == "file":
            if not entry.name.startswith(".") or part.startswith(".") or is_model(entry.name):  # as in a shell
                self.models.add(path)
        elif entry.kind != "folder":
            self._name(path, entry.why)
        elif is_model(entry.name) and ANY_DEPTH not in self._parts[: visit.part][-1:]:
            self._name(path, "is a folder; name it to use the models in it")

    def _name(self, path: str, why: str) -> None:
        self.unreadable[path] = f"{self._root.child(path)}: {why}"


def _is_magic(part: str) -> bool:
    return any(mark in part for mark in MAGIC)


def _is_below(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def is_model(name: str) -> bool:
    """Whether a file of this name is a model of the folder that it lies in."""
    return fnmatch(name, IN_A_FOLDER[-1])


def is_foreign(folder: str) -> bool:
    """Whether a folder of this name is hidden, or belongs to installed packages."""
    return folder in FOREIGN or (folder.startswith(".") and folder.strip(".") != "")


def in_foreign(relative: str) -> bool:
    """Whether a file's path leads through such a folder."""
    return any(map(is_foreign, relative.split("/")[:-1]))


def fixed_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders in front of the first part of a pattern that has a wildcard; of a plain file its folder."""
    fixed = next((index for index, part in enumerate(parts) if _is_magic(part)), len(parts) - 1)
    return parts[:fixed]
