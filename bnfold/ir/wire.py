"""The protobuf wire format of ONNX, as far as tensors are concerned.

`lift` walks the encoded model once and replaces the payload of every large tensor, at any depth, by a short token;
what is left (the *skeleton*) is small enough for protobuf. `lower` does the way back: an encoded skeleton becomes a
list of segments, literal bytes and payload references, with all enclosing lengths recomputed.

Source: https://protobuf.dev/programming-guides/encoding and the field numbers of onnx.proto3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from bnfold.errors import MalformedModel
from bnfold.ir.source import Source

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 96  # protobuf itself refuses messages nested more than 100 deep
WINDOW = 1 << 16

Schema = dict[int, "Message"]


class Message:
    """A message kind: which of its length-delimited fields can hold, directly or deeper, a tensor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: Schema = {}


MODEL, TRAINING, GRAPH, NODE, ATTRIBUTE, FUNCTION, SPARSE, TENSOR = (
    Message(name)
    for name in "ModelProto TrainingInfoProto GraphProto NodeProto AttributeProto FunctionProto SparseTensorProto TensorProto".split()
)
MODEL.children = {7: GRAPH, 20: TRAINING, 25: FUNCTION}
TRAINING.children = {1: GRAPH, 2: GRAPH}
GRAPH.children = {1: NODE, 5: TENSOR, 15: SPARSE}
NODE.children = {5: ATTRIBUTE}
ATTRIBUTE.children = {5: TENSOR, 6: GRAPH, 10: TENSOR, 11: GRAPH, 22: SPARSE, 23: SPARSE}
FUNCTION.children = {7: NODE, 11: ATTRIBUTE}
SPARSE.children = {1: TENSOR, 2: TENSOR}

RAW_DATA = 9
EXTERNAL_DATA, DATA_LOCATION = 13, 14
PAYLOAD_FIELDS = frozenset({4, 5, 7, 9, 10, 11})  # float, int32, int64, raw, double, uint64 data

Lift = Callable[[int, int, int], bytes]
"""(field number, offset, length) of a payload -> the token that takes its place in the skeleton."""


