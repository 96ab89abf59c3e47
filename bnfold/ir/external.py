"""External data: where a tensor says its bytes lie, believed only inside the model's own directory."""

from __future__ import annotations

import stat
from pathlib import Path

import onnx

from bnfold.errors import ExternalDataError
from bnfold.ir.source import FileSource
from bnfold.ir.tensor import Span, Stored


class ExternalFiles:
    """The data files of one model, each opened once."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory.resolve() if directory is not None else None
        self._open: dict[str, FileSource] = {}

    def stored(self, proto: onnx.TensorProto) -> Stored:
        """The tensor that ``proto`` refers to. Raises ExternalDataError for a place that cannot be read safely."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        source = self._source(proto.name, location)
        offset = _number(proto.name, "offset", entries.get("offset", "0") or "0")
        length = _number(proto.name, "length", entries.get("length") or str(max(source.size - offset, 0)))
        if offset + length > source.size:
            raise ExternalDataError(
                f"{source.path}: tensor {proto.name!r} needs bytes {offset} to {offset + length}, the file has {source.size}"
            )
        tensor = Stored(proto.data_type, proto.dims, Span(source, offset, length, is_external=True), proto.name)
        if not entries.get("length"):
            tensor.span = Span(source, offset, min(length, tensor.nbytes), is_external=True)
        return tensor

    def _source(self, name: str, location: str) -> FileSource:
        if location in self._open:
            return self._open[location]
        if self._directory is None:
            raise ExternalDataError(
                f"tensor {name!r} has external data ({location!r}), but the model was not read from a file; load it by its path"
            )
        target = (self._directory / location).resolve()
        inside = not Path(location).is_absolute() and target.is_relative_to(self._directory)
        if not location or not inside:
            raise ExternalDataError(f"tensor {name!r}: external data {location!r} lies outside the model's directory")
        try:
            regular = stat.S_ISREG(target.stat().st_mode)
        except (OSError, ValueError) as error:
            raise ExternalDataError(f"tensor {name!r}: external data file {location!r} is missing beside the model") from error
        if not regular:
            raise ExternalDataError(f"tensor {name!r}: external data {location!r} is not a regular file")
        self._open[location] = FileSource(target)
        return self._open[location]


def _number(name: str, key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ExternalDataError(f"tensor {name!r}: external data {key} {text[:40]!r} is not a byte count")
    return int(text)
