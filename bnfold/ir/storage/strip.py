"""From the encoded model to its skeleton: every large payload, at any depth, gives way to a short token.

The walk reads through a bounded buffer and jumps over the payloads. Every length is checked against what encloses it:
the file is a stranger's.
"""

from __future__ import annotations

from collections.abc import Callable

from bnfold.errors import MalformedModel
from bnfold.ir.storage import wire
from bnfold.ir.storage.source import Source
from bnfold.ir.storage.wire import BYTES, FIXED32, FIXED64, VARINT, Message

WINDOW = 1 << 16
_LONGEST_HEAD = 20  # a tag and a length of ten bytes each
_LONGEST_TAG = 5  # so protobuf holds it, with lengths too

Token = Callable[[bytes, int, int, int], bytes]
"""(the rest of the TensorProto, field number, offset and length of its payload) -> what takes the payload's place."""


def lift(source: Source, threshold: int, token: Token) -> bytes:
    """The skeleton of the encoded ModelProto in ``source``.

    Payloads of at least ``threshold`` bytes are handed to ``token`` and never read. Messages that were not touched
    are copied byte for byte, unknown fields included. Raises MalformedModel for lengths that do not fit.
    """
    pieces = _Walk(source, threshold, token).message(wire.MODEL, 0, source.size, 0)
    return source.read(0, source.size) if pieces is None else b"".join(pieces)


class _Window:
    """Sequential parsing over a Source through a bounded buffer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = 0
        self._data = b""

    def _at(self, position: int) -> int:
        """Index into the buffer such that at least one whole tag and length can be read there."""
        index = position - self._start
        if index < 0 or index + _LONGEST_HEAD > len(self._data):
            self._start = position
            self._data = self._source.read(position, min(WINDOW, self._source.size - position))
            return 0
        return index

    def varint(self, position: int, end: int, longest: int = 10) -> tuple[int, int]:
        """The integer at ``position`` and the position behind it; it must lie before ``end``."""
        index = self._at(position)
        data = self._data
        if position < end and data[index] < 0x80:  # as most are
            return data[index], position + 1
        value = shift = 0
        limit = min(len(data), index + end - position)
        for count in range(index, min(limit, index + longest)):
            byte = data[count]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position + count + 1 - index
            shift += 7
        raise MalformedModel("a number runs past the end of the message that holds it")

    def bytes(self, start: int, end: int) -> bytes:
        """The raw bytes of a range, from the buffer where it holds them."""
        index = start - self._start
        if index >= 0 and end - self._start <= len(self._data):
            return self._data[index : end - self._start]
        return self._source.read(start, end - start)

    def field(self, position: int, end: int) -> tuple[int, int, int, int]:
        """(field number, wire type, start of the value, end of the value) of the field at ``position``."""
        key, position = self.varint(position, end, _LONGEST_TAG)
        number, kind = key >> 3, key & 7
        if number == 0 or key >= 1 << 32:
            raise MalformedModel("a field number is zero or too large")
        if kind == BYTES:
            length, position = self.varint(position, end, _LONGEST_TAG)
            stop = position + length
        elif kind == VARINT:
            stop = self.varint(position, end)[1]
        elif kind == FIXED64:
            stop = position + 8
        elif kind == FIXED32:
            stop = position + 4
        else:
            raise MalformedModel(f"wire type {kind} is not used by ONNX")
        if stop > end:
            raise MalformedModel("a length points outside the message that holds it")
        return number, kind, position, stop

    def pass_over(self, position: int, end: int, threshold: int) -> int:
        """Behind the length-delimited fields shorter than ``threshold`` that the buffer holds whole.

        Where a model has many nodes, nearly all its fields are of this kind, and this loop is all the time lifting
        takes; what it does not recognise is left to `field`, which checks.
        """
        data, start = self._data, self._start
        index, stop = position - start, min(end - start, len(data))
        while 0 <= index < stop - 3 and data[index] & 0x87 == BYTES:  # a tag of one byte
            length = data[index + 1]
            behind = index + 2 + length
            if length > 0x7F:  # a length of two bytes, or more, which is too long anyway
                length += (data[index + 2] - 1) << 7
                behind = index + 3 + length
            if length >= threshold or behind > stop:
                break
            index = behind
        return start + index


class _Walk:
    """One pass over a model."""

    def __init__(self, source: Source, threshold: int, token: Token) -> None:
        self._window = _Window(source)
        self._threshold = threshold
        self._token = token

    def message(self, kind: Message, start: int, end: int, depth: int) -> list[bytes] | None:
        """The pieces of the message with its payloads lifted; None when nothing in it was."""
        if depth > wire.MAX_DEPTH:
            raise MalformedModel(f"messages are nested more than {wire.MAX_DEPTH} deep")
        if kind is wire.TENSOR:
            return self._tensor(start, end)
        window, threshold = self._window, self._threshold
        pieces: list[bytes] = []
        copied = position = start
        while (position := window.pass_over(position, end, threshold)) < end:
            number, wire_type, value, stop = window.field(position, end)
            child = kind.children.get(number) if wire_type == BYTES and stop - value >= threshold else None
            inner = self.message(child, value, stop, depth + 1) if child else None
            if inner is not None:
                pieces.append(window.bytes(copied, position))
                pieces.append(wire.length_prefix(number, sum(map(len, inner))))
                pieces.extend(inner)
                copied = stop
            position = stop
        if not pieces:
            return None
        pieces.append(window.bytes(copied, end))
        return pieces

    def _tensor(self, start: int, end: int) -> list[bytes] | None:
        window = self._window
        payloads = []
        position = start
        while position < end:
            number, wire_type, value, stop = window.field(position, end)
            if number in wire.PAYLOAD_FIELDS:
                payloads.append((position, number, wire_type, value, stop))
            position = stop
        if len(payloads) != 1:
            return None  # a payload in several records is legal but rare: protobuf merges it
        position, number, wire_type, value, stop = payloads[0]
        if wire_type != BYTES or stop - value < self._threshold:
            return None
        rest = window.bytes(start, position) + window.bytes(stop, end)
        return [rest, wire.record(wire.RAW_DATA, self._token(rest, number, value, stop - value))]
