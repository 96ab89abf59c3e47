"""One walk over the wire format of an encoded ModelProto, which enters what may hold a tensor and skips the rest.

It reads through a bounded buffer. Every length is checked against what encloses it: the file is a stranger's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import onnx

from bnfold.errors import CutOffModel, MalformedModel
from bnfold.ir.storage import wire
from bnfold.ir.storage.source import Source
from bnfold.ir.storage.wire import BYTES, FIXED32, FIXED64, VARINT

WINDOW = 1 << 16
TOO_LONG = 1 << 14
"""Bytes that a length of two bytes cannot say; `ByteWindow.pass_over` reads no longer ones."""
_LONGEST_HEAD = 20  # a tag and a length of ten bytes each
_LONGEST_TAG = 5  # so protobuf holds it, with lengths too

_NUMBERS = re.compile(
    rb"(?s)(?:[\x08\x10\x18\x20\x28\x30\x38\x40\x48\x50\x58\x60\x68\x70\x78][\x80-\xff]{0,9}+[\x00-\x7f]"
    rb"|[\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d].{4}"
    rb"|[\x09\x11\x19\x21\x29\x31\x39\x41\x49\x51\x59\x61\x69\x71\x79].{8})++"
)
"""Whole fields that are numbers: a tag of one byte, then a varint, four bytes or eight."""

_OF_MODELS = {field.number for field in onnx.ModelProto.DESCRIPTOR.fields}
"""The fields of a whole model; a file of something else seldom goes on with one of these."""


@dataclass(frozen=True, slots=True)
class Reference:
    """In a list of segments: the payload that ``token`` stands for goes here."""

    token: bytes
    length: int

    def __len__(self) -> int:
        return self.length


Segment = bytes | Reference
Field = tuple[int, int, int, int, int]
"""One field of a message: where it begins, its number and wire type, where its value begins and ends."""


class ByteWindow:
    """Sequential parsing over a Source through a bounded buffer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start = 0
        self._data = b""

    def _at(self, position: int) -> int:
        """Return an index into the buffer such that at least one whole tag and length can be read there."""
        index = position - self._start
        if index < 0 or index + _LONGEST_HEAD > len(self._data):
            self._start = position
            self._data = self._source.read(position, min(WINDOW, self._source.size - position))
            return 0
        return index

    def varint(self, position: int, end: int, longest: int = 10) -> tuple[int, int]:
        """Return the integer at ``position`` and the position behind it; it must lie before ``end``."""
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
        """Return the raw bytes of a range, from the buffer where it holds them."""
        index = start - self._start
        if index >= 0 and end - self._start <= len(self._data):
            return self._data[index : end - self._start]
        return self._source.read(start, end - start)

    def field(self, start: int, end: int) -> Field:
        """Return the field at ``start``."""
        key, position = self.varint(start, end, _LONGEST_TAG)
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
            if start > 0 and end == self._source.size and number in _OF_MODELS:
                raise CutOffModel(f"is cut off: {end:,} of {stop:,} bytes; copy it again")
            raise MalformedModel("a length points outside the message that holds it")
        return start, number, kind, position, stop

    def pass_over(self, position: int, end: int, threshold: int) -> int:
        """Return the place behind the fields that need no look and that the buffer holds whole.

        These are numbers (an attribute may have many) and length-delimited fields shorter than ``threshold``.
        Where a model has many nodes, nearly all its fields are of the latter kind, and this loop is all the time
        lifting takes; what it does not recognise is left to `field`, which checks.
        """
        data, start = self._data, self._start
        index, stop = position - start, min(end - start, len(data))
        if 0 <= index < stop and (numbers := _NUMBERS.match(data, index, stop)) is not None:
            index = numbers.end()
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


class MessageWalk(NamedTuple):
    """One pass over a model, which replaces tensors.

    Attributes:
        window: The encoded model.
        skip: (position, end) -> a position from there on such that no field in between is to be entered.
        is_wanted: (start, end) -> whether to enter the message there.
        replaced: (start, end, payload fields, is it in an attribute) -> what is to stand in place of a TensorProto's
            bytes; None where they stay.
    """

    window: ByteWindow
    skip: Callable[[int, int], int]
    is_wanted: Callable[[int, int], bool]
    replaced: Callable[[int, int, list[Field], bool], list[Segment] | None]

    def message(self, kind: str, start: int, end: int, depth: int = 0) -> list[Segment] | None:
        """Return the pieces of the message with its tensors replaced; None when none in it was."""
        if depth > wire.MAX_DEPTH:
            raise MalformedModel(f"messages are nested more than {wire.MAX_DEPTH} deep")
        window = self.window
        pieces: list[Segment] = []
        copied = position = start
        while (position := self.skip(position, end)) < end:
            _, number, wire_type, value, stop = window.field(position, end)
            child = wire.CHILDREN[kind].get(number) if wire_type == BYTES else None
            inner = None
            if child is not None and self.is_wanted(value, stop):
                if child == wire.TENSOR:
                    inner = self._tensor(value, stop, in_attribute=kind == wire.ATTRIBUTE)
                else:
                    inner = self.message(child, value, stop, depth + 1)
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

    def _tensor(self, start: int, end: int, *, in_attribute: bool) -> list[Segment] | None:
        payloads = []
        position = start
        while position < end:
            found = self.window.field(position, end)
            if found[1] in wire.PAYLOAD_FIELDS:
                payloads.append(found)
            position = found[-1]
        return self.replaced(start, end, payloads, in_attribute)
