"""Shape computations and small results of constants are stored; weights, open sizes and quantized values stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import bnfold
from tests.simplifying.small import assert_equal, model, operators, run, simplified

NUMBERS = (
    "int64 zero = {0}, int64 one = {1}, int64[1] front = {0}, int64[1] second = {1}, int64[1] two = {2}, "
    "int64[1] far = {-1}, int64[1] end = {9223372036854775807}, int64[2] both = {1, -1}"
)
WAYS = {
    "Gather": "s = Shape (x) g = Gather (s, one) u = Unsqueeze (g, front)",
    "Gather from the back": "s = Shape (x) u = Gather (s, far)",
    "Slice": "s = Shape (x) u = Slice (s, second, two)",
    "Slice from the back": "s = Shape (x) u = Slice (s, far, end)",
    "Shape of a part": "u = Shape <start = 1> (x)",
    "Cast": "s = Shape (x) c = Cast <to = 6> (s) d = Cast <to = 7> (c) u = Gather (d, second)",
    "arithmetic": "s = Shape (x) g = Gather (s, second) a = Mul (g, two) b = Add (a, two) c = Sub (b, two) u = Div (c, two)",  # noqa: E501
    "Concat": "s = Shape (x) u0 = Gather (s, second) c = Concat <axis = 0> (u0, two) u = Slice (c, front, second)",
    "Where": "s = Shape (x) g = Gather (s, both) e = Equal (g, far) w = Where (e, far, g) u = Slice (w, front, second)",
    "Reshape": "s = Shape (x) g = Gather (s, one) u = Reshape (g, far)",
    "Squeeze": "s = Shape (x) g = Gather (s, second) q = Squeeze (g) u = Unsqueeze (q, front)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_size_that_the_file_fixes_is_known(way: str) -> None:
    before = model(
        "(float[N,4] x) => (float[M] y)", f"{WAYS[way]} r = Expand (k, u) y = Relu (r)", f"{NUMBERS}, float k = {{1}}"
    )
    after, report = simplified(before)
    # The Expand of a constant to a known size is one itself.
    assert operators(after) == ["Relu"], after
    found = {event.rewrite.title for event in report.simplified} - {"unread weight"}
    assert found <= {"shape computation known", "result of constants stored"}
    assert_equal(before, after, (3, 4))


@pytest.mark.parametrize("way", WAYS)
def test_a_size_that_is_open_is_not(way: str) -> None:
    before = model(
        "(float[N,M] x) => (float[K] y)", f"{WAYS[way]} r = Expand (k, u) y = Relu (r)", f"{NUMBERS}, float k = {{1}}"
    )
    after, _ = simplified(before)
    assert operators(after)[-2:] == ["Expand", "Relu"]
    assert_equal(before, after, (3, 4), (3, 1), (2, 0))


def test_a_size_that_is_declared_as_0_is_open() -> None:
    before = model("(float[0,4] x) => (int64[2] y)", "s = Shape (x) y = Add (s, s)")
    after, _ = simplified(before)
    assert operators(after) == ["Shape", "Add"]


def test_an_expand_to_a_known_size_keeps_the_open_one() -> None:
    """As PyTorch writes ``x.expand(n, -1)``."""
    body = "s = Shape (x) e = Equal (s, far) w = Where (e, ones, s) r = Expand (x, w) y = Relu (r)"
    before = model("(float[N,4] x) => (float[M,K] y)", body, f"{NUMBERS}, int64[2] ones = {{1, 1}}")
    after, _ = simplified(before)
    assert operators(after) == ["Relu"]
    assert_equal(before, after, (3, 4), (0, 4))


CASTS = {
    "indices": ("int64[3]", "7", "float[3] f = {1.9, 0, -1}", True),
    "one that is too large": ("int8[3]", "3", "float[3] f = {1, 0, 300}", False),
}


@pytest.mark.parametrize("case", CASTS)
def test_stored_floats_that_fit_an_integer_type_are_integers(case: str) -> None:
    dtype, to, constant, goes = CASTS[case]
    before = model(f"({dtype} x) => ({dtype} y)", f"c = Cast <to = {to}> (f) y = Mul (x, c)", constant)
    outcome = bnfold.optimize(before)
    assert outcome.status == "verified"
    after = outcome.to_proto()
    assert operators(after) == (["Mul"] if goes else ["Cast", "Mul"])
    if goes:
        x = np.array([5, 6, 7], "int64")
        np.testing.assert_array_equal(run(after, x=x), [5, 0, -7])
        after.graph.initializer[0].CopyFrom(
            numpy_helper.from_array(np.array([2, 0, -1]), after.graph.initializer[0].name)
        )
        assert bnfold.verify(before, after).status == "failed"


def test_a_small_result_of_constants_is_stored() -> None:
    before = model(
        "(float[N,2] x) => (float[N,2] y)",
        "k = Mul (a, b) t = Sqrt (k) y = Add (x, t)",
        "float[2] a = {2, 3}, float[1] b = {2}",
    )
    after, report = simplified(before)
    assert operators(after) == ["Add"]
    assert [event.operator for event in report.simplified] == ["Sqrt"]
    assert_equal(before, after, (3, 2))


def test_a_large_result_is_stored_in_the_place_of_its_operand_alone() -> None:
    weight = np.arange(60_000, dtype=np.float32).reshape(200, 300)
    for consumers, left in ((1, ["Add"]), (2, ["Transpose", "Add", "Transpose", "Add"])):
        body = "t = Transpose (w) y = Add (x, t)"
        if consumers == 2:
            body = "t = Transpose (w) a = Add (x, t) b = Transpose (a) y = Add (b, w)"
        before = model("(float[N,200] x) => (float[A,B] y)", body)
        before.graph.initializer.append(numpy_helper.from_array(weight, "w"))
        after, _ = simplified(before)
        assert operators(after) == left
        assert_equal(before, after, (300, 200))


def test_the_size_of_what_is_quantized_is_known() -> None:
    body = """
        q, k, z = DynamicQuantizeLinear (x)  s = Shape (q)  n = Gather (s, second)  c = Concat <axis = 0> (n, far)
        f = Cast <to = 1> (q)  y = Reshape (f, c)
    """
    before = model("(float[N,4] x) => (float[A,B] y)", body, NUMBERS)
    after, _ = simplified(before)
    assert operators(after) == ["DynamicQuantizeLinear", "Cast", "Reshape"]
    assert_equal(before, after, (4, 4), (2, 4))


def test_the_size_of_what_is_quantized_stays_beside_operators_that_nobody_can_evaluate() -> None:
    """What reads it may be one of them, and then the result could not be verified."""
    body = """
        q, k, z = DynamicQuantizeLinear (x)  s = Shape (q)  n = Gather (s, second)  c = Concat <axis = 0> (n, far)
        y = com.example.Secret (q, c)
    """
    before = model("(float[N,4] x) => (float[A,B] y)", body, NUMBERS)
    before.opset_import.add(domain="com.example", version=1)
    after, _ = simplified(before)
    assert "Shape" in operators(after)


def test_what_is_quantized_stays() -> None:
    body = "d = DequantizeLinear (q, s, z) t = Transpose (d) y = MatMul (x, t)"
    before = model(
        "(float[N,2] x) => (float[N,2] y)", body, "int8[2,2] q = {1, 2, 3, 4}, float s = {0.5}, int8 z = {0}"
    )
    after, report = simplified(before)
    assert operators(after) == ["DequantizeLinear", "Transpose", "MatMul"]
    assert report.simplified == []


def test_a_default_that_callers_override_is_no_constant() -> None:
    body = "s = Shape (w) r = Reshape (x, t) q = Reshape (r, s) y = Relu (q)"
    before = model("(float[N,4] x, int64[2] t, float[M,4] w) => (float[A,B] y)", body)
    for name, array in (("t", np.array([3, 4])), ("w", np.ones((3, 4), np.float32))):
        before.graph.initializer.append(numpy_helper.from_array(array, name))
    after, _ = simplified(before)
    fed = {"t": np.array([4, 2]), "w": np.ones((2, 4), np.float32)}
    assert_equal(before, after, (2, 4), **fed)


def test_a_graph_output_stays_made_by_a_node() -> None:
    before = model("(float[3,4] x) => (int64[2] y)", "y = Shape (x)")
    after, _ = simplified(before)
    assert operators(after) == ["Shape"]


def test_a_damaged_constant_is_left_alone() -> None:
    before = model("(float[N,2] x) => (float[N,2] y)", "k = Neg (a) y = Add (x, k)", "float[2] a = {2, 3}")
    before.graph.initializer[0].CopyFrom(onnx.TensorProto(name="a", data_type=1, dims=[2], raw_data=b"123"))
    after, _ = simplified(before)
    assert operators(after) == ["Neg", "Add"]


def test_parts_of_one_weight_that_are_put_together_take_its_place() -> None:
    """The order of an LSTM's gates, for instance: three slices share the weight, and one result frees it."""
    weight = np.arange(60_000, dtype=np.float32).reshape(200, 300)
    body = """
        a = Slice (w, zero, first)  b = Slice (w, second, end)  c = Slice (w, first, second)
        t = Concat <axis = 0> (a, b, c)  y = Add (t, x)
    """
    numbers = "int64[1] zero = {0}, int64[1] first = {50}, int64[1] second = {150}, int64[1] end = {200}"
    for rest, left in (
        ("", ["Add"]),
        ("z = Add (w, x)", ["Slice", "Slice", "Slice", "Concat", "Add", "Add"]),
    ):
        head = "(float[N,300] x) => (float[200,300] y" + (", float[200,300] z)" if rest else ")")
        before = model(head, body + rest, numbers)
        before.graph.initializer.append(numpy_helper.from_array(weight, "w"))
        after, _ = simplified(before)
        assert operators(after) == left
        assert_equal(before, after, (200, 300))


