"""Two Slices, Unsqueezes, Squeezes or Concats in a row."""

from __future__ import annotations

import numpy as np
import pytest

import bnfold
from tests.simplifying.small import assert_equal, model, operators, simplified

NUMBERS = ", ".join(f"int64[1] n{number} = {{{number}}}" for number in (0, 1, 2, 3, 9)) + ", int64[1] back = {-1}"
HEAD = "(float[N,M,K] x) => (float[A,B,C] y)"


EVEN, BOTH = "a = Slice (x, n0, n9, n1, n2)", "b = Slice (a, n0, n9, n2, n2)"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"{EVEN}  y = Slice (a, n1, back, n2)", ["Slice"]),
        ("a = Slice (x, n1, n3)  y = Slice (a, n1, n9, n1, n2)", ["Slice"]),
        (f"{EVEN}  {BOTH}  c = Slice (a, n1, n9, n2, n2)  y = Add (b, c)", ["Slice", "Slice", "Add"]),
        (f"{EVEN}  y = Slice (a, n1, n9, n1)", ["Slice", "Slice"]),
        (f"{EVEN}  y = Slice (a, n1, n9, back)", ["Slice"]),
        (f"{EVEN}  {BOTH}  c = Neg (a)  y = Concat <axis = 2> (b, c)", ["Slice", "Slice", "Neg", "Concat"]),
    ],
)
def test_slices(body: str, left: list[str]) -> None:
    before = model(HEAD, body, NUMBERS)
    after, _ = simplified(before)
    assert operators(after) == left
    assert_equal(before, after, (4, 6, 4), (3, 4, 6))


@pytest.mark.parametrize("opset", [12, 13])
@pytest.mark.parametrize("first", [[0], [1], [2], [0, 2], [1, 2], [1, 3]])
@pytest.mark.parametrize("second", [[0], [1], [2], [3], [0, 1], [2, 4], [1, 5]])
def test_unsqueezes(first: list[int], second: list[int], opset: int) -> None:
    """Of an unknown rank, so that no Reshape takes their place."""
    rank = 2 + len(first) + len(second)
    if second[-1] >= rank or first[-1] >= rank - len(second):
        pytest.skip("no such axis")
    made = f"a = Unsqueeze <axes = {first}> (r)  b = Unsqueeze <axes = {second}> (a)"
    numbers = ""
    if opset == 13:
        made = "a = Unsqueeze (r, p)  b = Unsqueeze (a, q)"
        rows = (("p", first), ("q", second))
        numbers = ", ".join(f"int64[{len(axes)}] {name} = {{{str(axes)[1:-1]}}}" for name, axes in rows)
    body = f"r = Reshape (x, t)  {made}  y = Abs (b)"
    before = model("(float[N,M] x, int64[R] t) => (float[A] y)", body, numbers, opset=opset)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == ["Reshape", "Unsqueeze", "Abs"]
    assert_equal(before, after, (2, 3), t=np.array([3, 2]))


def test_of_an_unknown_rank() -> None:
    before = model(
        "(float[N,M] x, int64[R] t) => (float[A,B,C,D] y)",
        "r = Reshape (x, t)  a = Unsqueeze (r, n1)  y = Unsqueeze (a, n0)",
        NUMBERS,
    )
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, report = simplified(before)
    assert operators(after) == ["Reshape", "Unsqueeze"]
    assert "Unsqueeze pair" in {event.rewrite.title for event in report.simplified}
    back = model(
        "(float[N,M] x, int64[R] t) => (float[A] y)",
        "r = Reshape (x, t)  a = Squeeze (r, n0)  y = Squeeze (a, n1)",
        NUMBERS,
    )
    back.graph.output[0].type.tensor_type.ClearField("shape")
    squeezed, _ = simplified(back)
    assert operators(squeezed) == ["Reshape", "Squeeze"]
    assert_equal(before, after, (2, 3), t=np.array([3, 2]))
    assert_equal(back, squeezed, (2, 3), t=np.array([1, 6, 1]))
    assert_equal(back, squeezed, (2, 3), t=np.array([1, 3, 1, 2]))


MANY = {
    "several": ("b = Unsqueeze (a, n0)  c = Unsqueeze (a, n2)  y = Add (b, c)", ["Unsqueeze", "Unsqueeze", "Add"]),
    "another operator as well": (
        "b = Unsqueeze (a, n0)  c = Neg (a)  y = Add (b, c)",
        ["Unsqueeze", "Unsqueeze", "Neg", "Add"],
    ),
    "one whose axis counts from the back": (
        "b = Unsqueeze (a, n0)  c = Unsqueeze (a, back)  y = Add (b, c)",
        ["Unsqueeze", "Unsqueeze", "Unsqueeze", "Add"],
    ),
    "one of the axes that it reads": (
        "b = Unsqueeze (a, n0)  o = Unsqueeze (n0, n0)  q = Squeeze (o, n0)  c = Unsqueeze (a, q)  y = Add (b, c)",
        ["Unsqueeze", "Add"],
    ),
}


@pytest.mark.parametrize("case", MANY)
def test_several_of_one(case: str) -> None:
    """Of an unknown rank, so that no Reshape takes their place."""
    body, left = MANY[case]
    head = "(float[N,M] x, int64[R] t) => (float[A] y)"
    before = model(head, f"r = Reshape (x, t)  a = Unsqueeze (r, n1)  {body}", NUMBERS)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == ["Reshape", *left]
    assert_equal(before, after, (2, 2), t=np.array([2, 2]))


