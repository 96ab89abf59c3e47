"""Cast: one for two where the first loses nothing; CastLike; a fill of another type."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import bnfold
from tests.simplifying.small import assert_equal, model, operators, run, simplified

TYPES = {
    kind: getattr(TensorProto, kind.upper())
    for kind in ["float16", "float", "double", "bool", "bfloat16", "int8", "uint8", "int16", "int32", "uint32", "int64"]
}
CASTS = {
    ("float16", "float", "float16"): 0,
    ("bfloat16", "float", "bfloat16"): 0,
    ("int32", "double", "int32"): 0,
    ("bool", "int64", "bool"): 0,
    ("float16", "double", "float"): 1,
    ("int32", "int64", "float"): 1,
    ("bool", "float", "int64"): 1,
    ("int8", "int16", "uint8"): 1,
    ("uint8", "float16", "float"): 1,
    ("float", "float16", "float"): 2,
    ("int32", "float", "int32"): 2,
    ("int64", "double", "int64"): 2,
    ("int64", "int32", "int64"): 2,
    ("int8", "uint8", "int8"): 2,
    ("int16", "uint32", "int16"): 2,
    ("uint32", "int32", "uint32"): 2,
    ("int16", "float", "uint8"): 2,
    ("float16", "float", "int32"): 2,
    ("bfloat16", "float", "float16"): 2,
    ("float", "bool", "float"): 2,
    ("float16", "bfloat16", "float16"): 2,
}
"""Three types, and how many Casts are left."""


@pytest.mark.parametrize("types", CASTS)
def test_two_casts(types: tuple[str, str, str]) -> None:
    first, second, third = types
    body = f"r = Reshape (x, s) a = Cast <to = {TYPES[second]}> (r) y = Cast <to = {TYPES[third]}> (a)"
    before = model(f"({first}[N] x) => ({third}[N] y)", body, "int64[2] s = {5, 1}")
    after, _ = simplified(before)
    assert operators(after) == ["Reshape"] + ["Cast"] * CASTS[types]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(TYPES[first])
    x = np.array([0, 1, 3, 100, -1 if "u" not in first and first != "bool" else 7]).astype(dtype)
    old, new = (run(proto, x=x) for proto in (before, after))
    assert old.dtype == new.dtype
    np.testing.assert_array_equal(old, new)


def test_a_value_between_two_casts_that_is_read_stays() -> None:
    body = f"a = Cast <to = {TensorProto.DOUBLE}> (x) z = Neg (a) b = Cast <to = {TensorProto.FLOAT}> (a) y = Abs (b)"
    after, _ = simplified(model("(float[N] x) => (float[N] y, double[N] z)", body))
    assert operators(after) == ["Cast", "Neg", "Abs"]
    body = f"a = Cast <to = {TensorProto.INT64}> (x) z = Neg (a) b = Cast <to = {TensorProto.FLOAT}> (a) y = Abs (b)"
    after, _ = simplified(model("(int32[N] x) => (float[N] y, int64[N] z)", body))
    assert operators(after) == ["Cast", "Neg", "Cast", "Abs"]


@pytest.mark.parametrize(
    ("kind", "left"), [("float", []), ("int64", ["Cast"]), ("float16", ["Cast"]), ("bfloat16", ["CastLike"])]
)
def test_cast_like(kind: str, left: list[str]) -> None:
    before = model(f"(float[N] x, {kind} like) => ({kind}[N] y)", "r = Neg (x) c = CastLike (r, like) y = Abs (c)")
    after, _ = simplified(before)
    assert operators(after) == ["Neg", *left, "Abs"]


def test_a_constant_that_says_a_type_stays() -> None:
    before = model("(float[N] x) => (int64[N] y)", "y = CastLike (x, like)", "int64 like = {3}")
    assert operators(simplified(before)[0]) == ["CastLike"]


def test_numbers_like_others_are_stored() -> None:
    body = "n = Shape (x) r = Size (n) two = CastLike (r, x) four = Add (two, two) y = Mul (x, four)"
    before = model("(float[N,3] x) => (float[N,3] y)", body)
    after, _ = simplified(before)
    assert operators(after) == ["Mul"]
    assert onnx.numpy_helper.to_array(after.graph.initializer[0]) == 4


@pytest.mark.parametrize(
    ("value", "kind", "left"),
    [
        ("float[1] {2.5}", "double", ["ConstantOfShape"]),
        ("float[1] {2.5}", "int32", ["ConstantOfShape", "Cast"]),
        ("float[1] {0.1}", "float16", ["ConstantOfShape", "Cast"]),
        ("int64[1] {300}", "uint8", ["ConstantOfShape", "Cast"]),
        ("float[1] {1e30}", "int64", ["ConstantOfShape", "Cast"]),
        ("int64[1] {1}", "bool", ["ConstantOfShape"]),
        ("int64[1] {2}", "bool", ["ConstantOfShape", "Cast"]),
        ("int64[1] {1}", "bfloat16", ["ConstantOfShape", "Cast"]),
        ("", "int32", ["ConstantOfShape"]),
    ],
)
def test_a_fill_of_another_type(value: str, kind: str, left: list[str]) -> None:
    fill = f"<value = {value}>" if value else ""
    body = f"c = ConstantOfShape {fill} (x) y = Cast <to = {TYPES[kind]}> (c)"
    before = model(f"(int64[2] x) => ({kind}[A,B] y)", body)
    after, _ = simplified(before)
    assert operators(after) == left
    if "Cast" in left:
        return
    old, new = (run(proto, x=np.array([2, 3])) for proto in (before, after))
    assert old.dtype == new.dtype
    np.testing.assert_array_equal(old, new)


def test_a_fill_that_is_read_as_it_is_stays() -> None:
    body = f"c = ConstantOfShape (x) y = Cast <to = {TensorProto.DOUBLE}> (c) z = Neg (c)"
    after, _ = simplified(model("(int64[2] x) => (double[A,B] y, float[A,B] z)", body))
    assert operators(after) == ["ConstantOfShape", "Cast", "Neg"]


def test_casts_in_the_body_of_a_loop() -> None:
    """Types are known there where operators say them, or what the Loop reads does."""
    before = model(
        "(float[4] x) => (float[4] y, bool[4] z)",
        """y, z = Loop (n, b, w, e) <body = l (int64 s, bool c, float[4] p, bool[4] h) =>
            (bool d, float[4] q, bool[4] k) { d = Identity (c) p0 = Add (p, x) q = Cast <to = 1> (p0)
            m = Cast <to = 6> (h) g = Cast <to = 9> (m) k = Not (g) }>""",
        "int64 n = {3}, bool b = {1}, float[4] w = {1, 2, 3, 4}, bool[4] e = {1, 0, 0, 1}",
    )
    after, _ = simplified(before)
    body = after.graph.node[0].attribute[0].g
    assert [node.op_type for node in body.node] == ["Identity", "Add", "Not"]
    assert_equal(before, after, (4,))
    assert bnfold.verify(before, after).status == "verified"
