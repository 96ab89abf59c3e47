"""Transpose: none for one that moves nothing, one for two."""

from __future__ import annotations

import pytest

from tests.simplifying.small import assert_equal, model, operators, simplified

CASES = {
    "nothing moves": ("t = Transpose <perm = [0, 1, 2]> (x) y = Relu (t)", ["Relu"]),
    "there and back": (
        "t = Transpose <perm = [1, 2, 0]> (x) u = Transpose <perm = [2, 0, 1]> (t) y = Relu (u)",
        ["Relu"],
    ),
    "there and further": ("t = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 2, 0]> (t)", ["Transpose"]),
    "all axes, twice": ("t = Transpose (x) u = Transpose (t) y = Relu (u)", ["Relu"]),
    "another reads what is between": (
        "t = Transpose <perm = [1, 2, 0]> (x) u = Transpose <perm = [1, 2, 0]> (t) a = ReduceSum (t) y = Add (u, a)",
        ["Transpose", "Transpose", "ReduceSum", "Add"],
    ),
    "another reads what is between a pair": (
        "t = Transpose <perm = [1, 2, 0]> (x) u = Transpose <perm = [2, 0, 1]> (t) a = ReduceSum (t) y = Add (u, a)",
        ["Transpose", "ReduceSum", "Add"],
    ),
    "no order": ("t = Transpose <perm = [0, 2, 1]> (x) y = Relu (t)", ["Transpose", "Relu"]),
}


@pytest.mark.parametrize("case", CASES)
def test_transposes(case: str) -> None:
    body, left = CASES[case]
    before = model("(float[N,2,3] x) => (float[A,B,C] y)", body)
    after, _ = simplified(before)
    assert operators(after) == left
    assert_equal(before, after, (4, 2, 3), (0, 2, 3))
