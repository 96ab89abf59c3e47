"""External data: where a tensor says its bytes lie, believed only inside the model's own directory."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import onnx

from bnfold.errors import BadInput, ExternalDataError
from bnfold.ir.elements import TP
from bnfold.ir.storage.foreign import LFS_POINTER
from bnfold.ir.storage.source import FileSource
from bnfold.ir.storage.stored import Span, Stored

MAX_HELD = 64
"""Data files of a model that are held open; further ones are opened when they are read."""


class ExternalFiles:
    """The data files of one model, by location, looked for in ``folders`` one after another and nowhere else.

    Links are followed first: what counts is that the file itself lies in one of the folders.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._open: dict[str, FileSource] = {}

    def stored(self, proto: onnx.TensorProto) -> Stored:
        """Return the tensor that ``proto`` refers to.

        Raises ExternalDataError for a place that cannot be read safely.
        """
        if proto.data_type == TP.STRING:
            raise ExternalDataError(f"tensor {proto.name!r}: strings cannot be external data")
        entries = {entry.key: entry.value for entry in proto.external_data}
        source = self._source(proto.name, entries.get("location", ""))
        offset = _number(proto.name, "offset", entries.get("offset") or "0")
        rest = source.size - offset
        length = _number(proto.name, "length", entries.get("length") or str(max(rest, 0)))
        if length > rest:
            raise ExternalDataError(
                f"tensor {proto.name!r} needs bytes {offset} to {offset + length} of {source.path}, "
                f"which has {source.size}: it is cut off, or another model's"
            )
        tensor = Stored(proto.data_type, proto.dims, Span(source, offset, length, is_external=True), proto.name)
        if not entries.get("length"):
            tensor.span = Span(source, offset, min(length, tensor.nbytes), is_external=True)
        tensor.check()
        return tensor

    def _source(self, name: str, location: str) -> FileSource:
        if location not in self._open:
            target = self._find(name, location)
            try:
                source = FileSource(target, hold=len(self._open) < MAX_HELD)
            except BadInput as error:
                raise ExternalDataError(f"tensor {name!r}: external data {error}") from error
            self._check(source, name, location)
            if source.read(0, min(source.size, len(LFS_POINTER))) == LFS_POINTER:
                raise ExternalDataError(
                    f"tensor {name!r}: external data {location!r} is a Git LFS pointer; run `git lfs pull`"
                )
            self._open[location] = source
        return self._open[location]

    def _check(self, source: FileSource, name: str, location: str) -> None:
        """Check that what was opened is what was looked at, and has no other name, which could lie anywhere."""
        what = f"tensor {name!r}: external data {location!r}"
        if self._find(name, location) != source.path or not source.is_at(source.path):
            raise ExternalDataError(f"{what} was replaced by another file while it was opened")
        if source.links > 1:
            raise ExternalDataError(
                f"{what} is a hard link: the file has {source.links} names and may belong elsewhere; put a copy there"
            )

    def _find(self, name: str, location: str) -> Path:
        what = f"tensor {name!r}: external data {location!r}"
        if not self._folders:
            raise ExternalDataError(f"{what}, but the model was not read from a file; load it by its path")
        places = [target for folder in self._folders if (target := resolved(folder / location)) is not None]
        allowed = [folder.resolve() for folder in self._folders]
        inside = [target for target in places if any(target.is_relative_to(folder) for folder in allowed)]
        if not location or Path(location).is_absolute() or not inside:
            raise ExternalDataError(f"{what} lies outside the model's directory")
        for target in inside:
            try:
                mode = target.stat().st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode):
                return target
            raise ExternalDataError(f"{what} is not a regular file")
        raise ExternalDataError(f"{what} is missing beside the model: put the file there, under this name")


def resolved(path: Path) -> Path | None:
    """Return the file itself, behind all links; None for a name that no file can have, or links in a circle."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return None


def _number(name: str, key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ExternalDataError(f"tensor {name!r}: external data {key} {text[:40]!r} is not a byte count")
    return int(text)
