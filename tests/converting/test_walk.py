"""Every graph and every node: bodies, functions, what passes, and one error for all that is in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import bnfold
from bnfold import ir, reference
from bnfold.converting import convert as upgrade
from bnfold.errors import ConversionBlocked, MalformedModel

Converted = Callable[..., Any]
Text = Callable[..., str]
FLOAT = TensorProto.FLOAT


FUNCTION = """<ir_version: 8, opset_import: ["" : 15, "my" : 1]>
g (float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2, 3, 4] y) {
    y = my.norm <eps = 0.25> (x, s, b, m, v)
}
<domain: "my", opset_import: ["" : 9]>
norm <eps> (x, s, b, m, v) => (y) {
    p = BatchNormalization <epsilon : float = @eps> (x, s, b, m, v)
    q = Dropout <ratio = 0.5> (p)
    y = Softmax <axis = 2> (q)
}"""


def test_branches_of_an_if(upgraded: Converted) -> None:
    source = """<ir_version: 8, opset_import: ["" : 6]>
    g (bool c, float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[] y) {
        y = If (c) <
            then_branch = t () => (float[] t0) {
                t1 = BatchNormalization <is_test = 1> (x, s, b, m, v)
                t0 = Add <broadcast = 1, axis = 1> (t1, s)
            },
            else_branch = e () => (float[] e0) <float[3] w = {1, 2, 3}> {
                e1 = Mul <broadcast = 1, axis = 1> (x, w)
                e0 = Softmax <axis = 2> (e1)
            }>
    }"""
    for condition in (True, False):
        outcome = upgraded(source, feeds={"c": np.array(condition)})
    graphs = {graph.path: [node.op_type for node in graph.nodes] for graph in outcome.model.graphs()}
    assert graphs["y.then_branch"] == ["BatchNormalization", "Reshape", "Add"]
    assert {change.graph for change in outcome.report.changes} == {"y.then_branch", "y.else_branch"}


@pytest.mark.parametrize("condition", [True, False])
def test_branches_do_not_see_each_others_constants(upgraded: Converted, condition: bool) -> None:
    source = """<ir_version: 8, opset_import: ["" : 6]>
    g (bool c, float[2, 3, 4] x) => (float[] y) <float[3] w = {1, 2, 3}> {
        y = If (c) <
            then_branch = t () => (float[] t0) { t0 = Add <broadcast = 1, axis = 1> (x, w) },
            else_branch = e () => (float[] e0) { e0 = Mul <broadcast = 1, axis = 1> (x, w) }>
    }"""
    outcome = upgraded(source, feeds={"c": np.array(condition)})
    owners = [graph.path for graph in outcome.model.graphs() for value in graph.values.values() if value.tensor]
    assert sorted(owners) == ["y.else_branch", "y.then_branch"]


def test_the_body_of_a_loop(upgraded: Converted) -> None:
    source = """<ir_version: 8, opset_import: ["" : 9]>
    g (float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2, 3, 4] y)
    <int64 n = {3}, bool k = {1}> {
        y = Loop (n, k, x) <body = l (int64 i, bool go, float[2, 3, 4] a) => (bool go_on, float[2, 3, 4] d) {
            go_on = Identity (go)
            p = BatchNormalization (a, s, b, m, v)
            q = Unsqueeze <axes = [0]> (p)
            d = Squeeze <axes = [0]> (q)
        }>
    }"""
    outcome = upgraded(source)
    assert outcome.report.changes[0].graph == "y.body"


def test_the_body_of_a_scan(upgraded: Converted) -> None:
    source = """<ir_version: 8, opset_import: ["" : 9]>
    g (float[2, 3] h, float[4, 2, 3] x, float[3] s) => (float[2, 3] f, float[4, 2, 3] y) {
        f, y = Scan (h, x) <num_scan_inputs = 1,
                body = b (float[2, 3] a, float[2, 3] e) => (float[2, 3] c, float[2, 3] d) {
            c = Add (a, e)
            p = Clip <min = -1.0> (c)
            d = BatchNormalization (p, s, s, s, s)
        }>
    }"""
    assert "Clip" in {change.op_type for change in upgraded(source).report.changes}


def test_function_bodies_have_their_own_opset(upgraded: Converted) -> None:
    outcome = upgraded(FUNCTION)
    (function,) = outcome.model.proto.functions
    assert [(entry.domain, entry.version) for entry in function.opset_import] == [("", 15)]
    assert {node.op_type for node in function.node} >= {"BatchNormalization", "Dropout", "Softmax", "Shape"}
    epsilon = next(node for node in function.node if node.op_type == "BatchNormalization").attribute[0]
    assert epsilon.ref_attr_name == "eps"
    assert [node.op_type for node in outcome.model.proto.graph.node] == ["norm"]
    assert not outcome.report.passed


def test_a_function_that_passes_its_mode_on_is_left_alone() -> None:
    source = FUNCTION.replace('"" : 9', '"" : 15').replace("epsilon : float = @eps", "training_mode : int = @eps")
    source = source.replace("Dropout <ratio = 0.5>", "Dropout")
    model = ir.load(onnx.parser.parse_model(source.replace("eps = 0.25", "eps = 0")))
    assert not upgrade(model, 15).changes


def test_a_function_parameter_that_an_adapter_needs_is_an_error() -> None:
    source = FUNCTION.replace("Softmax <axis = 2>", "Softmax <axis : int = @eps>")
    with pytest.raises(ConversionBlocked, match=r"function 'norm' .* Softmax \('y'\): .*axis"):
        upgrade(ir.load(onnx.parser.parse_model(source)), 15)


def test_a_function_without_the_default_domain_is_not_looked_at() -> None:
    source = FUNCTION.replace('<domain: "my", opset_import: ["" : 9]>', '<domain: "my", opset_import: ["other" : 1]>')
    for op_type in ("BatchNormalization <epsilon : float = @eps>", "Dropout <ratio = 0.5>", "Softmax <axis = 2>"):
        source = source.replace(op_type, "other." + op_type.split()[0])
    model = ir.load(onnx.parser.parse_model(source))
    upgrade(model, 15)
    assert [(entry.domain, entry.version) for entry in model.proto.functions[0].opset_import] == [("other", 1)]


def test_a_node_without_a_changed_step_is_the_same_message() -> None:
    proto = onnx.parser.parse_model(FUNCTION)
    model = ir.load(proto)
    upgrade(model)
    model.sync()
    assert model.proto.graph.node[0].SerializeToString() == proto.graph.node[0].SerializeToString()


def test_foreign_and_unknown_operators_pass_and_are_counted(upgraded: Converted, text: Text) -> None:
    proto = onnx.parser.parse_model(text(9, "float[2, 3] x", "p = Plugin <k = 3> (x) q = my.Op (p) y = my.Op (q)"))
    proto.opset_import.append(helper.make_opsetid("my", 1))
    outcome = upgraded(proto, compare=False)
    assert outcome.report.passed == {"ai.onnx::Plugin": 1, "my::Op": 2}
    assert outcome.model.proto.graph.node[0] == proto.graph.node[0]


def test_one_error_names_every_blocking_node(text: Text) -> None:
    body = """p = Tile (x, a, a) q = Scan8 (p) r = Split <axis = 0> (q, a)
              y = BatchNormalization <spatial = 0> (r, a, a, a, a)"""
    with pytest.raises(ConversionBlocked) as caught:
        upgrade(ir.load(onnx.parser.parse_model(text(1, "float[2, 3] x, float[k] a", body))))
    assert [line.split(" ")[0] for line in caught.value.blockers] == ["Tile-1", "Split-1", "BatchNormalization-1"]
    assert str(caught.value).count("; ") == 2
    assert "\n" not in str(caught.value)


def test_cuts_bound_what_changed_its_form(upgraded: Converted, text: Text) -> None:
    body = "p = Relu (x) q = Softmax (p) y = Unsqueeze <axes = [0]> (q)"
    (cut,) = upgraded(text(9, "float[2, 3, 4] x", body)).report.cuts
    assert cut == ir.Cut("", ("p",), ("q",), "upgrade Softmax")


def test_files_that_are_not_sorted(text: Text) -> None:
    """What stands in front of its maker is looked at after it: shapes follow from nodes in the target's form only."""
    body = """y = Add <broadcast = 1, axis = 1> (q, s)
              q = Squeeze <axes = [0]> (p)
              p = Transpose <perm = [1, 0, 2, 3, 4]> (x)"""
    sorted_body = " ".join(reversed(body.splitlines()))
    inputs = "float[4, 1, 3, 1, 2] x, float[3] s"
    models = [ir.load(onnx.parser.parse_model(text(6, inputs, written))) for written in (body, sorted_body)]
    for model in models:
        upgrade(model)
    assert [node.op_type for node in models[0].graph.nodes] == ["Reshape", "Transpose", "Squeeze", "Add"]
    assert [node.op_type for node in models[1].graph.nodes] == ["Transpose", "Squeeze", "Reshape", "Add"]
    dims = [model.graph.values["y"].producer.inputs[1].producer.inputs[1].tensor.numpy() for model in models]  # type: ignore[union-attr]
    np.testing.assert_array_equal(dims[0], [3, 1, 1])
    np.testing.assert_array_equal(dims[0], dims[1])


