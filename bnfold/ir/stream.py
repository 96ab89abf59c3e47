"""Stream payloads into a file: untouched spans by the kernel where it can, folded ones computed block by block."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from io import BytesIO
from typing import IO, TYPE_CHECKING

import numpy as np

from bnfold.errors import BnfoldError
from bnfold.ir.source import Source
from bnfold.ir.tensor import Scaled, Stored, Tensor

if TYPE_CHECKING:
    from bnfold.ir.model import Model

CHUNK = 1 << 20
_NOT_HERE = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM}

Progress = Callable[[int], None]


class RangeViolation(BnfoldError):
    """A new weight overflows its type; found only while it was computed, so the fold that made it must be undone."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__("a folded weight overflows its type")
        self.tensor = tensor


def write_payload(tensor: Tensor, out: IO[bytes], *, as_stored: bool, progress: Progress | None = None) -> None:
    """Append the tensor's payload: as raw_data, or ``as_stored`` in the encoding the span has in its file."""
    if isinstance(tensor, Stored) and (as_stored or tensor.is_raw):
        copy_range(tensor.span.source, tensor.span.offset, tensor.span.length, out)
        if progress:
            progress(tensor.span.length)
        return
    for block in tensor.blocks():
        if isinstance(tensor, Scaled):
            _guard(tensor, block)
        data = np.ascontiguousarray(block if sys.byteorder == "little" else block.astype(block.dtype.newbyteorder("<")))
        out.write(data.view(np.uint8).data if data.size else b"")
        if progress:
            progress(data.nbytes)


def _guard(tensor: Scaled, block: np.ndarray) -> None:  # type: ignore[type-arg]
    """The cheap test first: the sum of finite numbers is finite unless it overflows, and only then look closely."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(block.astype(np.float32, copy=False).sum(dtype=np.float64)):
            return
    if np.isinf(block.astype(np.float64)).any() and np.isfinite(tensor.base.float64()).all():
        raise RangeViolation(tensor)


def check_range(model: Model) -> None:
    """Compute every folded weight once and throw it away; raises RangeViolation as writing would."""
    for tensor in model.payloads.computed():
        for block in tensor.blocks():
            _guard(tensor, block)


def copy_range(source: Source, offset: int, length: int, out: IO[bytes]) -> None:
    """Append ``length`` bytes of ``source`` to ``out``, inside the kernel where the platform and the files allow it."""
    descriptor = source.fileno()
    in_kernel = descriptor is not None and hasattr(os, "copy_file_range") and not isinstance(out, BytesIO)
    if descriptor is not None and in_kernel and length >= CHUNK // 16:
        out.flush()
        copied = _kernel_copy(descriptor, offset, length, out.fileno())
        offset, length = offset + copied, length - copied
        out.seek(0, os.SEEK_CUR)
    while length > 0:
        data = source.read(offset, min(length, CHUNK))
        out.write(data)
        offset, length = offset + len(data), length - len(data)


def _kernel_copy(descriptor: int, offset: int, length: int, target: int) -> int:
    """How many bytes the kernel copied; fewer than asked where it does not do this for these files."""
    copied = 0
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
