"""The table [tool.bnfold] of the nearest pyproject.toml that has one: what a repository wants of every command."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bnfold.errors import WrongUsage

NAME = "pyproject.toml"


class Project(NamedTuple):
    """The settings of a repository, by the names of the options that they stand for; ``file`` is where they are."""

    file: Path | None
    settings: Mapping[str, Any]


def project() -> Project:
    """Return the settings that hold in the working directory; none if no file above it has the table.

    Raises:
        WrongUsage: The file cannot be read, or has a key or a value that means nothing.
    """
    return _nearest(Path.cwd())


@cache
def _nearest(folder: Path) -> Project:
    for parent in (folder, *folder.parents):
        file = parent / NAME
        table = _table(file)
        if table is not None:
            return Project(file, {_OPTIONS[key][0]: _read(file, key, table[key]) for key in _known(file, table)})
    return Project(None, {})


def _table(file: Path) -> Mapping[str, Any] | None:
    """Return the table in this file; None if there is no such file, or no table in it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise WrongUsage(f"{file}: cannot be read: it is not UTF-8") from error
    if "bnfold" not in text:
        return None
    import tomllib

    try:
        table = tomllib.loads(text).get("tool", {}).get("bnfold")
    except tomllib.TOMLDecodeError as error:
        raise WrongUsage(f"{file}: is no TOML: {error}") from error
    if table is not None and not isinstance(table, dict):
        raise WrongUsage(f"{file}: tool.bnfold is no table")
    return table


def _known(file: Path, table: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = [key for key in table if key not in _OPTIONS]
    if unknown:
        known = ", ".join(_OPTIONS)
        raise WrongUsage(f"{file}: [tool.bnfold] has the unknown key {unknown[0]!r}; known are {known}")
    return table


def _read(file: Path, key: str, value: Any) -> Any:
    _, wanted, read = _OPTIONS[key]
    try:
        return read(file.parent, value)
    except (TypeError, ValueError):
        raise WrongUsage(f"{file}: [tool.bnfold] {key} = {value!r}: it has to be {wanted}") from None


def _opset(_: Path, value: Any) -> tuple[str]:
    if isinstance(value, bool) or (value not in ("keep", "latest") and not isinstance(value, int)):
        raise ValueError
    return (str(value),)


def _operators(_: Path, value: Any) -> str:
    return ",".join(_texts(value))


def _patterns(folder: Path, value: Any) -> tuple[str, ...]:
    """Return patterns that hold in any working directory: those with a slash begin where the file is."""
    return tuple(f"{glob.escape(folder.as_posix())}/{each}" if "/" in each else each for each in _texts(value))


def _texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise TypeError
    return texts


_OPTIONS: Mapping[str, tuple[str, str, Callable[[Path, Any], Any]]] = {
    "opset": ("target_opset", "a number, 'keep' or 'latest'", _opset),
    "assert-none": ("assert_none", "a list of operators", _operators),
    "exclude": ("exclude", "a list of patterns", _patterns),
}
"""For each key the option that it is the default of, what its value has to be, and what reads it."""


def is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a file, or a folder that it is in, matches one of the patterns.

    A pattern without a slash is about names at any depth, another one about paths below the working directory.
    """
    absolute = Path(path).absolute()
    places = [each.as_posix() for each in (absolute, *absolute.parents)]
    for pattern in (each.rstrip("/") for each in patterns):
        if "/" not in pattern:
            names = [part for part in Path(path).parts if part not in ("..", "/")]
            if any(fnmatchcase(name, pattern) for name in names):
                return True
            continue
        whole = pattern if Path(pattern).is_absolute() else f"{glob.escape(Path.cwd().as_posix())}/{pattern}"
        if any(fnmatchcase(place, whole) for place in places):
            return True
    return False
