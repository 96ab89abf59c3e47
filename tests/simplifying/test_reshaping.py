"""Reshape, Flatten, Squeeze and Unsqueeze: targets from sizes, rows of them, and every size kept open."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.simplifying.small import assert_equal, model, operators, simplified

SIZES = "int64 zero = {0}, int64 one = {1}, int64[1] front = {0}, int64[1] rest = {-1}, int64[1] four = {4}"
BATCH = "s = Shape (x) n = Gather (s, zero) u = Unsqueeze (n, front)"


def target(proto: onnx.ModelProto, node: int = 0) -> list[int]:
    """What a Reshape is told."""
    (found,) = [t for t in proto.graph.initializer if t.name == proto.graph.node[node].input[1]]
    return [int(size) for size in numpy_helper.to_array(found)]


COMPUTED = {
    "the batch stays where it is": (
        "(float[N,2,2] x) => (float[A,B] y)",
        f"{BATCH} t = Concat <axis = 0> (u, rest) y = Reshape (x, t)",
        [0, -1],
    ),
    "the batch and the rest of it": (
        "(float[N,M,2] x) => (float[A,B] y)",
        f"{BATCH} t = Concat <axis = 0> (u, rest) y = Reshape (x, t)",
        [0, -1],
    ),
    "the batch moves": (
        "(float[N,4] x) => (float[A,B] y)",
        f"{BATCH} t = Concat <axis = 0> (four, u) y = Reshape (x, t)",
        [4, -1],
    ),
    "everything is fixed": (
        "(float[3,2,2] x) => (float[A,B] y)",
        f"{BATCH} t = Concat <axis = 0> (u, rest) y = Reshape (x, t)",
        [3, -1],
    ),
    "zeros are allowed, and the batch stays": (
        "(float[N,2,2] x) => (float[A,B] y)",
        f"{BATCH} t = Concat <axis = 0> (u, four) y = Reshape <allowzero = 1> (x, t)",
        [0, 4],
    ),
    "zeros are allowed, and the batch moves": (
        "(float[N,4] x) => (float[A,B] y)",
        f"{BATCH} t = Concat <axis = 0> (four, u) y = Reshape <allowzero = 1> (x, t)",
        [4, -1],
    ),
}


@pytest.mark.parametrize("case", COMPUTED)
def test_a_target_that_is_computed_is_stored(case: str) -> None:
    head, body, told = COMPUTED[case]
    before = model(head, body, SIZES)
    after, _ = simplified(before)
    assert operators(after) == ["Reshape"]
    assert target(after) == told
    fixed = (3, 2, 2) if "fixed" in case else None
    sizes = (0, 1, 2, 3) if "allowed" in case else (1, 2, 3)
    shapes = [(size, 4) if "moves" in case else (size, 2, 2) for size in sizes]
    assert_equal(before, after, *([fixed] if fixed else shapes))


def test_beside_a_zero_that_is_allowed_a_size_is_inferred() -> None:
    """By onnxruntime, and not by onnx's text: a 0 that copies would not be."""
    body = f"{BATCH} t = Concat <axis = 0> (u, rest) y = Reshape <allowzero = 1> (x, t)"
    after, _ = simplified(model("(float[N,2,2] x) => (float[A,B] y)", body, SIZES))
    assert operators(after)[-2:] == ["Concat", "Reshape"]


def test_a_zero_that_is_allowed_is_no_copy() -> None:
    body = "r = Reshape <allowzero = 1> (x, a) y = Reshape <allowzero = 1> (r, b)"
    before = model("(float[N,4] x) => (float[A,B] y)", body, "int64[2] a = {-1, 4}, int64[2] b = {0, 7}")
    after, _ = simplified(before)
    assert operators(after) == ["Reshape", "Reshape"]
    assert_equal(before, after, (0, 4))


BY_PRODUCT = {
    "one product and the rest": ("f = Gather (s, both) p = ReduceProd (f)", "p, rest, four", [-1, 6, 4]),
    "a product that is multiplied": ("p = Mul (u, heads)", "p, rest, four", [-1, 6, 4]),
    "a product, and every size told": ("p = Mul (u, heads)", "p, three, eight", [-1, 3, 8]),
    "as many elements": ("z = Size (x) p = Unsqueeze (z, front)", "p, rest", [-1, 1]),
}


@pytest.mark.parametrize("case", BY_PRODUCT)
def test_a_target_with_a_product_of_sizes_is_stored(case: str) -> None:
    made, parts, told = BY_PRODUCT[case]
    numbers = "int64[2] both = {0, 1}, int64[1] heads = {2}, int64[1] three = {3}, int64[1] eight = {8}"
    body = f"{BATCH} {made} t = Concat <axis = 0> ({parts}) r = Reshape (x, t) y = Relu (r)"
    before = model("(float[N,2,3,8] x) => (float y)", body, f"{SIZES}, {numbers}")
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after) == ["Reshape", "Relu"]
    assert target(after) == told
    assert_equal(before, after, (1, 2, 3, 8), (3, 2, 3, 8))


