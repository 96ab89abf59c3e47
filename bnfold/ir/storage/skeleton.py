"""From the encoded model to its skeleton, in which every large payload, at any depth, is but a token; and back."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from bnfold.ir.storage import wire
from bnfold.ir.storage.source import BufferSource, Source
from bnfold.ir.storage.walk import TOO_LONG, Field, Reference, Segment, Walk

Token = Callable[[bytes, int, int, int], bytes]
"""(the rest of the TensorProto, field number, offset and length of its payload) -> what takes the payload's place."""


def strip_payloads(source: Source, threshold: int, token: Token) -> bytes:
    """The skeleton of the encoded ModelProto in ``source``.

    Payloads of at least ``threshold`` bytes are handed to ``token`` and never read. Messages that were not touched
    are copied byte for byte, unknown fields included. Raises MalformedModel for lengths that do not fit.
    """
    pieces = _Strip(source, threshold, token).message(wire.MODEL, 0, source.size)
    return source.read(0, source.size) if pieces is None else b"".join(pieces)  # type: ignore[arg-type]


class _Strip(Walk):
    def __init__(self, source: Source, threshold: int, token: Token) -> None:
        super().__init__(source)
        self._threshold = threshold
        self._token = token

    def jump(self, position: int, end: int) -> int:
        return self.window.pass_over(position, end, self._threshold)

    def is_wanted(self, start: int, stop: int) -> bool:
        return stop - start >= self._threshold

    def replaced(self, start: int, end: int, payloads: list[Field], *, in_attribute: bool) -> list[Segment] | None:  # noqa: ARG002
        """Nothing for a payload in several records: that is legal but rare, protobuf merges it."""
        if len(payloads) != 1:
            return None
        position, number, wire_type, value, stop = payloads[0]
        if wire_type != wire.BYTES or not self.is_wanted(value, stop):
            return None
        rest = self.window.bytes(start, position) + self.window.bytes(stop, end)
        return [rest, wire.record(wire.RAW_DATA, self._token(rest, number, value, stop - value))]


Place = Callable[[bytes, bool], tuple[int, int] | bytes]
"""(token, is it in an attribute) -> (field number, length) of the payload to write in place, or the encoded fields
that stand in for it."""


def insert_payloads(skeleton: bytes, nonce: bytes, token_length: int, place: Place) -> list[Segment]:
    """The segments of the encoded skeleton with every token (``nonce`` + index) replaced as ``place`` says."""
    found = _Insert(skeleton, nonce, token_length, place).message(wire.MODEL, 0, len(skeleton))
    return [skeleton] if found is None else found


class _Insert(Walk):
    """Enters only the messages that hold a token."""

    def __init__(self, skeleton: bytes, nonce: bytes, token_length: int, place: Place) -> None:
        super().__init__(BufferSource(skeleton))
        self._token_length = token_length
        self._nonce = nonce
        self._place = place
        self._end = len(skeleton)
        self._marks = [match.start() for match in re.finditer(re.escape(nonce), skeleton)]

    def jump(self, position: int, end: int) -> int:
        stop = min(end, self._next_mark(position))
        return stop if stop == end else self.window.pass_over(position, stop, TOO_LONG)

    def is_wanted(self, start: int, stop: int) -> bool:
        return self._next_mark(start) < stop

    def replaced(self, start: int, end: int, payloads: list[Field], *, in_attribute: bool) -> list[Segment] | None:
        for position, number, _, value, stop in payloads:
            token = self.window.bytes(value, stop)
            if number == wire.RAW_DATA and len(token) == self._token_length and token.startswith(self._nonce):
                placed = self._place(token, in_attribute)
                before, behind = self.window.bytes(start, position), self.window.bytes(stop, end)
                if isinstance(placed, bytes):
                    return [before, placed, behind]
                return [before, wire.length_prefix(*placed), Reference(token, placed[1]), behind]
        return None

    def _next_mark(self, position: int) -> int:
        """Where the next token starts; behind everything when there is none."""
        index = bisect_left(self._marks, position)
        return self._marks[index] if index < len(self._marks) else self._end
