"""A row of affines that multiplies by 1 and adds 0 goes, unless the sign of a zero would show behind it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import bnfold
from bnfold.report.reasons import Reason

HEAD = """g (float[1,2,3] x) => (float[1,2,3] y) <float p = {0.0}, float n = {-0.0}, float m = {-1.0},
    float[1,2,3] mask = {1, 1, 0, 0, 1, 1}, float t = {3.0}, float u = {-3.0},"""
PARAMETERS = """float[2] one = {1, 1}, float[2] nil = {0, 0}, float[2] mean = {0, 0}, float[2] var = {1, 1},
    float[1,2,1] some = {0, 2}>"""
NORM = "a = BatchNormalization <epsilon = 0.0> (x, one, nil, mean, var)"
BRANCHES = """then_branch = i () => (float[1,2,3] q) {q = Reciprocal (a)},
    else_branch = j () => (float[1,2,3] r) {r = Neg (a)}"""
CASES = {
    "Add 0": ("a = Add (x, p) y = Reciprocal (a)", ["Add", "Reciprocal"]),
    "Add -0": ("a = Add (x, n) y = Reciprocal (a)", ["Reciprocal"]),
    "Sub 0": ("a = Sub (x, p) y = Reciprocal (a)", ["Reciprocal"]),
    "Sub -0": ("a = Sub (x, n) y = Reciprocal (a)", ["Sub", "Reciprocal"]),
    "there and back": ("b = Sub (x, t) a = Add (b, t) y = Reciprocal (a)", ["Add", "Reciprocal"]),
    "Neg twice": ("b = Neg (x) a = Neg (b) y = Reciprocal (a)", ["Reciprocal"]),
    "a BatchNormalization": (f"{NORM} y = Reciprocal (a)", ["BatchNormalization", "Reciprocal"]),
    "no pole": (f"{NORM} y = Exp (a)", ["Exp"]),
    "numerator": ("a = Add (x, p) b = Abs (x) c = Add (b, t) y = Div (a, c)", ["Abs", "Add", "Div"]),
    "denominator": ("a = Add (x, p) b = Abs (x) y = Div (b, a)", ["Add", "Abs", "Div"]),
    "far behind": ("a = Add (x, p) b = Relu (a) c = Sqrt (b) y = Div (x, c)", ["Add", "Relu", "Sqrt", "Div"]),
    "hidden": ("a = Add (x, p) b = Relu (a) c = Add (b, t) y = Div (x, c)", ["Relu", "Add", "Div"]),
    "not hidden": ("a = Add (x, p) b = Add (a, some) y = Reciprocal (b)", ["Add", "Add", "Reciprocal"]),
    "square": ("a = Add (x, p) y = Pow (a, t)", ["Pow"]),
    "inverse cube": ("a = Add (x, p) y = Pow (a, u)", ["Add", "Pow"]),
    "a mask, 0 and a factor": (
        "a = Mul (x, mask) b = Add (a, p) c = Div (b, m) y = Reciprocal (c)",
        ["Mul", "Add", "Div", "Reciprocal"],
    ),
    "0 and a factor": ("a = Add (x, p) b = Mul (a, t) y = Reciprocal (b)", ["Add", "Mul", "Reciprocal"]),
    "a factor below 0 behind a sum": (
        "a = Add (x, p) b = Mul (a, u) c = Relu (x) d = Add (b, c) e = Neg (d) y = Reciprocal (e)",
        ["Add", "Mul", "Relu", "Add", "Neg", "Reciprocal"],
    ),
    "a mask in front of 0": (
        "a = Mul (x, mask) b = Add (a, p) c = Mul (b, t) y = Reciprocal (c)",
        ["Mul", "Add", "Mul", "Reciprocal"],
    ),
    "two factors": ("a = Mul (x, t) b = Mul (a, t) y = Reciprocal (b)", ["Mul", "Reciprocal"]),
    "length": (
        "a = Add (x, p) b = Mul (a, t) c = ReduceL2 <axes = [1]> (b) y = Div (x, c)",
        ["Mul", "ReduceL2", "Div"],
    ),
    "variance": (
        "a = Add (x, p) b = Mul (a, a) y = Reciprocal (b)",
        ["Mul", "Reciprocal"],
    ),
    "branch": (
        f"a = Add (x, p) w = ReduceSum (x) s = Squeeze (w) z = Greater (s, p) y = If (z) <{BRANCHES}>",
        ["Add", "ReduceSum", "Squeeze", "Greater", "If"],
    ),
}


@pytest.mark.parametrize("all_affines", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_signs_of_zeros_are_kept(case: str, all_affines: bool) -> None:
    body, left = CASES[case]
    before = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {HEAD} {PARAMETERS} {{ {body} }}')
    outcome = bnfold.optimize(before, all_affines=all_affines)
    after = outcome.to_proto()
    assert outcome.status == "verified"
    assert [node.op_type for node in after.graph.node] == left
    x = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf], np.float32).reshape(1, 2, 3)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    old, new = (
        onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for proto in (before, after)
    )
    for fed in (x, -x):
        np.testing.assert_array_equal(old.run(None, {"x": fed})[0], new.run(None, {"x": fed})[0])


def test_the_node_that_shows_a_sign_is_named() -> None:
    body = f"{NORM} c = Relu (a) y = Reciprocal (c)"
    before = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {HEAD} {PARAMETERS} {{ {body} }}')
    (event,) = bnfold.optimize(before).report.batchnorms
    assert event.reason is Reason.ZERO_SIGN
    assert event.detail == "Reciprocal 'y'"