@pytest.mark.parametrize(
    ("x", "target"),
    [
        ("float[3,N,8]", "m, rest, four"),  # of no elements, its zero copies the 3
        ("float[N,M,8]", "m, rest, four"),  # M may be zero where N is not
        ("float[N,M,8]", "p, rest, four"),  # the rest is no number
        ("float[M,N,8]", "q, rest, four"),  # of no element, N alone may be zero, and the 0 copies M
    ],
)
def test_a_target_with_a_product_stays_if_a_zero_means_something_else(x: str, target: str) -> None:
    body = f"""
        s = Shape (x)  u = Gather (s, front)  w = Gather (s, second)
        m = Mul (w, four)  p = Mul (u, four)  q = Mul (u, w)
        t = Concat <axis = 0> ({target})  r = Reshape (x, t)  y = Relu (r)
    """
    before = model(f"({x} x) => (float y)", body, f"{SIZES}, int64[1] second = {{1}}")
    before.graph.output[0].type.tensor_type.ClearField("shape")
    after, _ = simplified(before)
    assert operators(after)[-3:] == ["Concat", "Reshape", "Relu"]


RESTS = {
    "1": ("float[N,1,M] x", "t = Concat <axis = 0> (u, rest, v)", ["Relu"]),
    "a number": ("float[N,4,M] x", "t = Concat <axis = 0> (u, rest, v)", ["Relu"]),
    "an open size": ("float[N,4,M] x", "t = Concat <axis = 0> (rest, four, v)", ["Relu"]),
    "the product of two": ("float[N,4,M] x", "t = Concat <axis = 0> (rest, four)", ["Reshape", "Relu"]),
    "sizes exchanged": ("float[N,4,M] x", "t = Concat <axis = 0> (v, rest, u)", ["Reshape", "Reshape", "Relu"]),
}


@pytest.mark.parametrize("case", RESTS)
def test_what_is_left_is_told_by_the_other_sizes(case: str) -> None:
    x, target, left = RESTS[case]
    pair = "m = Gather (s, two) v = Unsqueeze (m, front)"
    body = f"{BATCH} {pair} {target} f = Reshape (x, rest) q = Reshape (f, t) y = Relu (q)"
    before = model(f"({x}) => (float[A,B,C] y)", body, f"{SIZES}, int64 two = {{2}}")
    if "product" in case:
        before.graph.output[0].type.tensor_type.shape.dim.pop()
    after, _ = simplified(before)
    assert [name for name in operators(after) if name in ("Reshape", "Relu")] == left
    wide = 1 if case == "1" else 4
    assert_equal(before, after, (2, wide, 3), (1, wide, 1))


def test_with_zeros_allowed_what_is_left_may_be_1_alone() -> None:
    """At no elements, onnxruntime takes 1 for any size that is left."""
    for wide, left in ((1, ["Relu"]), (4, ["Reshape", "Reshape", "Relu"])):
        body = f"{BATCH} t = Concat <axis = 0> (u, rest) f = Reshape (x, rest)"
        body += " q = Reshape <allowzero = 1> (f, t) y = Relu (q)"
        before = model(f"(float[N,{wide}] x) => (float[A,B] y)", body, SIZES)
        after, _ = simplified(before)
        assert [name for name in operators(after) if name in ("Reshape", "Relu")] == left
        assert_equal(before, after, (2, wide), (1, wide))


def test_beside_a_size_that_may_be_zero_nothing_is_inferred() -> None:
    """Of [N, 4, M] as [N, M, 4], -1 for M fails where N is 0."""
    pair = "m = Gather (s, two) v = Unsqueeze (m, front)"
    before = model(
        "(float[N,4,M] x) => (float[A,B,C] y)",
        f"{BATCH} {pair} t = Concat <axis = 0> (u, v, four) y = Reshape (x, t)",
        f"{SIZES}, int64 two = {{2}}",
    )
    after, _ = simplified(before)
    assert "Concat" in operators(after)
    assert_equal(before, after, (2, 4, 3), (1, 4, 1))


