"""Stream payloads into a file: untouched spans by the kernel where it can, folded ones computed block by block."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import IO

from bnfold.ir.elements import to_raw
from bnfold.ir.model import Model
from bnfold.ir.storage.source import Source
from bnfold.ir.storage.stored import Stored
from bnfold.ir.tensor import Computed, Tensor

PAGE = 4096
"""Tensors of a page or more start on a page of their file, so that a runtime can map them."""
BUFFER = CHUNK = 1 << 20
PIECE = 1 << 18
"""Bytes that are read and written in turn: so few stay in the processor's cache."""
PARALLEL = 1 << 25
"""Bytes from which a second thread pays: 102 MB of folded weights are written in 90 ms instead of 125."""
_NOT_HERE = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM}

BytesProgress = Callable[[int], None]


def fill(path: Path) -> IO[bytes]:
    """Open a new, empty file for writing, without truncating it.

    A file that was truncated ext4 begins to write to the disk as soon as it is closed, and lets us wait for that.
    """
    return open(path, "wb", BUFFER, opener=lambda name, flags: os.open(name, flags & ~os.O_TRUNC, 0o666))


def write_payload(tensor: Tensor, out: IO[bytes], *, as_stored: bool, progress: BytesProgress | None = None) -> None:
    """Append the tensor's payload: as raw_data, or ``as_stored`` in the encoding the span has in its file."""
    if isinstance(tensor, Stored) and (as_stored or tensor.is_raw):
        copy_range(tensor.span.source, tensor.span.offset, tensor.span.length, out)
        if progress:
            progress(tensor.span.length)
        return
    for block in tensor.blocks():
        data = to_raw(block, tensor.dtype)
        out.write(data)
        if progress:
            progress(len(data))


def write_payloads(
    path: Path, payloads: Sequence[tuple[Tensor, int]], *, as_stored: bool, progress: BytesProgress | None
) -> None:
    """Write payloads into an existing file, each at its offset; as `write_payload`."""
    lock = Lock()

    def tell(count: int) -> None:
        with lock:
            if progress is not None:
                progress(count)

    def put(some: Sequence[tuple[Tensor, int]]) -> None:
        with path.open("r+b", buffering=BUFFER) as out:
            for tensor, offset in some:
                out.seek(offset)
                write_payload(tensor, out, as_stored=as_stored, progress=tell)

    if not need_threads(tensor for tensor, _ in payloads):
        put(payloads)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        deque(pool.map(put, ([payload] for payload in payloads)), maxlen=0)  # raises what the first to fail did


def need_threads(tensors: Iterable[Tensor]) -> bool:
    """Whether so much is to be written that a second thread pays; with small tensors the two only wait in turn."""
    return sum(tensor.nbytes for tensor in tensors if tensor.nbytes >= BUFFER) >= PARALLEL


def check_range(model: Model) -> None:
    """Compute every folded weight once and throw it away; raises RangeViolation as writing would."""
    model.sync()
    for tensor in model.payloads.within(model.proto.SerializeToString()):
        if isinstance(tensor, Computed):
            deque(tensor.blocks(), maxlen=0)


def is_written(tensor: Tensor, place: Source, offset: int) -> bool:
    """Whether the tensor's payload, as raw_data, lies in a file already; the first block that differs ends it."""
    if not (isinstance(tensor, Stored) and tensor.is_raw):
        for block in tensor.blocks():
            data = to_raw(block, tensor.dtype)
            if place.read(offset, len(data)) != data:
                return False
            offset += len(data)
        return True
    source, first, length, *_ = tensor.span
    steps = ((done, min(PIECE, length - done)) for done in range(0, length, PIECE))
    return all(source.read(first + done, count) == place.read(offset + done, count) for done, count in steps)


def copy_range(source: Source, offset: int, length: int, out: IO[bytes]) -> None:
    """Append ``length`` bytes of ``source`` to ``out``, inside the kernel where the platform and the files allow it."""
    descriptor = source.fileno()
    if descriptor is not None and not isinstance(out, BytesIO) and length >= CHUNK // 16:
        out.flush()
        copy = _kernel_copy if (offset - out.tell()) % PAGE == 0 else _piece_copy
        copied = copy(descriptor, offset, length, out.fileno())
        offset, length = offset + copied, length - copied
        out.seek(0, os.SEEK_CUR)
    while length > 0:
        data = source.read(offset, min(length, CHUNK))
        out.write(data)
        offset, length = offset + len(data), length - len(data)


def _piece_copy(descriptor: int, offset: int, length: int, target: int) -> int:
    """Copy as `_kernel_copy`, through one small buffer.

    If the two places begin differently within a page, the kernel copies every page in two parts, and takes half as
    long again as this.
    """
    if not hasattr(os, "preadv"):
        return 0
    piece, copied = memoryview(bytearray(min(PIECE, length))), 0
    while copied < length:
        count = os.preadv(descriptor, [piece[: length - copied]], offset + copied)
        if count == 0:
            return copied
        left = piece[:count]
        while left:
            left = left[os.write(target, left) :]
        copied += count
    return copied


def _kernel_copy(descriptor: int, offset: int, length: int, target: int) -> int:
    """Return how many bytes the kernel copied; fewer than asked where it does not do this for these files."""
    copied = 0
    if not hasattr(os, "copy_file_range"):
        return copied
    while copied < length:
        try:
            count = os.copy_file_range(descriptor, target, length - copied, offset + copied)
        except OSError as error:
            if error.errno in _NOT_HERE:
                return copied
            raise
        if count == 0:
            return copied
        copied += count
    return copied
