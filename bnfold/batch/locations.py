"""Where the models of a batch lie and go: on disk (`disk`) or behind a URL; both look the same from outside.

URLs go through fsspec: a model is fetched into a temporary folder, processed there, and the result sent back.
Credentials and settings are fsspec's own: its configuration files, environment variables, and what each file system
reads. They are looked up by the process that works on a model, so on a cluster they are the workers'.
"""

from __future__ import annotations

import posixpath
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bnfold.batch import disk, filesystem
from bnfold.batch.addresses import MAGIC, is_url, without_password
from bnfold.batch.disk import OnDisk
from bnfold.batch.walk import IN_A_FOLDER, Entry, Walked, fixed_parts, is_foreign, walk
from bnfold.errors import BadInput, BnfoldError

CHANGES = (
    "ETag", "etag", "generation", "md5Hash", "sha", "CRC",
    "mtime", "modify", "modificationTime", "LastModified", "last_modified", "modified", "created",
)  # fmt: skip
"""Names of the attribute in which file systems mark the version of a file; the surest first."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A file or folder behind a URL, with the methods of `OnDisk`; its signature is None if versions are not marked.

    Attributes:
        url: Any URL of the file system.
        path: The file on it, as fsspec names it.
        before, after: What stands around ``path`` in the URL that people read.
    """

    url: str
    path: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return without_password(f"{self.before}{self.path}{self.after}")

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    def child(self, relative: str) -> Remote:
        return replace(self, path=posixpath.join(self.path, relative) if relative else self.path)

    def sibling(self, name: str) -> Remote:
        return replace(self, path=posixpath.join(posixpath.dirname(self.path), name))

    def holds(self, other: object) -> bool:
        if not isinstance(other, Remote) or filesystem.system(self.url) != filesystem.system(other.url):
            return False
        return other.path == self.path or other.path.startswith(self.path.rstrip("/") + "/")

    def real(self) -> str:
        return self.path

    def entries(self) -> list[Entry]:
        """List this folder, whose links are not followed. Raises BadInput."""
        with filesystem.naming_errors(self, "read"):
            listed = filesystem.system(self.url).ls(self.path, detail=True)
        named = [
            (str(facts["name"]).rstrip("/"), facts["type"]) for facts in listed
        ]  # object stores list the folder, too
        return [
            Entry(posixpath.basename(path), "folder" if kind == "directory" else "file")
            for path, kind in named
            if path.strip("/") != self.path.strip("/")
        ]

    def entry(self, name: str) -> list[Entry]:
        return [entry for entry in self.entries() if entry.name == name]

    def is_file(self) -> bool:
        with filesystem.naming_errors(self, "read"):
            return bool(filesystem.system(self.url).isfile(self.path))

    def signature(self) -> list[Any] | None:
        system = filesystem.system(self.url)
        with filesystem.naming_errors(self, "read"):
            system.invalidate_cache()
            facts = system.info(self.path)
        mark = next((str(facts[key]) for key in CHANGES if facts.get(key) is not None), None)
        return [facts["size"], mark] if mark is not None else None

    def read(self) -> str:
        with filesystem.naming_errors(self, "read"):
            return bytes(filesystem.system(self.url).cat_file(self.path)).decode()

    def write(self, text: str) -> None:
        with filesystem.naming_errors(self, "written"):
            filesystem.write(filesystem.system(self.url), text.encode(), self.path)

    @contextmanager
    def opened(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="bnfold-", dir=_scratch()) as folder:
            yield self._fetch(Path(folder).resolve())

    @contextmanager
    def replaced(self) -> Iterator[Path]:
        """Replace a file through a copy of what stands there, so that a job treats an old output as it always does.

        Then the difference is sent: data files first, the model that refers to them last; only then old ones go.
        """
        with tempfile.TemporaryDirectory(prefix="bnfold-", dir=_scratch()) as folder:
            target = Path(folder).resolve() / self.name
            self._fetch_old(target)
            old = _states(target.parent)
            yield target
            new = _states(target.parent)
            for path in sorted((path for path in new if new[path] != old.get(path)), key=lambda path: path == target):
                place = self.sibling(path.name)
                with filesystem.naming_errors(place, "written"):
                    filesystem.put(filesystem.system(self.url), path, place.path)
            for path in old.keys() - new.keys():
                with suppress(Exception):
                    filesystem.system(self.url).rm_file(self.sibling(path.name).path)

    def _fetch(self, folder: Path) -> Path:
        """Fetch the model and its external data.

        Files that are missing or outside are reported when the model is loaded.
        """
        from bnfold import ir
        from bnfold.ir.storage.external import resolved

        target = folder / self.name
        system = filesystem.system(self.url)
        with filesystem.naming_errors(self, "read"):
            system.get_file(self.path, str(target))
        locations: list[str] = []
        with suppress(BnfoldError):  # it is no model, which loading it will report
            locations = ir.external_locations(target)
        for location in locations:
            beside, data = folder / location, self.sibling(location)
            behind = resolved(beside)
            if beside == target or behind is None or not behind.is_relative_to(folder):
                continue
            with filesystem.naming_errors(data, "read"):
                if system.isfile(data.path):
                    beside.parent.mkdir(parents=True, exist_ok=True)
                    system.get_file(data.path, str(beside))
        return target

    def _fetch_old(self, target: Path) -> None:
        """Fetch the output that is to be replaced.

        Where something else has the data file's name, an empty file says so.
        """
        system = filesystem.system(self.url)
        with filesystem.naming_errors(self, "written"):
            system.invalidate_cache()
            stands, data = system.isfile(self.path), self.sibling(f"{self.name}.data")
        if stands:
            with suppress(BnfoldError):  # what stands there is no model of ours
                self._fetch(target.parent)
        taken = target.with_name(data.name)
        if not taken.exists() and data.is_file():
            taken.write_bytes(b"taken")  # not empty: an empty file counts as left by a killed run


