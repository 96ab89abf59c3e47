"""Write a model: the skeleton with every token replaced by its payload, streamed, beside its place, then renamed.

Nothing is flushed to the disk itself (`os.fsync`), as with a plain copy: a killed process leaves the old state or the
new one (and temporary files, which the next run removes), a power failure may not, and waiting for the disk would cost
more than all the rest.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO

from bnfold.errors import OutputError
from bnfold.ir.model import Model
from bnfold.ir.storage import datafile, locked_file, wire
from bnfold.ir.storage.payloads import THRESHOLD, TOKEN_LENGTH
from bnfold.ir.storage.skeleton import insert_payloads
from bnfold.ir.storage.staged import Staged
from bnfold.ir.storage.stored import Stored
from bnfold.ir.storage.stream import BytesProgress, fill, need_threads, write_payload, write_payloads
from bnfold.ir.storage.walk import Reference, Segment
from bnfold.ir.tensor import Computed, Inline, Tensor

PROTOBUF_LIMIT = (1 << 31) - 1


def save(
    model: Model, path: str | os.PathLike[str], *, external_data: str = "auto", size_threshold: int = THRESHOLD
) -> None:
    """Write the model to ``path``; see `stage`."""
    with stage(model, path, external_data=external_data, size_threshold=size_threshold) as staged:
        staged.commit()


def encode(model: Model) -> bytes:
    """Return the whole model as bytes, weights inside; for streams. Raises OutputError beyond protobuf's 2 GB."""
    segments = _segments(model, _skeleton(model), {}, "")
    if sum(map(len, segments)) > PROTOBUF_LIMIT:
        raise OutputError("the model is beyond protobuf's 2 GB and cannot go to a stream; write it to a file")
    out = BytesIO()
    _write_segments(model, segments, out, None)
    model.check_sources()
    return out.getvalue()


def stage(
    model: Model,
    path: str | os.PathLike[str],
    *,
    external_data: str = "auto",
    size_threshold: int = THRESHOLD,
    progress: BytesProgress | None = None,
) -> Staged:
    """Write the model under a temporary name in the directory of ``path``; a link there is followed.

    Args:
        model: Any model; it stays as it is.
        path: Where `Staged.commit` will put it, replacing a file that stands there.
        external_data: ``none``: weights inside. ``keep``: where the input had them. ``auto``: beside the model if the
            input had some there, or if protobuf's 2 GB limit demands it. Anything else is the name of the data file
            that weights go to.
        size_threshold: Weights of fewer bytes stay in the model, unless they were outside and are kept there.
        progress: Called with the number of bytes of every piece written.

    Raises:
        OutputError: It cannot be written; nothing is left behind, and what stood there is untouched.
        RangeViolation: A folded weight overflows; no file has changed.
        BadInput: A file with weights was changed meanwhile, or is not known; no file has changed.
    """
    model.require_weights()
    target = _target(path)
    name = datafile.default_name(target) if external_data in ("auto", "keep", "none") else external_data
    datafile.check_name(name, target)
    try:
        if target.parent.is_dir():
            locked_file.remove_stale(target.parent)
        staged = Staged(target, name, partial(_spared, model, target))
    except OSError as error:
        raise OutputError.at(target, error) from error
    try:
        segments = _place(model, staged, target.with_name(name), external_data, size_threshold, progress)
        _write_file(model, segments, staged.path, progress)
        model.check_sources()
    except OSError as error:
        staged.discard()
        raise OutputError.at(target, error) from error
    except BaseException:
        staged.discard()
        raise
    return staged


def _target(path: str | os.PathLike[str]) -> Path:
    """Return the file to be replaced. Raises OutputError for what is no file."""
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file():
            raise OutputError(f"{path}: is {'a directory' if target.is_dir() else 'no regular file'}")
    except (OSError, ValueError, RuntimeError) as error:
        raise OutputError.at(path, error) from error
    return target


def _spared(model: Model, target: Path) -> Collection[Path]:
    """Return data files that another model reads.

    Another model in the folder, or the one that this one was made from.
    """
    others = datafile.used_by_others(target)
    if model.path is not None and model.path.resolve() == target:
        return others
    return others.union(model.external_files())