def test_a_cycle_does_not_hang(text: Text) -> None:
    model = ir.load(onnx.parser.parse_model(text(9, "float[2] x", "a = Add (b, x) b = Relu (a) y = Abs (b)")))
    assert upgrade(model).after == 15


@pytest.mark.parametrize(
    ("opset", "inputs", "body"),
    [
        (9, "float[2, 3, 4] x, float[3] s", "y = Add <broadcast = 1, axis = 1> (x, s)"),
        (15, "float[2, 3, 4] x, float[3] s", "y = Clip <min = -0.5> (x)"),
        (15, "float[2, 3, 4] x, float[3] s", "y = Unsqueeze <axes = [0]> (x)"),
        (18, "float[2, 3, 4] x, float[3] s", "y = ReduceMean <axes = [1]> (x)"),
        (13, "float[2, 3, 4] x, float[3] s", "y = Relu <consumed_inputs = [0]> (x)"),
        (12, "float[2, 3, 4] x, float[3] s", "y = Dropout <is_test = 1, ratio = 0.25> (x)"),
    ],
)
def test_attributes_left_behind_are_read_as_the_version_that_had_them(
    upgraded: Converted, text: Text, opset: int, inputs: str, body: str
) -> None:
    """What a converter makes that only stamps an opset."""
    outcome = upgraded(text(opset, inputs, body), compare=False)
    assert outcome.repairs == ["misplaced-attribute"]
    honest = {"Add": 6, "Clip": 6, "Unsqueeze": 11, "ReduceMean": 13, "Relu": 1, "Dropout": 6}
    meant = upgraded(text(honest[body.split()[2]], inputs, body), outcome.report.after)
    np.testing.assert_array_equal(reference.evaluate(outcome.model, meant.feeds)["y"], meant.results["y"])


