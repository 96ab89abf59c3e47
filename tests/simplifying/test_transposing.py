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


AS_RESHAPE = {
    "before a Reshape": ("t = Transpose <perm = [1, 0, 2]> (x) y = Reshape (t, flat)", ["Reshape"]),
    "behind a Reshape": ("r = Reshape (x, wide) y = Transpose <perm = [1, 0, 2]> (r)", ["Reshape"]),
    "between two": (
        "q = Squeeze (x, one) u = Unsqueeze (q, zero) t = Transpose <perm = [1, 0, 2]> (u) y = Relu (t)",
        ["Relu"],
    ),
    "two axes of more elements": (
        "t = Transpose <perm = [2, 1, 0]> (x) y = Reshape (t, flat)",
        ["Transpose", "Reshape"],
    ),
    "another reads what is between": (
        "t = Transpose <perm = [1, 0, 2]> (x) r = Reshape (t, flat) a = ReduceSum (t) y = Add (r, a)",
        ["Transpose", "Reshape", "ReduceSum", "Add"],
    ),
}


@pytest.mark.parametrize("case", AS_RESHAPE)
def test_a_transpose_of_axes_of_one_element_is_a_reshape(case: str) -> None:
    body, left = AS_RESHAPE[case]
    sizes = "int64[1] flat = {-1}, int64[3] wide = {1, -1, 3}, int64[1] one = {1}, int64[1] zero = {0}"
    before = model("(float[N,1,3] x) => (float y)", body, sizes)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == left
    assert_equal(before, after, (4, 1, 3), (1, 1, 3))


def test_a_size_that_may_be_1_and_is_open_moves() -> None:
    before = model("(float[N,M] x) => (float[A] y)", "t = Transpose (x) y = Reshape (t, flat)", "int64[1] flat = {-1}")
    after, _ = simplified(before)
    assert operators(after) == ["Transpose", "Reshape"]
    assert_equal(before, after, (1, 3), (2, 3))
