"""Two nodes that bound a value by constants, from below and from above, become one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.simplifying.small import model, operators, run, simplified

NUMBERS = {"z": 0.0, "a": -1.5, "b": 2.5, "c": 6.0, "v": [1.0], "t": [[[1.0]]], "w": [1.0, 2.0, 3.0]}
CASES = {
    "Max, then Min": ("m = Max (x, z) y = Min (c, m)", ["Clip"]),
    "Min, then Max": ("m = Min (b, x) y = Max (m, a)", ["Clip"]),
    "Relu, then Min": ("m = Relu (x) y = Min (m, c)", ["Clip"]),
    "Clip from both sides": ('m = Clip (x, a) y = Clip (m, "", b)', ["Clip"]),
    "a vector of one": ("m = Max (x, v) y = Min (m, c)", ["Clip"]),
    "Relu twice": ("m = Relu (x) y = Relu (m)", ["Relu", "Relu"]),
    "Relu, then Clip": ("m = Relu (x) y = Clip (m, z, c)", ["Relu", "Clip"]),
    "Min twice": ("m = Min (x, c) y = Min (m, b)", ["Min", "Min"]),
    "bounds that cross": ("m = Max (x, c) y = Min (m, b)", ["Max", "Min"]),
    "no bounds": ("m = Clip (x) y = Clip (m)", ["Clip", "Clip"]),
    "a bound of more axes": ("m = Max (x, t) y = Min (m, c)", ["Max", "Min"]),
    "a bound for each element": ("m = Max (x, w) y = Min (m, c)", ["Max", "Min"]),
    "three": ("m = Max (x, z, a) y = Min (m, c)", ["Max", "Min"]),
    "read by another": ("m = Relu (x) n = Min (m, c) y = Add (m, n)", ["Relu", "Min", "Add"]),
    "a bound that callers feed": ("m = Relu (x) y = Min (m, f)", ["Relu", "Min"]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["float", "int32", "float16"])
def test_bounds(case: str, kind: str) -> None:
    body, left = CASES[case]
    before = model(f"({kind}[N,3] x, {kind} f) => ({kind} y)", body)
    before.graph.output[0].type.tensor_type.ClearField("shape")
    dtype = {"float": np.float32, "int32": np.int32, "float16": np.float16}[kind]
    for name, number in NUMBERS.items():
        before.graph.initializer.append(numpy_helper.from_array(np.array(number).astype(dtype), name))
    after, _ = simplified(before)
    if kind == "float16":  # of which runtimes have fewer kernels
        left = [node.op_type for node in before.graph.node]
    if kind == "int32" and "Relu" in body:
        return  # the evaluator of onnx has none; the graphs are those of floats
    if kind == "int32" and case == "no bounds":
        left = ["Clip"]  # which returns every integer; the last one stays between an input and an output
    assert operators(after) == left
    x = np.arange(-9, 9).reshape(-1, 3).astype(dtype)
    old, new = (run(proto, x=x, f=x[3, 1]) for proto in (before, after))
    np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("number", [np.nan, -1.0])
def test_bounds_that_leave_nothing(number: float) -> None:
    before = model("(float[N] x) => (float[N] y)", "m = Relu (x) y = Min (m, b)")
    before.graph.initializer.append(numpy_helper.from_array(np.array(number, np.float32), "b"))
    assert operators(simplified(before)[0]) == ["Relu", "Min"]


@pytest.mark.parametrize("opset", [8, 10, 11, 12])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_clip_is_written_in_the_form_of_the_opset(opset: int, kind: str) -> None:
    before = model(f"({kind}[N] x) => ({kind}[N] y)", "m = Relu (x) y = Min (m, b)", f"{kind} b = {{6}}", opset=opset)
    after, _ = simplified(before)
    onnx.checker.check_model(after, full_check=True)
    (node,) = after.graph.node
    assert node.op_type == "Clip"
    assert {entry.name: entry.f for entry in node.attribute} == ({"min": 0.0, "max": 6.0} if opset < 11 else {})
    x = np.arange(-9, 9).astype({"float": np.float32, "double": np.float64}[kind])
    np.testing.assert_array_equal(run(after, x=x), np.clip(x, 0, 6))


def test_clips_of_old_opsets() -> None:
    head = "(float[N] x) => (float[N] y)"
    before = model(head, "m = Clip <max = 6.0> (x) y = Clip <min = -1.0> (m)", opset=9)
    after, _ = simplified(before)
    assert operators(after) == ["Clip"]
    x = np.array([-np.inf, -9, 0, 7, np.inf], np.float32)
    np.testing.assert_array_equal(run(after, x=x), run(before, x=x))


def test_an_attribute_that_would_round_a_bound() -> None:
    before = model("(double[N] x) => (double[N] y)", "m = Relu (x) y = Min (m, b)", opset=10)
    before.graph.initializer.append(numpy_helper.from_array(np.array(0.1), "b"))
    assert operators(simplified(before)[0]) == ["Relu", "Min"]
