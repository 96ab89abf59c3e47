"""Windows cover every element once, in order, in bounded pieces."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bnfold.ir.tensor import windows


@given(st.lists(st.integers(0, 7), max_size=5), st.integers(1, 40))
def test_windows_cover_the_tensor_in_order(dims: list[int], limit: int) -> None:
    flat = np.arange(math.prod(dims))
    array = flat.reshape(dims)
    position = 0
    for start, window in windows(dims, limit):
        piece = array[window]
        assert start == position
        assert piece.size <= limit
        np.testing.assert_array_equal(piece.reshape(-1), flat[start : start + piece.size])
        position += piece.size
    assert position == array.size


def test_windows_are_as_large_as_they_may_be() -> None:
    assert len(list(windows((64, 3, 7), 1000))) == 2
    assert len(list(windows((64, 3, 7), 64 * 21))) == 1
    assert len(list(windows((2, 1000), 300))) == 8
