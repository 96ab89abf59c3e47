"""What bnfold asks of fsspec: to open a URL, to put a file there whole or not at all, errors in one line."""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bnfold.batch.addresses import without_password
from bnfold.errors import BadInput, BnfoldError, OutputError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def opened(url: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system behind a URL, and the path on it. Raises BadInput for a URL that cannot be used."""
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError as error:
        raise BadInput(f"{without_password(url)}: a URL needs fsspec: pip install fsspec") from error
    try:
        found, path = url_to_fs(url)
    except Exception as error:  # an unknown protocol, a package that is missing, a server that does not answer
        raise BadInput(f"{without_password(url)}: cannot be used: {_line(error)}") from error
    return found, str(path)


def system(url: str) -> AbstractFileSystem:
    """Return the file system alone. fsspec keeps one for each process, thread and server."""
    return opened(url)[0]


def put(found: AbstractFileSystem, local: Path, path: str) -> None:
    """Put a file there whole or not at all.

    Object stores show a file when it is complete. What has a rename of its own, as file systems have, gets the file
    under another name first; what an interrupted attempt left there is removed.
    """
    if not _renames(found):
        found.put_file(str(local), path)
        return
    folder, name = posixpath.split(path)
    found.invalidate_cache()
    _make_folder(found, folder)
    for facts in found.ls(folder, detail=True):
        left = posixpath.basename(facts["name"])
        if re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.tmp", left):
            found.rm_file(posixpath.join(folder, left))
    temporary = posixpath.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
    try:
        found.put_file(str(local), temporary)
        _rename(found, temporary, path)
    except BaseException:
        with suppress(Exception):
            found.rm_file(temporary)
        raise


def write(found: AbstractFileSystem, data: bytes, path: str) -> None:
    """Write a small file, and make its folder; object stores have none."""
    if _renames(found):
        _make_folder(found, posixpath.dirname(path))
    found.pipe_file(path, data)


def _make_folder(found: AbstractFileSystem, folder: str) -> None:
    """Do as ``makedirs``, which not every file system does well when two processes make a folder at once."""
    if found.isdir(folder):
        return
    parent = posixpath.dirname(folder)
    if parent != folder:
        _make_folder(found, parent)
    try:
        found.mkdir(folder, create_parents=False)
    except Exception:
        found.invalidate_cache()
        if not found.isdir(folder):
            raise


def _renames(found: AbstractFileSystem) -> bool:
    """Whether it has a rename; fsspec's own ``mv`` copies and deletes."""
    from fsspec import AbstractFileSystem
    from fsspec.implementations.dirfs import DirFileSystem

    if isinstance(found, DirFileSystem):
        return _renames(found.fs)
    return type(found).mv is not AbstractFileSystem.mv


def _rename(found: AbstractFileSystem, temporary: str, final: str) -> None:
    """Rename a file; some servers refuse to rename to a name that is taken, some of them without an error."""
    try:
        found.mv(temporary, final)
    except Exception:
        if not found.isfile(final):
            raise
    if found.isfile(temporary):
        found.rm_file(final)
        found.mv(temporary, final)


@contextmanager
def naming_errors(place: object, what: Literal["read", "written"]) -> Iterator[None]:
    """Turn exceptions of file systems and their libraries into one line that names the file.

    Raises:
        BadInput, OutputError: It cannot be read, or written.
    """
    try:
        yield
    except BnfoldError:
        raise
    except Exception as error:
        kind = OutputError if what == "written" else BadInput
        raise kind(f"{place}: cannot be {what}: {_line(error)}") from error


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
