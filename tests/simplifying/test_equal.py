"""Equal nodes are computed once; what only looks equal is not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.simplifying.small import assert_equal, model, operators, simplified

HEAD = "(float[N,2] x) => (float[A,B] y)"
CASES = {
    "equal": ("a = Relu (x) b = Relu (x) y = Add (a, b)", "", 2),
    "one after the other": ("a = Relu (x) b = Relu (x) c = Neg (a) d = Neg (b) y = Add (c, d)", "", 3),
    "equal constants": ("a = Add (x, p) b = Add (x, q) y = Mul (a, b)", "float[2] p = {1, 2}, float[2] q = {1, 2}", 2),
    "other constants": ("a = Add (x, p) b = Add (x, q) y = Mul (a, b)", "float[2] p = {1, 2}, float[2] q = {1, 3}", 3),
    "zeros of two signs": (
        "a = Mul (x, p) b = Mul (x, q) y = Add (a, b)",
        "float[1] p = {0.0}, float[1] q = {-0.0}",
        3,
    ),
    "other attributes": ("a = LeakyRelu <alpha = 0.1> (x) b = LeakyRelu <alpha = 0.2> (x) y = Add (a, b)", "", 3),
    "attributes in another order": (
        "a = ArgMax <keepdims = 1, axis = 0> (x) b = ArgMax <axis = 0, keepdims = 1> (x) y = Add (a, b)",
        "",
        2,
    ),
    "random": ("a = RandomUniformLike (x) b = RandomUniformLike (x) y = Sub (a, b)", "", 3),
    "several outputs": ("a, b = Split <axis = 1> (x) c, d = Split <axis = 1> (x) y = Add (a, d)", "", 2),
    "another domain": ("a = other.Op (x) b = other.Op (x) y = Add (a, b)", "", 3),
}


@pytest.mark.parametrize("case", CASES)
def test_equal_nodes_are_computed_once(case: str) -> None:
    body, constants, count = CASES[case]
    before = model(HEAD, body, constants)
    if "domain" in case:
        before.opset_import.add(domain="other", version=1)
    after, _ = simplified(before)
    assert len(operators(after)) == count
    if case not in ("random", "another domain"):
        assert_equal(before, after, (1, 2), (3, 2))


def test_graph_outputs_keep_their_names() -> None:
    """Of two, one stays; one takes the place of a value that is none."""
    before = model("(float[N] x) => (float[N] y, float[N] z)", "y = Relu (x) z = Relu (x)")
    assert operators(simplified(before)[0]) == ["Relu", "Relu"]
    before = model("(float[N] x) => (float[N] y, float[N] z)", "a = Relu (x) z = Relu (x) y = Neg (a)")
    after, _ = simplified(before)
    assert operators(after) == ["Relu", "Neg"]
    assert_equal(before, after, (3,))


def test_strings_are_not_compared_by_where_they_lie() -> None:
    before = model("(string[N] x) => (bool[N] y)", "a = Equal (x, p) b = Equal (x, q) y = And (a, b)", opset=19)
    for name, text in (("p", "one"), ("q", "two")):
        before.graph.initializer.append(onnx.helper.make_tensor(name, 8, [1], np.array([text], object)))
    assert len(operators(simplified(before)[0])) == 3


@pytest.mark.parametrize(
    ("place", "stays"), [(None, False), (0, True), (-1, True)], ids=["equal", "the first number", "the last number"]
)
def test_large_constants_are_compared_to_their_ends(place: int | None, stays: bool) -> None:
    before = model("(float[N,64] x) => (float[A,B] y)", "a = MatMul (x, p) b = MatMul (x, q) y = Add (a, b)")
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    other = weight.copy()
    if place is not None:
        other.reshape(-1)[place] += 1
    before.graph.initializer.extend(
        [onnx.numpy_helper.from_array(weight, "p"), onnx.numpy_helper.from_array(other, "q")]
    )
    after, _ = simplified(before)
    assert (operators(after).count("MatMul") == 2) == stays
    assert_equal(before, after, (1, 64), (3, 64))


def test_a_large_constant_that_callers_may_override_equals_no_other() -> None:
    before = model(
        "(float[N,64] x, float[64,64] q) => (float[A,B] y)", "a = MatMul (x, p) b = MatMul (x, q) y = Add (a, b)"
    )
    weight = np.ones((64, 64), np.float32)
    before.graph.initializer.extend(
        [onnx.numpy_helper.from_array(weight, "p"), onnx.numpy_helper.from_array(weight, "q")]
    )
    assert operators(simplified(before)[0]).count("MatMul") == 2
