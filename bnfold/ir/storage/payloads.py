"""The tensors whose bytes are not in the skeleton, and the tokens that stand for them there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from bnfold.ir.storage.source import Source
from bnfold.ir.storage.stored import Stored
from bnfold.ir.tensor import Tensor, sources_of

THRESHOLD = 1024
"""Payloads of at least this many bytes never enter protobuf.

Small kernels count too: 20,000 convolutions of 2 kB held in protobuf, read, and written anew took 583 MiB and now take
338, in the same time."""

_NONCE_LENGTH, _INDEX_LENGTH = 16, 8
TOKEN_LENGTH = _NONCE_LENGTH + _INDEX_LENGTH


class Payloads:
    """The tensors by token. Copies of a model share them, and no token is used again: it means the same in all."""

    def __init__(self, nonce: bytes | None = None, tensors: Iterable[Tensor] = ()) -> None:
        self.nonce = nonce or os.urandom(_NONCE_LENGTH)
        self._tensors = list(tensors)

    def add(self, tensor: Tensor) -> bytes:
        """Add a token for the tensor: the nonce, which no file can contain on purpose, and an index."""
        self._tensors.append(tensor)
        return self._token(len(self._tensors) - 1)

    def _token(self, index: int) -> bytes:
        return self.nonce + index.to_bytes(_INDEX_LENGTH, "little")

    def get(self, token: bytes) -> Tensor | None:
        """Return the tensor a token stands for; None for bytes that are no token."""
        if len(token) != TOKEN_LENGTH or not token.startswith(self.nonce):
            return None
        return self._tensors[int.from_bytes(token[_NONCE_LENGTH:], "little")]

    def held(self, token: bytes) -> Tensor:
        """Return the tensor of a token that is known to be one."""
        return self._tensors[int.from_bytes(token[_NONCE_LENGTH:], "little")]

    def within(self, skeleton: bytes) -> Iterator[Tensor]:
        """Yield the tensors that an encoded skeleton holds tokens of.

        Edits leave behind some that it no longer does.
        """
        return map(self.held, self._tokens(skeleton))

    def used_in(self, skeleton: bytes) -> Payloads:
        """Return those that an encoded skeleton holds tokens of; other tokens stand for nothing there."""
        used, nothing = {*self._tokens(skeleton)}, Tensor(0, (0,))
        return Payloads(
            self.nonce, [tensor if self._token(i) in used else nothing for i, tensor in enumerate(self._tensors)]
        )

    def _tokens(self, skeleton: bytes) -> Iterator[bytes]:
        position = skeleton.find(self.nonce)
        while position >= 0:
            yield skeleton[position : position + TOKEN_LENGTH]
            position = skeleton.find(self.nonce, position + TOKEN_LENGTH)

    def sources(self) -> set[Source]:
        """Return the files that hold payloads."""
        bases = (base for tensor in self._tensors for base in sources_of(tensor))
        return {base.span.source for base in bases if isinstance(base, Stored)}
