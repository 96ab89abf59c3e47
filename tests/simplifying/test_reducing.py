"""A reduction keeps its axes, or drops them, in place of a node behind it."""

from __future__ import annotations

import pytest

from tests.simplifying.small import assert_equal, model, operators, simplified

KEPT = "int64[1] r = {1}, int64[1] a = {1}"
CASES = {
    "put back": ("s = ReduceSum <keepdims = 0> (x, r) y = Unsqueeze (s, a)", KEPT, 15, ["ReduceSum"]),
    "taken out": ("s = ReduceSum (x, r) y = Squeeze (s, a)", KEPT, 15, ["ReduceSum"]),
    "an attribute": ("s = ReduceMax <axes = [1], keepdims = 0> (x) y = Unsqueeze (s, a)", KEPT, 15, ["ReduceMax"]),
    "counted from both ends": (
        "s = ReduceMean <keepdims = 0> (x, r) y = Unsqueeze (s, a)",
        "int64[2] r = {-1, 1}, int64[2] a = {1, 2}",
        18,
        ["ReduceMean"],
    ),
    "another axis": ("s = ReduceSum <keepdims = 0> (x, r) y = Unsqueeze (s, a)", "int64[1] r = {1}, int64[1] a = {2}",
                     15, ["ReduceSum", "Unsqueeze"]),
    "an axis said twice": ("s = ReduceSum <keepdims = 0> (x, r) y = Unsqueeze (s, a)",
                           "int64[1] r = {1}, int64[2] a = {1, -2}", 15, ["ReduceSum", "Unsqueeze"]),
    "one axis of two": ("s = ReduceSum <keepdims = 0> (x, r) y = Unsqueeze (s, a)",
                        "int64[2] r = {1, 2}, int64[1] a = {1}", 15, ["ReduceSum", "Unsqueeze"]),
    "all axes": ("s = ReduceSum <keepdims = 0> (x) y = Unsqueeze (s, a)", "int64[1] a = {0}", 15,
                 ["ReduceSum", "Unsqueeze"]),
    "none, if none is said": (
        "s = ReduceSum <keepdims = 0, noop_with_empty_axes = 1> (x) y = Unsqueeze (s, a)",
        KEPT,
        15,
        ["ReduceSum", "Unsqueeze"],
    ),
    "kept already": ("s = ReduceSum <keepdims = 1> (x, r) y = Unsqueeze (s, a)", KEPT, 15, ["ReduceSum", "Unsqueeze"]),
    "read by another": ("s = ReduceSum <keepdims = 0> (x, r) u = Unsqueeze (s, a) t = Abs (s) y = Add (u, t)", KEPT,
                        15, ["ReduceSum", "Unsqueeze", "Abs", "Add"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_reduction(case: str) -> None:
    body, constants, opset, left = CASES[case]
    before = model("(float[N,3,4] x) => (float y)", body, constants, opset=opset)
    del before.graph.output[0].type.tensor_type.shape.dim[:]
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == left
    assert_equal(before, after, (1, 3, 4), (2, 3, 4))


@pytest.mark.parametrize("axes", ["0", "-1"])
def test_a_rank_that_is_not_known(axes: str) -> None:
    """One axis may then have two names, but equal names are of one axis."""
    body = "t = other.Op (x) s = ReduceSum <keepdims = 0> (t, r) y = Unsqueeze (s, a)"
    before = model("(float[N] x) => (float[N] y)", body, f"int64[1] r = {{-1}}, int64[1] a = {{{axes}}}")
    before.opset_import.add(domain="other", version=1)
    left = ["ReduceSum"] if axes == "-1" else ["ReduceSum", "Unsqueeze"]
    assert operators(simplified(before)[0]) == ["Op", *left]


def test_a_target_whose_sizes_are_the_axes() -> None:
    """A Reshape has sizes where a Squeeze has axes."""
    body = "s = ReduceMin <axes = [0, 1, 3], keepdims = 1> (x) y = Reshape (s, t)"
    before = model("(float[2,2,3,2] x) => (float[A,B,C] y)", body, "int64[3] t = {0, 1, 3}")
    after, _ = simplified(before)
    assert_equal(before, after, (2, 2, 3, 2))