def varint(value: int) -> bytes:
    """Encode an unsigned integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def length_prefix(field: int, length: int) -> bytes:
    """Tag and length of a length-delimited field."""
    return varint(field << 3 | BYTES) + varint(length)


class _Window:
    """Sequential parsing over a Source through a bounded buffer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = 0
        self._data = b""

    def _at(self, position: int) -> int:
        """Index into the buffer such that at least one whole tag and length can be read there."""
        index = position - self._start
        if index < 0 or index + 20 > len(self._data):
            self._start = position
            self._data = self._source.read(position, min(WINDOW, self._source.size - position))
            return 0
        return index

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """The integer at ``position`` and the position behind it; it must lie before ``end``."""
        index = self._at(position)
        data = self._data
        value = shift = 0
        limit = min(len(data), index + end - position)
        for count in range(index, min(limit, index + 10)):
            byte = data[count]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position + count + 1 - index
            shift += 7
        raise MalformedModel("a number runs past the end of the message that holds it")

    def bytes(self, start: int, end: int) -> bytes:
        """The raw bytes of a range, from the buffer where it holds them."""
        index = start - self._start
        if 0 <= index and end - self._start <= len(self._data):
            return self._data[index : end - self._start]
        return self._source.read(start, end - start)

    def field(self, position: int, end: int) -> tuple[int, int, int, int]:
        """(field number, wire type, start of the value, end of the value) of the field at ``position``."""
        key, position = self.varint(position, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise MalformedModel("a field number is zero")
        if kind == BYTES:
            length, position = self.varint(position, end)
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


def lift(source: Source, threshold: int, token: Lift) -> bytes:
    """The skeleton of the encoded ModelProto in ``source``.

    Payloads of at least ``threshold`` bytes are handed to ``token`` and never read. Messages that were not touched
    are copied byte for byte, unknown fields included. Raises MalformedModel for lengths that do not fit.
    """
    window = _Window(source)

    def walk(kind: Message, start: int, end: int, depth: int) -> list[bytes] | None:
        """The pieces of the message with its payloads lifted; None when nothing in it was."""
        if depth > MAX_DEPTH:
            raise MalformedModel(f"messages are nested more than {MAX_DEPTH} deep")
        if kind is TENSOR:
            return lift_tensor(start, end)
        pieces: list[bytes] = []
        copied = position = start
        while position < end:
            number, wire_type, value, stop = window.field(position, end)
            child = kind.children.get(number) if wire_type == BYTES and stop - value >= threshold else None
            inner = walk(child, value, stop, depth + 1) if child else None
            if inner is not None:
                pieces.append(window.bytes(copied, position))
                pieces.append(length_prefix(number, sum(map(len, inner))))
                pieces.extend(inner)
                copied = stop
            position = stop
        if not pieces:
            return None
        pieces.append(window.bytes(copied, end))
        return pieces

    def lift_tensor(start: int, end: int) -> list[bytes] | None:
        payloads = []
        position = start
        while position < end:
            number, wire_type, value, stop = window.field(position, end)
            if number in PAYLOAD_FIELDS:
                payloads.append((position, number, wire_type, value, stop))
            position = stop
        if len(payloads) != 1:
            return None  # a payload in several records is legal but rare: protobuf merges it
        position, number, wire_type, value, stop = payloads[0]
        if wire_type != BYTES or stop - value < threshold:
            return None
        replacement = token(number, value, stop - value)
        return [
            window.bytes(start, position),
            length_prefix(RAW_DATA, len(replacement)),
            replacement,
            window.bytes(stop, end),
        ]

    pieces = walk(MODEL, 0, source.size, 0)
    return source.read(0, source.size) if pieces is None else b"".join(pieces)


@dataclass(frozen=True, slots=True)
class Reference:
    """In a list of segments: the payload that ``token`` stands for goes here."""

    token: bytes
    length: int


Segment = bytes | Reference
Place = Callable[[bytes, bool], tuple[int, int] | bytes]
"""(token, is it in an attribute) -> (field number, length) of the payload to write in place, or the encoded fields
that stand in for it."""


def lower(skeleton: bytes, nonce: bytes, token_length: int, place: Place) -> list[Segment]:
    """The segments of the encoded skeleton with every token (``nonce`` + index) replaced as ``place`` says."""
    marks = _occurrences(skeleton, nonce)

    def holds_token(start: int, end: int) -> bool:
        index = bisect_left(marks, start)
        return index < len(marks) and marks[index] < end

    def walk(kind: Message, parent: Message, start: int, end: int) -> tuple[list[Segment], int]:
        segments: list[Segment] = []
        total = 0
        copied = position = start
        while position < end:
            number, wire_type, value, stop = _field(skeleton, position)
            inner: list[Segment] | None = None
            if wire_type == BYTES and holds_token(value, stop):
                child = kind.children.get(number)
                if child is not None:
                    inner, length = _nest(number, *walk(child, kind, value, stop))
                elif kind is TENSOR and number == RAW_DATA and stop - value == token_length:
                    inner, length = replace(skeleton[value:stop], parent is ATTRIBUTE)
            if inner is not None:
                segments.append(skeleton[copied:position])
                segments.extend(inner)
                total += position - copied + length
                copied = stop
            position = stop
        segments.append(skeleton[copied:end])
        return segments, total + end - copied

    def replace(token: bytes, in_attribute: bool) -> tuple[list[Segment], int]:
        placed = place(token, in_attribute)
        if isinstance(placed, bytes):
            return [placed], len(placed)
        field, length = placed
        prefix = length_prefix(field, length)
        return [prefix, Reference(token, length)], len(prefix) + length

    return walk(MODEL, MODEL, 0, len(skeleton))[0]


def _nest(number: int, segments: list[Segment], length: int) -> tuple[list[Segment], int]:
    prefix = length_prefix(number, length)
    return [prefix, *segments], len(prefix) + length


def external_fields(location: str, offset: int, length: int) -> bytes:
    """The fields of a TensorProto that say where its external data lies."""
    entries = b""
    for key, text in (("location", location), ("offset", str(offset)), ("length", str(length))):
        entry = b"".join(length_prefix(number, len(part)) + part for number, part in ((1, key.encode()), (2, text.encode())))
        entries += length_prefix(EXTERNAL_DATA, len(entry)) + entry
    return entries + varint(DATA_LOCATION << 3 | VARINT) + varint(1)


def _occurrences(data: bytes, needle: bytes) -> list[int]:
    found = []
    position = data.find(needle)
    while position >= 0:
        found.append(position)
        position = data.find(needle, position + len(needle))
    return found


def _field(data: bytes, position: int) -> tuple[int, int, int, int]:
    """As `_Window.field`, over bytes that protobuf itself has just written."""
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


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
