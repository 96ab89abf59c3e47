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


SIZES = (
    "int64[3] front = {-1, 3, 4}, int64[3] back = {0, 2, -1}, int64[3] turned = {-1, 4, 3}, int64 zero = {0},"
    " int64[1] heads = {2}, int64[1] three = {3}, int64[1] four = {4}, int64[1] rest = {-1}, int64[1] none = {0}"
)
BATCH = "s = Shape (x) g = Gather (s, none)"
JOINED = {
    "the last two axes": (
        (
            f"{BATCH} j = Reshape (x, front) t = Transpose <perm = [0, 2, 1]> (j) "
            "p = Concat <axis = 0> (g, heads, four, three) r = Reshape (t, p) y = Relu (r)"
        ),
        ["Transpose", "Relu"],
    ),
    "joined axes go to the end": (
        (
            f"{BATCH} j = Reshape (x, front) t = Transpose <perm = [1, 2, 0]> (j) "
            "p = Concat <axis = 0> (three, four, g, heads) r = Reshape (t, p) y = Relu (r)"
        ),
        ["Transpose", "Relu"],
    ),
    "the last axes are joined": (
        (
            f"{BATCH} j = Reshape (x, back) t = Transpose <perm = [0, 2, 1]> (j) "
            "p = Concat <axis = 0> (g, three, four, heads) r = Reshape (t, p) y = Relu (r)"
        ),
        ["Transpose", "Relu"],
    ),
    "an axis of one element in between": (
        (
            f"{BATCH} j = Unsqueeze (x, three) t = Transpose <perm = [0, 4, 1, 2, 3]> (j) "
            "p = Concat <axis = 0> (g, four, heads, three) r = Reshape (t, p) y = Relu (r)"
        ),
        ["Transpose", "Relu"],
    ),
    "parted in another order": (
        (
            f"{BATCH} j = Reshape (x, front) t = Transpose <perm = [0, 2, 1]> (j) "
            "p = Concat <axis = 0> (heads, g, four, three) r = Reshape (t, p) y = Relu (r)"
        ),
        ["Reshape", "Transpose", "Reshape", "Relu"],
    ),
    "joined across two axes": (
        (
            f"{BATCH} j = Reshape (x, turned) t = Transpose <perm = [0, 2, 1]> (j) "
            "p = Concat <axis = 0> (g, heads, three, four) r = Reshape (t, p) y = Relu (r)"
        ),
        ["Reshape", "Transpose", "Reshape", "Relu"],
    ),
    "another reads the joined axes": (
        (
            f"{BATCH} j = Reshape (x, front) t = Transpose <perm = [0, 2, 1]> (j) "
            "p = Concat <axis = 0> (g, heads, four, three) r = Reshape (t, p) a = ReduceSum (j) y = Add (r, a)"
        ),
        ["Reshape", "Transpose", "Reshape", "ReduceSum", "Add"],
    ),
    "a Transpose that has nothing joined": (
        "t = Transpose <perm = [0, 1, 3, 2]> (x) r = Reshape (t, front) y = Relu (r)",
        ["Transpose", "Reshape", "Relu"],
    ),
}


@pytest.mark.parametrize("case", JOINED)
def test_axes_that_are_joined_for_a_transpose(case: str) -> None:
    body, left = JOINED[case]
    before = model("(float[N,2,3,4] x) => (float y)", body, SIZES)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, report = simplified(before)
    assert operators(after) == left
    assert ("Transpose of joined axes" in {event.rewrite.title for event in report.simplified}) == (
        left[0] == "Transpose" and len(left) == 2
    )
    assert_equal(before, after, (2, 2, 3, 4), (1, 2, 3, 4), (5, 2, 3, 4))


def test_keys_of_attention_of_dynamic_sizes() -> None:
    """As PyTorch exports them: the number of heads is a size of another value, and each size is read from the shape."""
    body = """
        s = Shape (x)  v = Reshape (x, part)  k = Transpose <perm = [0, 2, 1, 3]> (v)  d = Shape (k)
        l = Slice (d, far, rest)  f = Slice (d, zero, far)
        p = Concat <axis = 0> (rest, l, four)  j = Reshape (k, p)  t = Transpose <perm = [0, 2, 1]> (j)
        q = Concat <axis = 0> (f, four, l)  y = Reshape (t, q)
    """
    stored = (
        "int64[4] part = {0, 0, -1, 4}, int64[1] far = {-2}, int64[1] rest = {-1}, int64[1] four = {4},"
        " int64[1] zero = {0}"
    )
    before = model("(float[N,L,C] x) => (float[A,B,D,E] y)", body, stored)
    after, _ = simplified(before)
    assert operators(after) == ["Reshape", "Transpose"]
    assert_equal(before, after, (2, 3, 8), (1, 5, 4))


def test_joined_axes_of_a_value_of_unknown_rank_stay() -> None:
    body = "q = Reshape (x, u) j = Reshape (q, front) t = Transpose <perm = [0, 2, 1]> (j) y = Reshape (t, v)"
    before = model("(float[N,24] x, int64[R] u, int64[R] v) => (float y)", body, SIZES)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == ["Reshape", "Transpose", "Reshape"]