IN_A_BRANCH = """
    b = Unsqueeze (a, n0)
    y = If (c) <
        then_branch = g () => (float[A] p) { p = Unsqueeze (a, n0) }, else_branch = h () => (float[A] q) { q = Neg (b) }
    >
"""


@pytest.mark.parametrize(("result", "body"), [("", IN_A_BRANCH), ("float[A] a, ", "y = Unsqueeze (a, n0)")])
def test_what_is_between_may_be_read_inside_or_be_an_output(result: str, body: str) -> None:
    head = f"(float[N,M] x, int64[R] t, bool c) => ({result}float[A] y)"
    before = model(head, f"r = Reshape (x, t)  a = Unsqueeze (r, n1)  {body}", NUMBERS)
    for info in before.graph.output:
        info.type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after)[:3] == ["Reshape", "Unsqueeze", "Unsqueeze"]


INNER = "a = Abs (x)  b = Neg (x)  c = Concat <axis = 1> (a, x)"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("y = Concat <axis = 1> (b, c, x)", 1),
        ("d = Concat <axis = -2> (x, b)  y = Concat <axis = 1> (c, d)", 1),
        ("y = Concat <axis = 2> (c, c)", 2),
        ("y = Concat <axis = 1> (c, c)", 2),
        ("e = Concat <axis = 1> (c, b)  f = Relu (c)  y = Concat <axis = 1> (e, f)", 2),
        ("e = Concat <axis = 2> (b, x)  f = Concat <axis = 2> (c, c)  y = MatMul (f, f)", 2),
    ],
)
def test_concats(body: str, left: int) -> None:
    before = model("(float[N,2,2] x) => (float[A,B,C] y)", f"{INNER}  {body}", NUMBERS)
    after, _ = simplified(before)
    assert operators(after).count("Concat") == left
    assert_equal(before, after, (1, 2, 2), (0, 2, 2))


@pytest.mark.parametrize(("inner", "left"), [(-1, 1), (1, 2)])
def test_concats_of_an_unknown_rank(inner: int, left: int) -> None:
    """What counts from the back and what counts from the front may be one axis or two."""
    body = f"r = Reshape (x, t)  s = Reshape (x, u)  a = Concat <axis = {inner}> (r, r)  y = Concat <axis = -1> (s, a)"
    before = model("(float[N,M] x, int64[R] t, int64[R] u) => (float[A] y)", body)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after).count("Concat") == left
    for t, u in (([3, 2], [3, 2]), ([1, 3, 2], [1, 6, 1] if inner == 1 else [1, 3, 2])):
        assert_equal(before, after, (2, 3), t=np.array(t), u=np.array(u))


STACKED = {
    "in the middle": ("u = Unsqueeze (p, o) v = Unsqueeze (q, o) y = Concat <axis = 1> (u, v, u)", 1),
    "counted from the end": ("u = Unsqueeze (p, o) v = Unsqueeze (q, o) y = Concat <axis = -2> (u, v)", 1),
    "in front": ("u = Unsqueeze (p, z) v = Unsqueeze (q, z) y = Concat <axis = 0> (u, v)", 1),
    "behind": ("u = Unsqueeze (p, t) v = Unsqueeze (q, t) y = Concat <axis = 2> (u, v)", 0),
    "along another axis": ("u = Unsqueeze (p, o) v = Unsqueeze (q, o) y = Concat <axis = 2> (u, v)", 0),
    "two axes": ("u = Unsqueeze (p, zo) v = Unsqueeze (q, zo) y = Concat <axis = 1> (u, v)", 0),
    "one without": ("u = Unsqueeze (p, o) v = Unsqueeze (q, o) w = Relu (v) y = Concat <axis = 1> (u, v, w)", 0),
    "read by others": (
        "u = Unsqueeze (p, o) v = Unsqueeze (q, o) c = Concat <axis = 1> (u, v) s = Add (u, v) y = Sub (c, s)", 0),
    "one of three read by another": (
        ("r = Neg (p) u = Unsqueeze (p, o) v = Unsqueeze (q, o) w = Unsqueeze (r, o) "
        "c = Concat <axis = 1> (u, v, w) y = Sub (c, u)"), 1),
}  # fmt: skip


@pytest.mark.parametrize("case", STACKED)
def test_values_that_are_stacked(case: str) -> None:
    body, reshapes = STACKED[case]
    before = model(
        "(float[N,3] x) => (float y)",
        f"p = Tanh (x) q = Exp (x) {body}",
        "int64[1] z = {0}, int64[1] o = {1}, int64[1] t = {2}, int64[2] zo = {0, 1}",
    )
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, report = simplified(before)
    assert operators(after).count("Reshape") == reshapes
    assert [event.rewrite.name for event in report.simplified].count("unsqueeze-concat") == reshapes
    assert_equal(before, after, (2, 3), (5, 3), *([(0, 3)] if reshapes else []))
    assert bnfold.optimize(before).status == "verified"


def test_steps_of_two_open_sizes_stay() -> None:
    body = "p = Tanh (x) q = Exp (x) u = Unsqueeze (p, o) v = Unsqueeze (q, o) y = Concat <axis = 1> (u, v)"
    before = model("(float[N,M] x) => (float[N,2,M] y)", body, "int64[1] o = {1}")
    assert operators(simplified(before)[0]).count("Unsqueeze") == 2
    before.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    after, _ = simplified(before)
    assert operators(after) == ["Tanh", "Exp", "Concat", "Reshape"]
    assert_equal(before, after, (4, 3))
