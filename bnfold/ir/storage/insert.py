"""From the skeleton back to the encoded model: a list of segments, the lengths of what encloses them recomputed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from bnfold.errors import MalformedModel
from bnfold.ir.storage import wire
from bnfold.ir.storage.wire import BYTES, FIXED32, FIXED64, VARINT, Message


@dataclass(frozen=True, slots=True)
class Reference:
    """In a list of segments: the payload that ``token`` stands for goes here."""

    token: bytes
    length: int


Segment = bytes | memoryview | Reference
Place = Callable[[bytes, bool], tuple[int, int] | bytes]
"""(token, is it in an attribute) -> (field number, length) of the payload to write in place, or the encoded fields
that stand in for it."""


def lower(skeleton: bytes, nonce: bytes, token_length: int, place: Place) -> list[Segment]:
    """The segments of the encoded skeleton with every token (``nonce`` + index) replaced as ``place`` says."""
    return _Walk(skeleton, nonce, token_length, place).message(wire.MODEL, wire.MODEL, 0, len(skeleton))[0]


class _Walk:
    """One pass over a skeleton, entering only the messages that hold a token."""

    def __init__(self, skeleton: bytes, nonce: bytes, token_length: int, place: Place) -> None:
        self._skeleton = memoryview(skeleton)
        self._token_length = token_length
        self._place = place
        self._marks = _occurrences(skeleton, nonce)

    def message(self, kind: Message, parent: Message, start: int, end: int) -> tuple[list[Segment], int]:
        """The segments of a message, and their length altogether."""
        skeleton = self._skeleton
        segments: list[Segment] = []
        total = 0
        copied = position = start
        while (mark := self._next_mark(position)) < end:
            number, wire_type, value, stop = _field(skeleton, position)
            inner = self._lowered(kind, parent, number, value, stop) if wire_type == BYTES and mark < stop else None
            if inner is not None:
                segments.append(skeleton[copied:position])
                segments.extend(inner[0])
                total += position - copied + inner[1]
                copied = stop
            position = stop
        segments.append(skeleton[copied:end])
        return segments, total + end - copied

    def _lowered(
        self, kind: Message, parent: Message, number: int, start: int, stop: int
    ) -> tuple[list[Segment], int] | None:
        """A field that holds a token, with its tag and length; None for one in a place where no token was put."""
        child = kind.children.get(number)
        if child is not None:
            segments, length = self.message(child, kind, start, stop)
            prefix = wire.length_prefix(number, length)
            return [prefix, *segments], len(prefix) + length
        if kind is wire.TENSOR and number == wire.RAW_DATA and stop - start == self._token_length:
            return self._payload(bytes(self._skeleton[start:stop]), parent is wire.ATTRIBUTE)
        return None

    def _payload(self, token: bytes, in_attribute: bool) -> tuple[list[Segment], int]:
        placed = self._place(token, in_attribute)
        if isinstance(placed, bytes):
            return [placed], len(placed)
        field, length = placed
        prefix = wire.length_prefix(field, length)
        return [prefix, Reference(token, length)], len(prefix) + length

    def _next_mark(self, position: int) -> int:
        """Where the next token starts; behind everything when there is none."""
        index = bisect_left(self._marks, position)
        return self._marks[index] if index < len(self._marks) else len(self._skeleton)


def _occurrences(data: bytes, needle: bytes) -> list[int]:
    found = []
    position = data.find(needle)
    while position >= 0:
        found.append(position)
        position = data.find(needle, position + len(needle))
    return found


def _field(data: memoryview, position: int) -> tuple[int, int, int, int]:
    """(field number, wire type, start and end of the value) in bytes that protobuf itself has just written."""
    key, position = _varint(data, position)
    kind = key & 7
    if kind == BYTES:
        length, position = _varint(data, position)
        return key >> 3, kind, position, position + length
    if kind == VARINT:
        return key >> 3, kind, position, _varint(data, position)[1]
    if kind not in (FIXED64, FIXED32):
        raise MalformedModel(f"wire type {kind} is not used by ONNX")
    return key >> 3, kind, position, position + (8 if kind == FIXED64 else 4)


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