def test_two_parts_of_one_weight_take_its_place_together() -> None:
    weight = np.arange(60_000, dtype=np.float32).reshape(200, 300)
    body = "a = Slice (w, zero, mid)  b = Slice (w, mid, end)  c = Add (a, x)  d = Add (b, x)  y = Mul (c, d)"
    before = model(
        "(float[N,300] x) => (float[A,B] y)", body, "int64[1] zero = {0}, int64[1] mid = {100}, int64[1] end = {200}"
    )
    before.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    after, _ = simplified(before)
    assert operators(after) == ["Add", "Add", "Mul"]
    assert_equal(before, after, (100, 300))


def test_a_small_result_says_what_it_costs() -> None:
    before = model("(float[N,2] x) => (float[N,2] y)", "t = Sqrt (k) y = Add (x, t)", "float[1,2] k = {2, 3}")
    _, report = simplified(before)
    (event,) = report.simplified
    assert (event.growth, event.saved) == (0, 1), "what it is computed from goes"


FILL = "w = ConstantOfShape <value = float[1] {0.5}> (shape)"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"{FILL}  y = MatMul (x, w)", ["MatMul"]),
        (f"{FILL}  a = MatMul (x, w)  b = MatMul (a, w)  y = Relu (b)", ["MatMul", "MatMul", "Relu"]),
        (f"{FILL}  a = Add (x, w)  y = MatMul (a, w)", ["ConstantOfShape", "Add", "MatMul"]),
        (f"{FILL}  y = MatMul (w, x)", ["ConstantOfShape", "MatMul"]),
        (f"{FILL}  v = Add (w, k)  y = MatMul (x, v)", ["ConstantOfShape", "Add", "MatMul"]),
    ],
)
def test_a_weight_that_is_filled_is_stored(body: str, left: list[str]) -> None:
    """Of 360,000 bytes; not if something else reads it, or if a stored weight is behind it that others read."""
    extra = "  z = MatMul (y, k)" if "k)" in body else ""
    before = model("(float[300,300] x) => (float[A,B] y)", body + extra, "int64[2] shape = {300, 300}")
    if extra:
        before.graph.output.append(onnx.ValueInfoProto(name="z", type=before.graph.output[0].type))
        weight = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
        before.graph.initializer.append(numpy_helper.from_array(weight, "k"))
    after, _ = simplified(before)
    assert [name for name in operators(after) if name][: len(left)] == left
    assert_equal(before, after, (300, 300))
