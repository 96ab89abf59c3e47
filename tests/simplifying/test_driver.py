"""What the rewrites have in common: scopes, functions, what nothing reads, and what is reported."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from bnfold import ir
from bnfold.report.events import Report
from bnfold.simplifying import simplify
from tests.simplifying.small import assert_equal, model, operators, simplified

CAPTURING = """
    <ir_version: 8, opset_import: ["": 15]> g (float[N] x, bool c) => (float[N] y) {
        a = Identity (x)
        b = Identity (a)
        y = If (c) <
            then_branch = t () => (float[N] p) { q = Identity (b) p = Relu (q) },
            else_branch = e () => (float[N] r) { r = Identity (b) }
        >
    }
"""


def test_what_a_body_captures() -> None:
    before = onnx.parser.parse_model(CAPTURING)
    after, _ = simplified(before)
    assert operators(after) == ["If"]
    for told in (True, False):
        assert_equal(before, after, (3,), c=np.array(told))


def test_an_inner_value_of_the_same_name_hides_the_outer_one() -> None:
    """The body means its own ``x``, so that nothing there may read the outer one."""
    before = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 15]> g (float[N] v, bool c) => (float[N] y) {
            x = Neg (v)
            a = Identity (x)
            y = If (c) <
                then_branch = t () => (float[N] p) { x = Relu (a) p = Add (x, a) },
                else_branch = e () => (float[N] r) { r = Neg (a) }
            >
        }
    """)
    after, _ = simplified(before)
    assert operators(after) == ["Neg", "Identity", "If"]


def test_sizes_that_branches_make_are_not_believed() -> None:
    body = """
        <ir_version: 8, opset_import: ["": 15]> g (float[3] x, bool c) => (float[M] y) <int64[1] two = {2}> {
            a = If (c) <
                then_branch = t () => (float[3] p) { p = Relu (x) },
                else_branch = e () => (float[6] r) { r = Tile (x, two) }
            >
            s = Shape (a)
            k = Cast <to = 1> (s)
            y = Add (a, k)
        }
    """
    before = onnx.parser.parse_model(body)
    after, _ = simplified(before)
    for told in (True, False):
        assert_equal(before, after, (3,), c=np.array(told))


def test_sizes_beside_a_branch_are_known() -> None:
    before = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 15]> g (float[N,3] x, bool c) => (float[M] y, int64[2] z) {
            a = If (c) <
                then_branch = t () => (float[M] p) { p = Relu (x) },
                else_branch = e () => (float[M] r) { r = Neg (x) }
            >
            s = Shape <start = 1> (x)
            k = Cast <to = 1> (s)
            y = Add (a, k)
            t = Shape (a)
            z = Add (t, t)
        }
    """)
    after, _ = simplified(before)
    assert operators(after) == ["If", "Add", "Shape", "Add"]
    for told in (True, False):
        assert_equal(before, after, (2, 3), c=np.array(told))


FUNCTION = """
    <ir_version: 8, opset_import: ["": 15, "local": 1]> g (float[N,4] x) => (float[N,4] y) { y = local.f (x) }
    <opset_import: ["": 15], domain: "local"> f (a) => (b) {
        c = Identity (a)
        d = Relu (c)
        e = Relu (c)
        s = Add (d, e)
        b = Identity (s)
    }
"""


def test_the_body_of_a_function() -> None:
    before = onnx.parser.parse_model(FUNCTION)
    after, _ = simplified(before)
    assert [node.op_type for node in after.functions[0].node] == ["Relu", "Add"]
    assert_equal(before, after, (3, 4))


def test_a_function_that_has_the_name_of_an_operator_is_none() -> None:
    before = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 15]> g (float[N] x) => (float[N] y) { a = Identity (x) y = Neg (a) }
        <opset_import: ["": 15], domain: ""> Identity (a) => (b) { b = Relu (a) }
    """)
    assert operators(simplified(before)[0]) == ["Identity", "Neg"]


def test_what_nothing_reads_goes() -> None:
    before = model(
        "(float[N] x) => (float[N] y)",
        "a = Neg (x) b = Relu (a) c = other.Op (x) y = Relu (x)",
        "float[1] w = {1}",
    )
    before.opset_import.add(domain="other", version=1)
    after, report = simplified(before)
    assert operators(after) == ["Op", "Relu"]
    assert not after.graph.initializer
    assert [event.name for event in report.simplified if event.rewrite.title == "unread node"] == ["a", "b"]


def test_a_training_graph_keeps_all_as_it_is() -> None:
    before = model("(float[N] x) => (float[N] y)", "a = Identity (x) y = Relu (a)")
    before.training_info.add()
    assert operators(simplified(before)[0]) == ["Identity", "Relu"]


def test_a_weight_is_not_loaded() -> None:
    before = model("(float[N,300] x) => (float[N,300] y)", "a = Identity (x) y = MatMul (a, w)")
    before.graph.initializer.append(numpy_helper.from_array(np.ones((300, 300), np.float32), "w"))
    loaded = ir.load(before.SerializeToString())
    simplify(loaded, Report())
    assert len(loaded.proto.graph.initializer[0].raw_data) < 100


def test_every_rewrite_says_what_it_did() -> None:
    body = "a = Identity (x) t = Transpose <perm = [1, 0]> (a) u = Transpose <perm = [1, 0]> (t) y = Relu (u)"
    _, report = simplified(model("(float[N,2] x) => (float[N,2] y)", body))
    assert report.simplifications() == "Identity ×1, Transpose pair ×1"  # noqa: RUF001
    none = {"growth": 0, "saved": 0}
    assert report.to_json()["simplified"] == [
        {"rewrite": rewrite, "title": title, "name": name, "graph": "", "operator": operator, "into": "x"} | none
        for rewrite, title, name, operator in (
            ("remove-identity", "Identity", "a", "Identity"),
            ("transpose-pair", "Transpose pair", "u", "Transpose"),
        )
    ]
    assert report.to_json()["rewrites"] == [
        {"name": "remove-identity", "title": "Identity", "count": 1, "bitwise": True, "rounds": ""},
        {"name": "transpose-pair", "title": "Transpose pair", "count": 1, "bitwise": True, "rounds": ""},
    ]


def test_a_node_with_a_reference_to_an_attribute_stays() -> None:
    before = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 15, "local": 1]> g (float[N,4] x) => (float[M,K] y) {
            y = local.f <order = [1, 0]> (x)
        }
        <opset_import: ["": 15], domain: "local"> f <order> (a) => (b) {
            c = Transpose <perm: ints = @order> (a)
            b = Transpose <perm: ints = @order> (c)
        }
    """)
    after, _ = simplified(before)
    assert len(after.functions[0].node) == 2
    assert_equal(before, after, (2, 4))
