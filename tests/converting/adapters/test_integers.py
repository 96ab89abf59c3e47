from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]
LARGE = np.array([2**62 + 1, 2**62 + 3, -(2**62) - 1], np.int64)
"""Numbers that no float64 holds."""


@pytest.mark.parametrize("op_type", ["Max", "Min"])
@pytest.mark.parametrize("target", [11, 9])
@pytest.mark.parametrize("inputs", ["(x)", "(x, z)", "(x, z, z)"])
def test_integers_are_compared_as_such(lowered: Lowered, text: Text, op_type: str, target: int, inputs: str) -> None:
    source = text(13, "int64[3] x, int64[1] z", f"y = {op_type} {inputs}", outputs="int64[] y")
    lowered(source, target, feeds={"x": LARGE, "z": LARGE[:1] + 1})


@pytest.mark.parametrize("target", [11, 9])
@pytest.mark.parametrize("inputs", ["(x)", "(x, l)", "(x, , h)", "(x, l, h)", "(x, h, l)"])
def test_integers_are_clipped(lowered: Lowered, text: Text, target: int, inputs: str) -> None:
    source = text(13, "int64[3] x, int64 l, int64 h", f"y = Clip {inputs}", outputs="int64[] y")
    bounds = {"l": np.array(2**62, np.int64), "h": np.array(2**62 + 2, np.int64)}
    lowered(source, target, feeds={"x": LARGE, **bounds})


@pytest.mark.parametrize("exponent", ["int64 {3}", "int64[2] {2, 0}", "double {0.5}", "int32 {-2}"])
def test_an_exponent_becomes_of_the_type_of_its_base(lowered: Lowered, text: Text, exponent: str) -> None:
    source = text(13, "float[2] x", f"e = Constant <value = {exponent}> () y = Pow (x, e)", outputs="float[2] y")
    assert lowered(source, 11).ops[-1] == "Pow"


@pytest.mark.parametrize(
    ("inputs", "constant"),
    [("float[2] x, int64[2] e", ""), ("float[2] x", "e = Constant <value = int64 {16777217}> ()"),
     ("int64[2] x", "e = Constant <value = float {2}> ()")],
)  # fmt: skip
def test_an_exponent_that_would_not_be_the_same_is_refused(
    lowered: Lowered, text: Text, inputs: str, constant: str
) -> None:
    kind = inputs.split("[", maxsplit=1)[0]
    with pytest.raises(ConversionBlocked, match="has an exponent"):
        lowered(text(13, inputs, f"{constant} y = Pow (x, e)", outputs=f"{kind}[2] y"), 11)


@pytest.mark.parametrize("kind", ["int64", "int32", "uint32", "uint64"])
def test_the_complement(lowered: Lowered, text: Text, kind: str) -> None:
    source = text(18, f"{kind}[3] x", "y = BitwiseNot (x)", outputs=f"{kind}[3] y")
    lowered(source, 13, feeds={"x": np.array([0, 1, 7], kind)})


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint64"])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_of_integers(lowered: Lowered, text: Text, dtype: str, fmod: int) -> None:
    numbers = np.array([[7, -7, 6, -6, 0]] * 2, np.int64)
    divisors = np.array([[3], [-3]], np.int64)
    if dtype == "uint64":
        numbers, divisors = abs(numbers), abs(divisors)
    source = text(13, f"{dtype}[2, 5] x, {dtype}[2, 1] z", f"y = Mod <fmod = {fmod}> (x, z)", outputs=f"{dtype}[] y")
    lowered(source, 9, feeds={"x": numbers.astype(dtype), "z": divisors.astype(dtype)})


def test_remainders_of_floats(lowered: Lowered, text: Text) -> None:
    with pytest.raises(ConversionBlocked, match="remainder of floats, which their division rounds"):
        lowered(text(13, "float[2] x, float[2] z", "y = Mod <fmod = 1> (x, z)"), 9)


@pytest.mark.parametrize("dtype", ["float", "double", "float16"])
def test_remainders_of_floats_have_the_sign_of_the_divisor(upgraded: Lowered, text: Text, dtype: str) -> None:
    """The versions before 28 demand ``fmod``, whose remainder has the sign of the dividend."""
    kind = {"float": np.float32, "double": np.float64, "float16": np.float16}[dtype]
    pairs = [(5, 3), (-5, 3), (5, -3), (-5, -3), (6, -3), (-6, 3), (0.5, -2), (np.nan, 1), (2, np.inf), (-2, np.inf)]
    numbers, divisors = (np.array(column, kind) for column in zip(*pairs, strict=True))
    source = text(28, f"{dtype}[10] x, {dtype}[10] z", "y = Mod (x, z)", outputs=f"{dtype}[10] y", ir=14)
    outcome = upgraded(source, 13, feeds={"x": numbers, "z": divisors})
    assert outcome.model.graph.nodes[0].attr("fmod") == 1
    np.testing.assert_array_equal(outcome.results["y"], [2, 1, -1, -2, 0, 0, -1.5, np.nan, 2, np.inf])


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize(("start", "limit"), [(0, 5), (-2, 3), (4, 4), (4, 1)])
@pytest.mark.parametrize("target", [10, 9])
def test_ranges(lowered: Lowered, text: Text, dtype: str, start: int, limit: int, target: int) -> None:
    body = f"one = Constant <value = {dtype} {{1}}> () y = Range (s, l, one)"
    source = text(13, f"{dtype} s, {dtype} l", body, outputs=f"{dtype}[n] y")
    lowered(source, target, feeds={"s": np.array(start, dtype), "l": np.array(limit, dtype)})