def test_attributes_that_no_version_had_stay(upgraded: Converted, text: Text) -> None:
    outcome = upgraded(text(9, "float[2, 3] x", "y = Relu <colour = 3> (x)"), compare=False)
    assert outcome.model.graph.nodes[0].attr("colour") == 3
    assert not outcome.repairs


@pytest.mark.parametrize(
    ("opset", "inputs", "body", "reason"),
    [
        (11, "float[2, 3] x", 'y = Softmax <axis = "last"> (x)', "attribute axis is of type STRING"),
        (11, "float[2, 3] x", "y = Softmax <axis = -7> (x)", "has axis -7, over an input of rank 2"),
        (6, "float[2, 3] x", "y = Add <broadcast = 1.5> (x, x)", "attribute broadcast is of type FLOAT"),
        (
            9,
            "float[2, 3] x",
            "y = BatchNormalization <epsilon = [1]> (x, x, x, x, x)",
            "attribute epsilon is of type INTS",
        ),
        (18, "float[2, 4, 3] x, float[2] s", "y = GroupNormalization <num_groups = 0> (x, s, s)", "0 groups"),
        (1, "float[2, 3] x", "y = Cast (x)", "does not say which type"),
        (1, "float[2, 3] x", "y = GivenTensorFill <shape = [2], values = [1.0]> ()", "1 values for the shape"),
        (1, "float[2, 3] x", "y = ConstantFill <shape = [2], dtype = 8> ()", "not an element type of numbers"),
        (1, "float[2, 3] x", "y = ConstantFill <shape = [2], dtype = 99> ()", "not an element type of numbers"),
        (1, "float[1, 1, 9, 9] x", "y = Crop <border = [1, 1, 1, 1], scale = [3]> (x)", "no window of two sides"),
    ],
)
def test_nonsense_is_an_error_and_no_crash(text: Text, opset: int, inputs: str, body: str, reason: str) -> None:
    with pytest.raises(ConversionBlocked, match=reason):
        upgrade(ir.load(onnx.parser.parse_model(text(opset, inputs, body))), 22)


@pytest.mark.parametrize("weights", ["float[1] n = {2}, float[1] a = {7}", "float[2] n = {2, 2}, float[1] a = {0}"])
def test_nonsense_in_constants_is_an_error_too(text: Text, weights: str) -> None:
    head = text(1, "float[2, 3] x", "").removesuffix("{  }")
    with pytest.raises(ConversionBlocked, match=r"tiles"):
        upgrade(ir.load(onnx.parser.parse_model(f"{head} <{weights}> {{ y = Tile (x, n, a) }}")))