def _place(
    model: Model, staged: Staged, wanted: Path, external_data: str, size_threshold: int, progress: BytesProgress | None
) -> list[Segment]:
    """Write the data file, if there is to be one; the segments of the model."""
    if external_data == "none" or (external_data in ("auto", "keep") and not model.origin.has_external_data):
        segments = _segments(model, _skeleton(model), {}, "")
        if sum(map(len, segments)) <= PROTOBUF_LIMIT:
            return segments
        if external_data != "auto":
            raise OutputError(f"{staged.target}: the model is beyond protobuf's 2 GB and needs external data")
    skeleton = _skeleton(model, size_threshold)
    for everything in (False, True):
        choose = datafile.chooser(external_data, size_threshold, everything=everything)
        places = datafile.layout(skeleton, model.payloads, choose)
        if sum(map(len, _segments(model, skeleton, places, wanted.name))) <= PROTOBUF_LIMIT:
            break
    else:
        raise OutputError(f"{staged.target}: what has to stay in the model file is beyond protobuf's 2 GB")
    if places:
        staged.data = datafile.reuse(wanted, places, model.payloads, progress)
        staged.owns_data = staged.data is None
        if staged.data is None:
            staged.data = locked_file.temporary(staged.target.parent)
            datafile.write(staged.data.path, places, model.payloads, progress)
            staged.data, staged.owns_data = datafile.place_data_file(staged.data, wanted)
        wanted = staged.data.path
    return _segments(model, skeleton, places, wanted.name)


def _skeleton(model: Model, size_threshold: int = THRESHOLD) -> bytes:
    """Return the encoded skeleton, with tokens for weights of ``size_threshold`` bytes that the model holds, too."""
    model.sync()
    if size_threshold >= THRESHOLD:
        return bytes(model.proto.SerializeToString())
    proto = deepcopy(model.proto)
    for message in proto.graph.initializer:
        tensor = model.tensor(message)
        if isinstance(tensor, Inline) and tensor.nbytes >= max(size_threshold, 1):
            held = tensor.copy()
            for content in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                message.ClearField(content)
            message.raw_data = model.payloads.add(held)
    return bytes(proto.SerializeToString())


def _segments(model: Model, skeleton: bytes, places: dict[bytes, tuple[int, int]], data_name: str) -> list[Segment]:
    """Return the pieces of the model file, given where payloads lie in the data file."""

    def put(token: bytes, _: bool) -> tuple[int, int] | bytes:
        if token in places:
            return wire.external_fields(data_name, *places[token])
        return _inline_form(model.payloads.held(token))

    return insert_payloads(skeleton, model.payloads.nonce, TOKEN_LENGTH, put)


def _inline_form(tensor: Tensor) -> tuple[int, int]:
    """Return (field number, length) of the payload inside the model."""
    if isinstance(tensor, Stored):
        return tensor.span.field, tensor.span.length
    return wire.RAW_DATA, tensor.nbytes


def _write_file(model: Model, segments: Sequence[Segment], path: Path, progress: BytesProgress | None) -> None:
    """Fill a file. Where much is to be computed two threads share it, for numpy and the kernel work side by side."""
    tensors = [model.payloads.held(segment.token) for segment in segments if isinstance(segment, Reference)]
    if not need_threads(tensor for tensor in tensors if isinstance(tensor, Computed)):
        with fill(path) as out:
            _write_segments(model, segments, out, progress)
        return
    payloads: list[tuple[Tensor, int]] = []
    offset = 0
    with fill(path) as out:
        for segment in segments:
            if isinstance(segment, Reference):
                payloads.append((model.payloads.held(segment.token), offset))
                offset += segment.length
            else:
                out.seek(offset)
                offset += out.write(segment)
    write_payloads(path, payloads, as_stored=True, progress=progress)


def _write_segments(model: Model, segments: Iterable[Segment], out: IO[bytes], progress: BytesProgress | None) -> None:
    for segment in segments:
        if isinstance(segment, Reference):
            write_payload(model.payloads.held(segment.token), out, as_stored=True, progress=progress)
        else:
            out.write(segment)
