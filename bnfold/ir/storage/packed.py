"""Packed numbers in the wire format: whether a run of bytes is made of whole ones, without decoding them."""

from __future__ import annotations

import numpy as np

from bnfold.ir.storage.source import Source
from bnfold.ir.storage.wire import DOUBLE_DATA, FLOAT_DATA

CHUNK = 1 << 20
_LONGEST = 10
"""Bytes of a 64-bit varint. Protobuf ignores bits beyond the 64th."""


def is_whole(source: Source, offset: int, length: int, field: int) -> bool:
    """Whether the bytes are what protobuf takes for the packed numbers of a TensorProto's ``field``."""
    if field in (FLOAT_DATA, DOUBLE_DATA):
        return length % (4 if field == FLOAT_DATA else 8) == 0
    last = offset - 1  # where the last number ended
    for start in range(offset, offset + length, CHUNK):
        data = np.frombuffer(source.read(start, min(CHUNK, offset + length - start)), np.uint8)
        ends = np.flatnonzero(data < 0x80) + start
        sizes = np.diff(ends, prepend=last)
        if (sizes > _LONGEST).any():
            return False
        last = int(ends[-1]) if ends.size else last
        if start + data.size - 1 - last > _LONGEST:
            return False
    return last == offset + length - 1