def test_a_range_of_constants_is_stored(lowered: Lowered, text: Text) -> None:
    stored = (f"{name} = Constant <value = int64 {{{value}}}> ()" for name, value in (("s", 9), ("l", 1), ("d", -3)))
    source = text(13, "int64[3] x", f"{' '.join(stored)} r = Range (s, l, d) y = Add (x, r)", outputs="int64[3] y")
    assert "NonZero" not in lowered(source, 9).ops


@pytest.mark.parametrize("dtype", ["int64", "int32", "float", "double"])
@pytest.mark.parametrize(
    ("start", "limit", "step"), [(0, 5, 1), (2, 7, 2), (7, -2, -3), (1, 8, 3), (4, 1, 2), (0, -4, -1)]
)
@pytest.mark.parametrize("more", [0, 0.25])
def test_ranges_in_steps(
    lowered: Lowered, text: Text, dtype: str, start: int, limit: int, step: int, more: float
) -> None:
    stored = (f"{name} = Constant <value = {dtype} {{{value}}}> ()" for name, value in (("s", start), ("d", step)))
    source = text(13, f"{dtype} l", f"{' '.join(stored)} y = Range (s, l, d)", outputs=f"{dtype}[n] y")
    kind = np.dtype({"float": "f4", "double": "f8"}.get(dtype, dtype))
    lowered(source, 9, feeds={"l": np.array(limit + more * (kind.kind == "f"), kind)})


@pytest.mark.parametrize(
    ("dtype", "start", "step", "target", "why"),
    [
        ("float", "s", "1", 9, "a range of floats from no constant whole number"),
        ("float", "zero", "0.1", 9, "in other steps than such"),
        ("int16", "s", "1", 9, "a range of small integers"),
        ("int64", "s", "0", 9, "a step that is not constant, or 0"),
        ("int64", "s", "1", 8, "needs Greater: version 7 does not take"),
    ],
)
def test_other_ranges(upgraded: Lowered, text: Text, dtype: str, start: str, step: str, target: int, why: str) -> None:
    stored = f"zero = Constant <value = {dtype} {{0}}> () d = Constant <value = {dtype} {{{step}}}> ()"
    source = text(13, f"{dtype} s, {dtype} l", f"{stored} y = Range ({start}, l, d)", outputs=f"{dtype}[n] y")
    with pytest.raises(ConversionBlocked, match=why):
        upgraded(source, target, compare=False)


@pytest.mark.parametrize("dtype", ["float", "double", "uint8", "int16"])
def test_numbers_are_equal(lowered: Lowered, text: Text, dtype: str) -> None:
    kind = np.dtype({"float": "f4", "double": "f8"}.get(dtype, dtype))
    numbers = np.array([0, 1, np.nan, np.inf, -0.0, np.nan] if kind.kind == "f" else [0, 1, 2, 3, 255 & 127, 0]).astype(
        kind
    )
    others = np.array([0, 2, np.nan, np.inf, 0, 1] if kind.kind == "f" else [0, 2, 2, 1, 127, 1]).astype(kind)
    source = text(13, f"{dtype}[6] x, {dtype}[6] z", "y = Equal (x, z)", outputs="bool[6] y")
    for target in (9, 8) if kind.kind == "f" else (9,):
        lowered(source, target, feeds={"x": numbers, "z": others})


@pytest.mark.parametrize("dtype", ["float", "double", "float16"])
def test_what_is_no_number(lowered: Lowered, text: Text, dtype: str) -> None:
    kind = {"float": np.float32, "double": np.float64, "float16": np.float16}[dtype]
    feeds = {"x": np.array([0, 0.5, 1, -1, np.nan, np.inf, -np.inf], kind)}
    outcome = lowered(text(13, f"{dtype}[7] x", "y = IsNaN (x)", outputs="bool[7] y"), 8, feeds=feeds)
    assert "IsNaN" not in outcome.ops


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("target", [13, 9, 7])
def test_small_integers_wrap_as_they_did(lowered: Lowered, text: Text, op_type: str, dtype: str, target: int) -> None:
    limits = np.iinfo(dtype)
    numbers = np.array([limits.max, limits.min, 7, limits.max], dtype)
    others = np.array([limits.max, 1, 2, limits.max - 1], dtype)
    source = text(14, f"{dtype}[4] x, {dtype}[4] z", f"y = {op_type} (x, z)", outputs=f"{dtype}[4] y")
    lowered(source, target, feeds={"x": numbers, "z": others})


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_the_complement_of_small_integers(lowered: Lowered, text: Text, dtype: str) -> None:
    source = text(18, f"{dtype}[3] x", "y = BitwiseNot (x)", outputs=f"{dtype}[3] y")
    lowered(source, 13, feeds={"x": np.array([0, 1, 7], dtype)})


@pytest.mark.parametrize("dtype", ["int32", "double"])
@pytest.mark.parametrize("target", [11, 9, 7])
def test_computed_exponents(lowered: Lowered, text: Text, dtype: str, target: int) -> None:
    source = text(13, f"float[4] x, {dtype}[4] e", "y = Pow (x, e)", outputs="float[4] y")
    exponents = np.array([0, 2, 3, 5]).astype(dtype if dtype != "double" else np.float64)
    lowered(source, target, feeds={"x": np.array([-1.5, 2, -3, 0.5], np.float32), "e": exponents})
