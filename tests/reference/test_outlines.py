"""Arrays without numbers: shapes and types as numpy has them, and an exception where only numbers would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from bnfold.reference.outlines import Outline, UnknownNumbers, forget_numbers, has_outline, outline

X = outline((2, 3), np.float64)


class Operands(NamedTuple):
    x: Any
    v: Any


OUTLINES = Operands(X, outline((3,), np.float64))
PLAIN = Operands(np.zeros((2, 3)), np.zeros(3))
FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda o: o.x + o.v,
    lambda o: np.maximum(o.x, 0),
    lambda o: o.x @ o.v,
    lambda o: o.v @ o.x.T,
    lambda o: np.matmul(o.x[None], o.x.T),
    lambda o: o.x.sum(axis=1, keepdims=True),
    lambda o: np.add.accumulate(o.x, 1),
    lambda o: np.where(o.x > 0, o.x, o.v),
    lambda o: np.concatenate([o.x, o.x], 1),
    lambda o: np.concatenate([o.x, o.x], axis=1),
    lambda o: np.stack([o.v, o.v]),
    lambda o: o.x.reshape(3, 2),
    lambda o: o.x[:, 1:],
    lambda o: o.x[:, np.array([2, 0])],
    lambda o: o.x.astype(np.int32),
    lambda o: np.pad(o.x, 1),
    lambda o: o.x.copy(),
    lambda o: np.stack([*o.x]),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_shapes_and_types_are_those_of_numpy(function: Callable[[Any], Any]) -> None:
    found, expected = function(OUTLINES), function(PLAIN)
    assert isinstance(found, Outline)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)


@pytest.mark.parametrize(
    "function",
    [
        lambda o: o.x + np.zeros(2),
        lambda o: o.x @ o.x,
        lambda o: np.concatenate([o.x, o.v]),
        lambda o: np.concatenate([o.x, o.x[:1]], 1),
        lambda o: o.x.reshape(7),
        lambda o: o.x.__setitem__(0, np.zeros(2)),
        lambda o: o.x.__iadd__(np.zeros((4, 2, 3))),
        lambda o: outline((), np.float64) @ o.x,
    ],
)
def test_shapes_that_do_not_fit_are_refused_as_by_numpy(function: Callable[[Any], Any]) -> None:
    for operands in (OUTLINES, PLAIN):
        with pytest.raises((ValueError, IndexError)):
            function(operands)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[0, 0].item(),
        lambda x: x.tolist(),
        lambda x: int(x[0, 0]),
        lambda x: float(x[0, 0]),
        np.nonzero,
        np.unique,
        np.where,
        lambda x: x[x > 0],
        lambda x: list(range(3))[x.astype(np.int64)[0, 0]],
    ],
)
def test_numbers_are_not_told(function: Callable[[Any], Any]) -> None:
    with pytest.raises(UnknownNumbers):
        function(X)


def test_writing_changes_nothing_but_what_it_is_written_to() -> None:
    plain = np.zeros((2, 3))
    plain += X
    assert type(plain) is np.ndarray
    copied = outline((2, 3), np.float64)
    copied[0] = 5.0
    np.copyto(plain, copied)
    assert not plain.any()


def test_no_memory_is_taken() -> None:
    assert (outline((1 << 20, 1 << 20), np.float64) * 2).strides == (0, 0)


def test_the_numbers_of_sequences_are_forgotten() -> None:
    found = forget_numbers([np.ones(2), "text", (np.float32(1),)])
    assert has_outline(found)
    assert found[1] == "text"
    assert found[2][0].shape == ()
    assert not has_outline([np.ones(2)])
    assert forget_numbers(np.ones(0)).size == 0
