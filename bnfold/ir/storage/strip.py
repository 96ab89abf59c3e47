"""From the encoded model to its skeleton: every large payload, at any depth, gives way to a short token."""

from __future__ import annotations

from collections.abc import Callable

from bnfold.ir.storage import wire
from bnfold.ir.storage.source import Source
from bnfold.ir.storage.walk import Field, Segment, Walk

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
