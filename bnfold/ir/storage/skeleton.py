"""From the encoded model to its skeleton, in which every large payload, at any depth, is but a token; and back."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from bnfold.ir.storage import wire
from bnfold.ir.storage.source import BufferSource, Source
from bnfold.ir.storage.walk import TOO_LONG, ByteWindow, Field, MessageWalk, Reference, Segment

Token = Callable[[bytes, int, int, int], bytes]
"""(the rest of the TensorProto, field number, offset and length of its payload) -> what takes the payload's place."""


def strip_payloads(source: Source, threshold: int, token: Token) -> bytes:
    """Return the skeleton of the encoded ModelProto in ``source``.

    Payloads of at least ``threshold`` bytes are handed to ``token`` and never read. Messages that were not touched
    are copied byte for byte, unknown fields included. Raises MalformedModel for lengths that do not fit.
    """
    window = ByteWindow(source)

    def is_wanted(start: int, stop: int) -> bool:
        return stop - start >= threshold

    def replaced(start: int, end: int, payloads: list[Field], _: bool) -> list[Segment] | None:
        """Return nothing for a payload in several records: that is legal but rare, protobuf merges it."""
        if len(payloads) != 1:
            return None
        position, number, wire_type, value, stop = payloads[0]
        if wire_type != wire.BYTES or not is_wanted(value, stop):
            return None
        rest = window.bytes(start, position) + window.bytes(stop, end)
        return [rest, wire.record(wire.RAW_DATA, token(rest, number, value, stop - value))]

    walk = MessageWalk(window, partial(window.pass_over, threshold=threshold), is_wanted, replaced)
    pieces = walk.message(wire.MODEL, 0, source.size)
    return source.read(0, source.size) if pieces is None else b"".join(pieces)  # type: ignore[arg-type]


PlacePayload = Callable[[bytes, bool], tuple[int, int] | bytes]
"""(token, is it in an attribute) -> (field number, length) of the payload to write in place, or the encoded fields
that stand in for it."""


def insert_payloads(skeleton: bytes, nonce: bytes, token_length: int, place: PlacePayload) -> list[Segment]:
    """Return the segments of the encoded skeleton with every token (``nonce`` + index) replaced as ``place`` says.

    Only messages that hold a token are entered.
    """
    window = ByteWindow(BufferSource(skeleton))
    marks = [*(match.start() for match in re.finditer(re.escape(nonce), skeleton)), len(skeleton)]

    def next_mark(position: int) -> int:
        """Return where the next token starts; behind everything when there is none."""
        return marks[bisect_left(marks, position)]

    def skip(position: int, end: int) -> int:
        stop = min(end, next_mark(position))
        return stop if stop == end else window.pass_over(position, stop, TOO_LONG)

    def is_wanted(start: int, stop: int) -> bool:
        return next_mark(start) < stop

    def replaced(start: int, end: int, payloads: list[Field], in_attribute: bool) -> list[Segment] | None:
        for position, number, _, value, stop in payloads:
            token = window.bytes(value, stop)
            if number == wire.RAW_DATA and len(token) == token_length and token.startswith(nonce):
                placed = place(token, in_attribute)
                before, behind = window.bytes(start, position), window.bytes(stop, end)
                if isinstance(placed, bytes):
                    return [before, placed, behind]
                return [before, wire.length_prefix(*placed), Reference(token, placed[1]), behind]
        return None

    found = MessageWalk(window, skip, is_wanted, replaced).message(wire.MODEL, 0, len(skeleton))
    return [skeleton] if found is None else found
