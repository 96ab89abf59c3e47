"""Damage to encoded models: bytes, and the lengths, tags and nesting of the wire format.

One field in four is changed without correcting the lengths of the messages around it: then lengths contradict the data.
The others are corrected, so that the damage reaches code that parses a well-formed message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bnfold.ir.storage import wire
from bnfold.ir.storage.wire import BYTES, FIXED32, FIXED64, VARINT

NUMBERS = (0, 1, 2, 127, 128, 255, 1023, 1024, 1025, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1)
LARGEST = 1 << 19


@dataclass(frozen=True)
class Field:
    """The place of a field: its tag, its value, its end, and the length-delimited fields around it, outermost first."""

    start: int
    value: int
    stop: int
    number: int
    kind: int
    around: tuple[Field, ...]


def mutate(data: bytes, rng: np.random.Generator, others: Sequence[bytes] = ()) -> bytes:
    """Make one to three changes."""
    for _ in range(int(rng.integers(1, 4))):
        data = _bytes(data, rng, others) if rng.random() < 0.1 or not data else _field(data, rng)
    return data[:LARGEST]


def _bytes(data: bytes, rng: np.random.Generator, others: Sequence[bytes]) -> bytes:
    """Change bytes blindly."""
    at = int(rng.integers(len(data) + 1))
    length = int(rng.integers(1, 1 << int(rng.integers(1, 8))))
    kind = int(rng.integers(6))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + rng.bytes(length) + data[at:]
    if kind == 2:
        return data[:at] + data[at + length :]
    if kind == 3 and others:
        other = others[int(rng.integers(len(others)))]
        start = int(rng.integers(len(other) + 1))
        return data[:at] + other[start : start + 8 * length] + data[at:]
    if kind == 4 and data:
        copy = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            copy[int(rng.integers(len(copy)))] ^= 1 << int(rng.integers(8))
        return bytes(copy)
    return data[:at] + rng.bytes(length) + data[at + length :]


def _field(data: bytes, rng: np.random.Generator) -> bytes:
    found = fields(data)
    if not found:
        return _bytes(data, rng, ())
    field = found[int(rng.integers(len(found)))]
    change = CHANGES[int(rng.integers(len(CHANGES)))](data, field, rng)
    if rng.random() < 0.25:
        return data[: field.start] + change + data[field.stop :]
    return mended(data, field, change)


def mended(data: bytes, field: Field, content: bytes) -> bytes:
    """Put ``content`` in the place of a field, and correct the lengths of all messages around it."""
    start, stop = field.start, field.stop
    for outer in reversed(field.around):
        whole = data[outer.value : start] + content + data[stop : outer.stop]
        content = wire.record(outer.number, whole)
        start, stop = outer.start, outer.stop
    return data[:start] + content + data[stop:]


def fields(data: bytes, limit: int = 4000) -> list[Field]:
    """Return the fields of the model and of the messages in it, as far as they can be read."""
    found: list[Field] = []
    _collect(data, wire.MODEL, 0, len(data), (), found, limit)
    return found


def _collect(
    data: bytes,
    kind: str | None,
    position: int,
    end: int,
    around: tuple[Field, ...],
    found: list[Field],
    limit: int,
) -> None:
    while position < end and len(found) < limit:
        field = _at(data, position, end, around)
        if field is None:
            return
        found.append(field)
        child = wire.CHILDREN[kind].get(field.number) if kind is not None and field.kind == BYTES else None
        if child is not None and len(around) < 20:
            _collect(data, child, field.value, field.stop, (*around, field), found, limit)
        position = field.stop


def _at(data: bytes, start: int, end: int, around: tuple[Field, ...]) -> Field | None:
    key, value = _varint(data, start, end)
    if key is None:
        return None
    kind, stop = key & 7, value
    if kind == BYTES:
        length, value = _varint(data, value, end)
        stop = value + (length if length is not None else end)
    elif kind == VARINT:
        stop = _varint(data, value, end)[1]
    elif kind in (FIXED64, FIXED32):
        stop = value + (8 if kind == FIXED64 else 4)
    return Field(start, value, stop, key >> 3, kind, around) if start < stop <= end else None


def _varint(data: bytes, position: int, end: int) -> tuple[int | None, int]:
    value = shift = 0
    for index in range(position, min(end, position + 10)):
        value |= (data[index] & 0x7F) << shift
        shift += 7
        if data[index] < 0x80:
            return value, index + 1
    return None, end


def _number(rng: np.random.Generator) -> int:
    return NUMBERS[int(rng.integers(len(NUMBERS)))] if rng.random() < 0.7 else int(rng.integers(1 << 16))


def _another_length(data: bytes, field: Field, rng: np.random.Generator) -> bytes:
    length = field.stop - field.value
    told = length + int(rng.integers(-3, 4)) if rng.random() < 0.5 else _number(rng)
    return wire.varint(field.number << 3 | BYTES) + wire.varint(max(told, 0)) + data[field.value : field.stop]


def _longer_varint(data: bytes, field: Field, rng: np.random.Generator) -> bytes:
    """Write the tag in more bytes than it needs: legal up to ten."""
    tag = wire.varint(field.number << 3 | field.kind)
    tag = tag[:-1] + bytes([tag[-1] | 0x80]) + b"\x80" * int(rng.integers(0, 10)) + b"\x00"
    body = data[field.value : field.stop]
    return tag + (wire.varint(len(body)) if field.kind == BYTES else b"") + body


def _another_tag(data: bytes, field: Field, rng: np.random.Generator) -> bytes:
    number = int(rng.integers(0, 30)) if rng.random() < 0.8 else _number(rng)
    kind = int(rng.integers(0, 8)) if rng.random() < 0.5 else field.kind
    body = data[field.value : field.stop]
    return wire.varint(number << 3 | kind) + (wire.varint(len(body)) if kind == BYTES else b"") + body


def _another_number(data: bytes, field: Field, rng: np.random.Generator) -> bytes:
    if field.kind != VARINT:
        return _another_length(data, field, rng)
    return wire.varint(field.number << 3 | VARINT) + wire.varint(_number(rng))


def _twice(data: bytes, field: Field, _: np.random.Generator) -> bytes:
    return data[field.start : field.stop] * 2


def _gone(_: bytes, __: Field, ___: np.random.Generator) -> bytes:
    return b""


def _nested(data: bytes, field: Field, rng: np.random.Generator) -> bytes:
    """Put the field inside a graph in an attribute of a node beside it, many times over."""
    content = data[field.start : field.stop]
    deep = b""
    for _ in range(int(rng.choice([1, 5, 30, 33, 120, 2000]))):
        deep = wire.record(1, wire.record(5, wire.record(6, deep)))  # node, attribute, g
        if len(deep) > LARGEST // 8:
            break
    return content + deep


def _payload(_: bytes, field: Field, rng: np.random.Generator) -> bytes:
    """Write a payload of another tensor field, with the length of any or none."""
    number = int(rng.choice(sorted(wire.PAYLOAD_FIELDS)))
    length = int(rng.choice([0, 1, 15, 16, 24, 1023, 1024, 1028, 4096]))
    return wire.record(number if rng.random() < 0.8 else field.number, rng.bytes(length))


def _other_bytes(data: bytes, field: Field, rng: np.random.Generator) -> bytes:
    """Damage the value of a length-delimited field: invalid UTF-8, packed numbers without an end."""
    if field.kind != BYTES:
        return _another_number(data, field, rng)
    body = _bytes(data[field.value : field.stop], rng, ())
    return wire.record(field.number, body)


CHANGES: tuple[Callable[[bytes, Field, np.random.Generator], bytes], ...] = (
    _another_length,
    _longer_varint,
    _another_tag,
    _another_number,
    _another_number,
    _twice,
    _gone,
    _nested,
    _payload,
    _other_bytes,
    _other_bytes,
)
