"""Which values an output of the model can depend on, in bodies too."""

from __future__ import annotations

import onnx.parser
import pytest

from bnfold import ir
from bnfold.verification.coverage.effects import reaches_output

IF = """
    d, y = If (c) <
        then_branch = t () => (float[N] p, float[N] q) { r = Exp (u) p = Neg (r) q = Relu (x) },
        else_branch = e () => (float[N] s, float[N] t) { s = Abs (x) v = Sin (s) t = Sin (x) }
    >
"""
LOOP = """
    d, y, e = Loop (n, c, u, x) <body = l (int64 i, bool ci, float[N] ai, float[N] yi)
        => (bool co, float[N] ao, float[N] yo, float[N] p) {
        co = Identity (ci) ao = Sin (ai) yo = Exp (yi) p = Neg (ao)
    }>
"""
SCAN = """
    d, y, e = Scan <num_scan_inputs = 1, body = l (float ai, float yi, float si) => (float ao, float yo, float p) {
        ao = Sin (ai) yo = Exp (yi) p = Neg (si)
    }> (k, m, u)
"""
CASES = [
    (IF, "p", False), (IF, "r", False), (IF, "q", True), (IF, "s", False), (IF, "t", True), (IF, "u", False),
    (IF, "x", True), (IF, "c", True), (IF, "d", False),
    (LOOP, "ao", False), (LOOP, "ai", False), (LOOP, "p", False), (LOOP, "yo", True), (LOOP, "yi", True),
    (LOOP, "co", True), (LOOP, "u", False), (LOOP, "x", True), (LOOP, "n", True), (LOOP, "ci", True),
    (LOOP.replace("Exp (yi)", "Add (yi, ai)"), "u", True),
    (LOOP.replace("Identity (ci)", "And (ci, b) m = ReduceMax <keepdims = 0> (ai) b = Cast <to = 9> (m)"), "u", True),
    (SCAN, "u", False), (SCAN, "k", False), (SCAN, "m", True), (SCAN, "ao", False), (SCAN, "yo", True),
    (SCAN.replace("Exp (yi)", "Add (yi, si)"), "u", True),
    ("d = other.Op (u) y = Relu (x)", "u", False),
    ("y = Relu (u)", "u", True),
]  # fmt: skip


@pytest.mark.parametrize(("body", "name", "reaches"), CASES)
def test_what_an_output_can_depend_on(body: str, name: str, reaches: bool) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 13, "other": 1]>
        g (float[N] x, int64 n, bool c, float k, float m) => (float[M] y) {{ u = Neg (x) {body} }}"""
    loaded = ir.load(onnx.parser.parse_model(text))
    named = {value.name: value for graph in loaded.graphs() for value in graph.values.values()}
    assert reaches_output(named[name]) == reaches


def test_results_of_functions_and_of_other_operators_bodies_are_all_read() -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "own": 1]>
        g (float[N] x) => (float[N] y) { d, y = own.f (x) }
        <domain: "own", opset_import: ["": 13]> f (v) => (a, b) { a = Neg (v) b = Exp (v) }"""
    loaded = ir.load(onnx.parser.parse_model(text))
    assert reaches_output(loaded.functions[0].values["a"])
    held = IF.replace("If (c)", "other.Choose (c)")
    text = f"""<ir_version: 8, opset_import: ["": 13, "other": 1]>
        g (float[N] x, bool c) => (float[M] y) {{ u = Neg (x) {held} }}"""
    loaded = ir.load(onnx.parser.parse_model(text))
    assert all(reaches_output(body.outputs[0]) for node in loaded.graph.nodes for body in node.bodies)
