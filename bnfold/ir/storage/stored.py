"""A weight that stays on disk: a span of the model file, or of an external data file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx

from bnfold.errors import MalformedModel
from bnfold.ir.elements import MAX_RANK, RAW_TYPES, TP, Array, dims_text, from_raw, numpy_type, raw_length
from bnfold.ir.storage.source import Source
from bnfold.ir.storage.wire import DOUBLE_DATA, FLOAT_DATA, RAW_DATA, record
from bnfold.ir.tensor import Inline, Tensor, check_rank

_CHUNK = 1 << 20
_LONGEST = 10
"""Bytes of a 64-bit varint. Protobuf ignores bits beyond the 64th."""


class Span(NamedTuple):
    """A payload that stays where it lies. ``field`` is the TensorProto field whose encoding the bytes have."""

    source: Source
    offset: int
    length: int
    field: int = RAW_DATA
    is_external: bool = False


class Stored(Tensor):
    """A tensor whose payload is a span of the model file or of an external data file."""

    __slots__ = ("name", "span")

    def __init__(self, dtype: int, dims: Sequence[int], span: Span, name: str = "") -> None:
        super().__init__(dtype, dims)
        self.span = span
        self.name = name

    @property
    def nbytes(self) -> int:
        length = raw_length(self.dtype, self.size)
        return self.span.length if length is None else length

    @property
    def is_external(self) -> bool:
        """Whether the bytes lie in an external data file."""
        return self.span.is_external

    @property
    def is_raw(self) -> bool:
        """Whether the bytes of the span are those of raw_data."""
        return (
            self.span.field == RAW_DATA
            or (self.span.field == FLOAT_DATA and self.dtype == TP.FLOAT)
            or (self.span.field == DOUBLE_DATA and self.dtype == TP.DOUBLE)
        )

    def check(self) -> None:
        """Raise MalformedModel unless the payload has the length that type and dims say, and parses."""
        fits = len(self.dims) <= MAX_RANK and all(dim >= 0 for dim in self.dims)
        if not fits or (self.is_raw and self.span.length != self.nbytes):
            raise MalformedModel(
                f"tensor {self.name!r}: {self.span.length} bytes of data do not fit its dims {dims_text(self.dims)}"
            )
        if self.span.field != RAW_DATA and not self.is_raw and not is_whole(self.span):
            raise MalformedModel(f"tensor {self.name!r}: its data is damaged, the bytes do not parse")

    @property
    def can_read(self) -> bool:
        """An element has to be a run of bytes in the file, and all of them have to be there."""
        self.check()
        return self.is_raw and self.dtype in RAW_TYPES

    def read(self, start: int, count: int) -> Array:
        itemsize = numpy_type(self.dtype).itemsize
        data = self.span.source.read(self.span.offset + start * itemsize, count * itemsize)
        return from_raw(data, self.dtype, (count,))

    def numpy(self) -> Array:
        check_rank(self.name, self.dims)
        if not self.can_read:
            return Inline(self.to_proto()).numpy()
        return self.read(0, self.size).reshape(self.dims)

    def to_proto(self) -> onnx.TensorProto:
        """Return a TensorProto with the payload inside, in its own storage form."""
        payload = self.span.source.read(self.span.offset, self.span.length)
        proto = TP(data_type=self.dtype, dims=self.dims, name=self.name)
        proto.MergeFromString(record(self.span.field, payload))
        return proto


def is_whole(span: Span) -> bool:
    """Whether the bytes are what protobuf takes for the packed numbers of the TensorProto's field."""
    source, offset, length, field, _ = span
    if field in (FLOAT_DATA, DOUBLE_DATA):
        return length % (4 if field == FLOAT_DATA else 8) == 0
    last = offset - 1  # where the last number ended
    for start in range(offset, offset + length, _CHUNK):
        data = np.frombuffer(source.read(start, min(_CHUNK, offset + length - start)), np.uint8)
        ends = np.flatnonzero(data < 0x80) + start
        sizes = np.diff(ends, prepend=last)
        if (sizes > _LONGEST).any():
            return False
        last = int(ends[-1]) if ends.size else last
        if start + data.size - 1 - last > _LONGEST:
            return False
    return last == offset + length - 1