ROWS = {
    "Reshape, Reshape": ("(float[N,4] x) => (float[A,B] y)", "r = Reshape (x, a) y = Reshape (r, b)", ["Reshape"]),
    "Reshape and back": (
        "(float[3,4] x) => (float[A,B] y)",
        "r = Reshape (x, a) q = Reshape (r, c) y = Relu (q)",
        ["Relu"],
    ),
    "Squeeze, Unsqueeze": (
        "(float[N,1] x) => (float[A,B] y)",
        "r = Squeeze (x, one) q = Unsqueeze (r, one) y = Relu (q)",
        ["Relu"],
    ),
    "Unsqueeze, Squeeze": (
        "(float[N,4] x) => (float[A,B] y)",
        "r = Unsqueeze (x, one) q = Squeeze (r, one) y = Relu (q)",
        ["Relu"],
    ),
    "other axes": (
        "(float[N,1] x) => (float[A,B] y)",
        "r = Squeeze (x, one) q = Unsqueeze (r, zero) y = Relu (q)",
        ["Reshape", "Relu"],
    ),
    "Flatten of a matrix": ("(float[N,4] x) => (float[A,B] y)", "f = Flatten (x) y = Relu (f)", ["Relu"]),
    "Flatten at 0": (
        "(float[N,4] x) => (float[A,B] y)",
        "f = Flatten <axis = 0> (x) y = Relu (f)",
        ["Flatten", "Relu"],
    ),
    "Flatten, Reshape": (
        "(float[N,4] x) => (float[A,B,C] y)",
        "f = Flatten <axis = 0> (x) y = Reshape (f, b)",
        ["Reshape"],
    ),
    "what others read": (
        "(float[N,4] x) => (float[A,B] y, float[C,D] z)",
        "r = Reshape (x, a) y = Reshape (r, b) z = Relu (r)",
        ["Reshape", "Reshape", "Relu"],
    ),
    "0 of a size that is open": (
        "(float[N,M] x) => (float[A,B] y)",
        "r = Reshape (x, a) y = Reshape (r, e)",
        ["Reshape"],
    ),
    "0 of a size that is known": (
        "(float[N,4] x) => (float[A,B] y)",
        "r = Reshape (x, c) y = Reshape (r, d)",
        ["Reshape"],
    ),
}
ROW_SIZES = (
    "int64[2] a = {2, -1}, int64[2] b = {-1, 2}, int64[2] c = {3, 4}, int64[2] d = {0, -1}, int64[2] e = {-1, 0}"
)
AXES = "int64[1] one = {1}, int64[1] zero = {0}"


@pytest.mark.parametrize("case", ROWS)
def test_rows_of_them_become_one_or_none(case: str) -> None:
    head, body, left = ROWS[case]
    before = model(head.replace("[A,B,C]", "[A,B]") if "Flatten, R" in case else head, body, f"{ROW_SIZES}, {AXES}")
    after, _ = simplified(before)
    assert operators(after) == left
    column = "[N,1]" in head
    sizes = (3,) if "3,4" in head or "known" in case else (2, 3, 5)
    assert_equal(before, after, *((size, 1 if column else 4) for size in sizes))


def test_sizes_that_are_equal_by_name_alone_are_not_believed() -> None:
    """Some exporters call every open size by one name."""
    before = model(
        "(float[N,N] x) => (float[A,B] y)", "t = Transpose (x) s = Shape (x) q = Reshape (t, s) y = Relu (q)"
    )
    after, _ = simplified(before)
    assert operators(after) == ["Transpose", "Shape", "Reshape", "Relu"]
    assert_equal(before, after, (2, 3))


LOOP = """
    y, z = Loop (n, b, x) <body = l (int64 i, bool c, float[R,4] p) => (bool d, float[A,B] q, float[E,F] r) {{
        d = Identity (c)  q = Concat <axis = 0> (p, p)
        s = Shape ({read})  m = Gather (s, zero)  u = Unsqueeze (m, front)  t = Concat <axis = 0> (u, two, two)
        v = Reshape ({read}, t)  r = ReduceSum <keepdims = 0> (v, two)
    }}>
"""


@pytest.mark.parametrize("read", ["x", "p"])
def test_sizes_of_what_a_loop_captures_are_those_of_each_run_of_it(read: str) -> None:
    """What the Loop carries may be of another size each time, whatever its body declares: a -1 is right for each."""
    before = model("(float[N,4] x, int64 n, bool b) => (float[A,B] y, float[E,F,G] z)", LOOP.format(read=read))
    before.graph.initializer.extend(
        [
            numpy_helper.from_array(np.array(number), name)
            for name, number in (("zero", 0), ("front", [0]), ("two", [2]))
        ]
    )
    after, _ = simplified(before)
    body = after.graph.node[-1].attribute[0].g
    assert "Shape" not in {node.op_type for node in body.node}
    for runs in (1, 3):
        assert_equal(before, after, (2, 4), (3, 4), n=np.array(runs), b=np.array(True))
