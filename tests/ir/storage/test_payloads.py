"""Tokens stand for tensors, for nothing else, and always for the same."""

from __future__ import annotations

import numpy as np

from bnfold.ir.elements import TP
from bnfold.ir.storage.payloads import TOKEN_LENGTH, Payloads
from bnfold.ir.tensor import Exact, Scaled
from tests.ir.build import stored


def test_a_token_stands_for_its_tensor() -> None:
    payloads = Payloads()
    tensors = [Exact(TP.FLOAT, np.zeros(size)) for size in range(300)]
    tokens = [payloads.add(tensor) for tensor in tensors]
    assert len(set(tokens)) == 300
    assert {len(token) for token in tokens} == {TOKEN_LENGTH}
    assert [payloads.get(token) for token in tokens] == tensors
    assert [payloads.held(token) for token in tokens] == tensors
    assert list(payloads.within(b"x".join(reversed(tokens)))) == tensors[::-1]


def test_other_bytes_stand_for_nothing() -> None:
    payloads = Payloads()
    token = payloads.add(Exact(TP.FLOAT, np.zeros(3)))
    for other in (b"", token[:-1], token + b"\0", bytes(TOKEN_LENGTH), b"x" + token[1:]):
        assert payloads.get(other) is None
    assert Payloads().get(token) is None


def test_sources_are_those_of_stored_tensors_and_of_what_is_computed_from_them() -> None:
    payloads = Payloads()
    values = np.ones((2, 3), np.float32)
    plain, base = stored(values, TP.FLOAT), stored(values, TP.FLOAT)
    for tensor in (plain, Scaled(base, [(0, np.ones(2))]), Exact(TP.FLOAT, np.zeros(3))):
        payloads.add(tensor)
    assert payloads.sources() == {plain.span.source, base.span.source}