def test_a_graph_without_nodes() -> None:
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 9]> g (float[3] x) => (float[3] x) {}')
    model = ir.load(proto)
    upgrade(model, 15)
    assert model.opset() == 15
    assert model.graph.nodes == []


@pytest.mark.parametrize("through", ["Add", "Reshape"])
def test_values_that_wait_for_themselves_are_not_waited_for(through: str) -> None:
    """No runtime takes such a model; what matters is that upgrading it ends."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 9]> g (float[3] x) => (float[N] y) '
        f"{{ a = {through} (x, c)  b = {through} (a, x)  c = Relu (b)  y = Softmax (c) }}"
    )
    model = ir.load(proto)
    upgrade(model, 15)
    assert {node.op_type for node in model.graph.nodes} >= {through, "Relu"}


def test_a_constant_that_claims_more_than_it_has_is_refused() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 7]> g (float[2, 3, 4611686018427387904] x) => (float[N, C, L] y) '
        "<float[12] s = {1,1,1,1,1,1,1,1,1,1,1,1}> { y = BatchNormalization <spatial = 0> (x, s, s, s, s) }"
    )
    proto.graph.initializer[0].dims[:] = [3, 1 << 62]
    with pytest.raises(MalformedModel, match="does not fit its dims"):
        upgrade(ir.load(proto), 15)


CALLED_WITH = """<ir_version: 8, opset_import: ["" : 9, "my" : 1]>
g (float[2,3,4] x, float[3] s) => (float[2,3,4] y, float[2,3,4] z) {
  y = my.norm <last = 2> (x, s)
  z = my.norm <last = 1> (x, s)
}
<domain: "my", opset_import: ["" : 9]>
norm <last> (x, s) => (y) { v = Abs (s)  n = BatchNormalization (x, s, s, s, v)  y = Softmax <axis: int = @last> (n) }
"""


def test_a_function_whose_nodes_need_the_attributes_of_a_call_is_inlined() -> None:
    proto = onnx.parser.parse_model(CALLED_WITH)
    outcome = bnfold.upgrade(proto)
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert not outcome.to_proto().functions
    assert [event.graph for event in outcome.report.batchnorms] == ["", ""]
    assert [(repair.kind, repair.node) for repair in outcome.report.repairs] == [
        ("inlined-function", "norm"),
        ("opset-imports", ""),
    ]


CALLED_AT_15 = """
<ir_version: 8, opset_import: ["": 15, "my": 1]>
g (float[2,3,4] x, float[3] s) => (float[2,3,4] y) { y = my.norm <mode = 0> (x, s) }
<domain: "my", opset_import: ["" : 15]>
norm <mode> (x, s) => (y) { y = BatchNormalization <training_mode: int = @mode> (x, s, s, s, s) }
"""


def test_a_function_that_is_inlined_without_a_change_of_opset_leaves_no_event() -> None:
    outcome = bnfold.optimize(onnx.parser.parse_model(CALLED_AT_15))
    assert [(event.graph, event.reason and event.reason.code) for event in outcome.report.batchnorms] == [
        ("", "dynamic-parameters")
    ]


def test_what_the_target_cannot_compute_of_constants_is_stored() -> None:
    text = """<ir_version: 7, opset_import: ["" : 13]> g (float[n, 4] x) => (float[n, 4] y) {
        f = Cast <to = 1> (k) y = Mul (x, f) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.helper.make_tensor("k", onnx.TensorProto.BFLOAT16, [4], [1.0, 2.0, 3.0, 4.0]))
    outcome = bnfold.convert(proto, opset=9, verify=bnfold.VerifyOptions(depth="none"))
    after = outcome.to_proto()
    assert [node.op_type for node in after.graph.node] == ["Mul"]
    assert [tensor.name for tensor in after.graph.initializer] == ["f"]
    assert after.ir_version == 4
    assert [event.rewrite.name for event in outcome.report.simplified] == ["constant-result"]


def test_what_follows_from_an_input_is_not_stored() -> None:
    text = """<ir_version: 7, opset_import: ["" : 13]> g (bfloat16[4] k, float[4] x) => (float[4] y) {
        f = Cast <to = 1> (k) y = Mul (x, f) }"""
    with pytest.raises(ConversionBlocked, match="Cast"):
        upgrade(ir.load(onnx.parser.parse_model(text)), 9)