Place = OnDisk | Remote


def place(text: str) -> Place:
    """Return the file or folder of this name. Raises BadInput for a URL that cannot be used."""
    if not is_url(text):
        return OnDisk(Path(text))
    system, path = filesystem.opened(text)
    from fsspec.implementations.local import LocalFileSystem

    if isinstance(system, LocalFileSystem):
        return OnDisk(Path(path))
    first, mark, rest = text.partition("::")
    # An object store's path begins with the bucket, a server's behind its name: the URL itself shows where.
    first, path = first.rstrip("/"), path.rstrip("/")
    before = first.removesuffix(path) if first.endswith(path) else system.unstrip_protocol("")
    return Remote(text, path, before, mark + rest)


def below(source: str) -> tuple[Place, Walked]:
    """Find the models that a path, a pattern or a URL names.

    Returns:
        The folder that results are placed relative to, and what is below it.

    Raises:
        BadInput: There is nothing, or a URL cannot be used.
    """
    everything = place(source)
    root: Place
    root, walked = _below(everything) if isinstance(everything, Remote) else disk.below(str(everything))
    if not walked.models and not walked.unreadable:
        hidden = (
            f" ({walked.left_out} in hidden folders or installed packages; name such a folder to use it)"
            if walked.left_out
            else ""
        )
        raise BadInput(f"{source}: no .onnx files there{hidden}")
    return root, walked


def _below(everything: Remote) -> tuple[Remote, Walked]:
    system, path = filesystem.opened(everything.url)
    parts = tuple(path.split("/"))
    pattern: Sequence[str] = IN_A_FOLDER
    folder = path
    if any(mark in path for mark in MAGIC):
        fixed = fixed_parts(parts)
        folder, pattern = "/".join(fixed) or path[: path.startswith("/")], parts[len(fixed) :]
    else:
        with filesystem.naming_errors(everything, "read"):
            if system.isfile(path):
                file = replace(everything, path=posixpath.dirname(path))
                return file, Walked([posixpath.basename(path)], [], 0)
    root = replace(everything, path=folder)
    return root, walk(root, pattern, is_named=any(map(is_foreign, parts)))


def _scratch() -> str | None:
    """Return the folder for copies: on a Dask worker its own, which Dask removes when the worker has been killed.

    Else the usual place.
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        return str(get_worker().local_directory)
    except ValueError:  # this is no worker
        return None


def _states(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """Return the files of a job's folder; one that was replaced has another number."""
    found = {path: path.stat() for path in folder.iterdir() if path.is_file()}
    return {path: (status.st_ino, status.st_size, status.st_mtime_ns) for path, status in found.items()}
