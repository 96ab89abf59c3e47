"""Write a model: the skeleton with every token replaced by its payload, streamed, beside its place, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO

from bnfold.errors import OutputError
from bnfold.ir import datafile, wire
from bnfold.ir.lower import Reference, Segment, lower
from bnfold.ir.stream import Progress, write_payload
from bnfold.ir.model import TOKEN_LENGTH, Model
from bnfold.ir.tensor import Stored, Tensor

PROTOBUF_LIMIT = (1 << 31) - 1
BUFFER = 1 << 20


@dataclass
class Staged:
    """A model written beside its place. `commit` puts it there by one rename, `discard` leaves no trace."""

    target: Path
    path: Path
    data_path: Path | None = None
    obsolete: list[Path] = field(default_factory=list)
    done: bool = False

    def commit(self) -> None:
        """Rename into place; data files of the model that stood there are removed afterwards."""
        try:
            if self.target.exists():
                shutil.copymode(self.target, self.path)
            os.replace(self.path, self.target)
        except OSError as error:
            self.discard()
            raise OutputError(f"{self.target}: cannot be written: {error.strerror or error}") from error
        self.done = True
        for path in self.obsolete:
            with suppress(OSError):
                path.unlink()

    def discard(self) -> None:
        """Remove what was staged; harmless after `commit`."""
        if self.done:
            return
        self.done = True
        for path in (self.path, self.data_path):
            if path is not None:
                with suppress(OSError):
                    path.unlink()

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def save(model: Model, path: str | os.PathLike[str], *, external_data: str = "auto") -> None:
    """Write the model to ``path``; see `stage`."""
    with stage(model, path, external_data=external_data) as staged:
        staged.commit()


def encode(model: Model) -> bytes:
    """The whole model as bytes, weights inside; for streams. Raises OutputError beyond protobuf's 2 GB."""
    segments = _inline_segments(model)
    if _length(segments) > PROTOBUF_LIMIT:
        raise OutputError("the model is beyond protobuf's 2 GB and cannot go to a stream; write it to a file")
    out = BytesIO()
    _write_segments(model, segments, out, None)
    return out.getvalue()


def stage(
    model: Model, path: str | os.PathLike[str], *, external_data: str = "auto", progress: Progress | None = None
) -> Staged:
    """Write the model under a temporary name in the directory of ``path``.

    ``external_data``: ``none`` keeps weights inside, ``keep`` leaves them where the input had them, ``auto`` does so
    too but moves them out when protobuf's 2 GB limit demands it. ``progress`` is told the bytes of every piece written.
    Raises OutputError (cannot be written) and RangeViolation (a folded weight overflows); nothing is left behind.
    """
    target = Path(path)
    outside = external_data != "none" and model.has_external_data
    segments = [] if outside else _inline_segments(model)
    too_large = not outside and _length(segments) > PROTOBUF_LIMIT
    if too_large and external_data != "auto":
        raise OutputError(f"{target}: the model is beyond protobuf's 2 GB and needs external data")
    staged = Staged(target, _temporary(target))
    try:
        if outside or too_large:
            segments = _stage_data(model, staged, progress, everything=too_large)
        with open(staged.path, "xb", buffering=BUFFER) as out:
            _write_segments(model, segments, out, progress)
        model.check_sources()
    except OSError as error:
        staged.discard()
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error
    except BaseException:
        staged.discard()
        raise
    return staged


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def _length(segments: Iterable[Segment]) -> int:
    return sum(segment.length if isinstance(segment, Reference) else len(segment) for segment in segments)


def _skeleton(model: Model) -> bytes:
    model.sync()
    return model.proto.SerializeToString()


def _inline_place(tensor: Tensor) -> tuple[int, int]:
    if isinstance(tensor, Stored):
        return tensor.span.field, tensor.span.length
    return wire.RAW_DATA, tensor.nbytes


def _inline_segments(model: Model) -> list[Segment]:
    payloads = model.payloads
    return lower(
        _skeleton(model), payloads.nonce, TOKEN_LENGTH, lambda token, _: _inline_place(payloads.held(token))
    )


def _stage_data(model: Model, staged: Staged, progress: Progress | None, *, everything: bool) -> list[Segment]:
    """Write the data file under a name not in use; the segments of the model that refers to it."""
    skeleton, payloads = _skeleton(model), model.payloads
    places = datafile.layout(skeleton, payloads, everything=everything)
    staged.data_path = _temporary(staged.target)
    datafile.write(staged.data_path, places, payloads, progress)
    final = datafile.free_name(staged.target, staged.data_path)
    os.rename(staged.data_path, final)
    staged.data_path = final
    staged.obsolete = datafile.obsolete(staged.target, final)

    def refer(token: bytes, _: bool) -> tuple[int, int] | bytes:
        if token not in places:
            return _inline_place(payloads.held(token))
        return wire.external_fields(final.name, *places[token])

    return lower(skeleton, payloads.nonce, TOKEN_LENGTH, refer)


def _write_segments(model: Model, segments: Iterable[Segment], out: IO[bytes], progress: Progress | None) -> None:
    for segment in segments:
        if isinstance(segment, Reference):
            write_payload(model.payloads.held(segment.token), out, as_stored=True, progress=progress)
        else:
            out.write(segment)
