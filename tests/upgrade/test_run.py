"""The upgrade of whole models: every graph, nothing lost, and one error for all that is in the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir, reference
from bnfold.errors import BadInput, Unsupported, UpgradeBlocked
from bnfold.upgrade import run as upgrade

Upgraded = Callable[..., Any]
Text = Callable[..., str]
FLOAT = TensorProto.FLOAT
BN6 = "BatchNormalization <is_test = 1> (x, s, b, m, v)"


def test_branches_of_an_if(upgraded: Upgraded) -> None:
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


def test_the_body_of_a_loop(upgraded: Upgraded) -> None:
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


def test_the_body_of_a_scan(upgraded: Upgraded) -> None:
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


def test_function_bodies_have_their_own_opset(upgraded: Upgraded) -> None:
    outcome = upgraded(FUNCTION)
    (function,) = outcome.model.proto.functions
    assert [(entry.domain, entry.version) for entry in function.opset_import] == [("", 15)]
    assert {node.op_type for node in function.node} >= {"BatchNormalization", "Dropout", "Softmax", "Shape"}
    epsilon = next(node for node in function.node if node.op_type == "BatchNormalization").attribute[0]
    assert epsilon.ref_attr_name == "eps"
    assert [node.op_type for node in outcome.model.proto.graph.node] == ["norm"]


def test_a_function_that_passes_its_mode_on_is_left_alone() -> None:
    source = FUNCTION.replace('"" : 9', '"" : 15').replace("epsilon : float = @eps", "training_mode : int = @eps")
    model = ir.load(onnx.parser.parse_model(source.replace("eps = 0.25", "eps = 0")))
    assert not upgrade(model, 15).changes


def test_a_function_parameter_that_an_adapter_needs_is_an_error() -> None:
    source = FUNCTION.replace("Softmax <axis = 2>", "Softmax <axis : int = @eps>")
    with pytest.raises(UpgradeBlocked, match=r"Softmax-1 'y' in my::norm: .*eps"):
        upgrade(ir.load(onnx.parser.parse_model(source)), 15)


def test_a_function_without_the_default_domain_is_not_looked_at() -> None:
    source = FUNCTION.replace('<domain: "my", opset_import: ["" : 9]>', '<domain: "my", opset_import: ["other" : 1]>')
    for op_type in ("BatchNormalization <epsilon : float = @eps>", "Dropout <ratio = 0.5>", "Softmax <axis = 2>"):
        source = source.replace(op_type, "other." + op_type.split()[0])
    model = ir.load(onnx.parser.parse_model(source))
    upgrade(model, 15)
    assert [(entry.domain, entry.version) for entry in model.proto.functions[0].opset_import] == [("other", 1)]


@pytest.mark.parametrize("imports", [[], [("", 1), ("", 1)], [("ai.onnx", 1)], [("", 1), ("ai.onnx", 1)]])
def test_opset_imports_of_every_habit(text: Text, imports: list[tuple[str, int]]) -> None:
    proto = onnx.parser.parse_model(text(1, "float[2, 3] x", "y = Relu <consumed_inputs = [0]> (x)"))
    del proto.opset_import[:]
    proto.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in imports)
    model = ir.load(proto)
    report = upgrade(model)
    assert (report.before, report.after) == (1, 15)
    written = [(entry.domain, entry.version) for entry in model.proto.opset_import]
    assert written == [(domain, 15) for domain in dict.fromkeys(domain for domain, _ in imports or [("", 1)])]


def test_the_other_spelling_on_nodes_is_kept(text: Text) -> None:
    proto = onnx.parser.parse_model(text(9, "float[2, 3] x", "p = ai.onnx.Unsqueeze <axes = [0]> (x) y = Relu (p)"))
    model = ir.load(proto)
    assert len(upgrade(model).changes) == 1
    model.sync()
    assert [node.domain for node in model.proto.graph.node] == ["ai.onnx", ""]


@pytest.mark.parametrize(
    ("opset", "target", "ir_before", "ir_after"),
    [(6, 15, 3, 8), (6, 9, 3, 4), (6, 11, 4, 6), (15, 15, 8, 8), (9, 15, 10, 10), (15, 21, 8, 10), (15, 19, 8, 9)],
)
def test_ir_version_rises_to_what_the_opset_needs(
    upgraded: Upgraded, text: Text, opset: int, target: int, ir_before: int, ir_after: int
) -> None:
    report = upgraded(text(opset, "float[2, 3] x", "y = Relu (x)", ir=ir_before), target).report
    assert (report.ir_before, report.ir_after) == (ir_before, ir_after)


def weighted(ir_version: int, *, listed: bool) -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    inputs = [helper.make_tensor_value_info("x", FLOAT, (2, 3, 4))]
    inputs += [helper.make_tensor_value_info("w", FLOAT, (3,))] * listed
    node = helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=1)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=ir_version)


@pytest.mark.parametrize("listed", [True, False])
def test_initializers_of_early_ir_versions_are_constants(upgraded: Upgraded, listed: bool) -> None:
    outcome = upgraded(weighted(3, listed=listed))
    assert [value.name for value in outcome.model.graph.inputs] == ["x"]
    assert outcome.ops == ["Add"]


def test_overridable_initializers_stay_inputs(upgraded: Upgraded) -> None:
    outcome = upgraded(weighted(4, listed=True))
    assert [value.name for value in outcome.model.graph.inputs] == ["x", "w"]
    assert outcome.ops == ["Reshape", "Add"]


def test_what_belongs_to_the_file_is_kept(upgraded: Upgraded, text: Text) -> None:
    proto = onnx.parser.parse_model(text(9, "float[n, 3] x", "p = Unsqueeze <axes = [0]> (x) y = Relu (p)"))
    proto.metadata_props.add(key="author", value="somebody")
    proto.doc_string, proto.producer_name = "a model", "by hand"
    proto.graph.metadata_props.add(key="level", value="graph")
    proto.graph.doc_string = "a graph"
    node = proto.graph.node[0]
    node.name, node.doc_string = "unsqueeze", "a node"
    node.metadata_props.add(key="level", value="node")
    annotation = proto.graph.quantization_annotation.add(tensor_name="p")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
    proto.graph.value_info.append(helper.make_tensor_value_info("p", FLOAT, (1, "n", 3)))
    model = upgraded(proto).model.proto
    for field in ("metadata_props", "doc_string", "producer_name"):
        assert getattr(model, field) == getattr(proto, field)
    for field in ("metadata_props", "doc_string", "quantization_annotation", "value_info"):
        assert getattr(model.graph, field) == getattr(proto.graph, field)
    assert (model.graph.node[0].name, model.graph.node[0].doc_string) == ("unsqueeze", "a node")
    assert model.graph.node[0].metadata_props == node.metadata_props
    assert model.graph.input[0] == proto.graph.input[0]


def test_a_node_without_a_changed_step_is_the_same_message() -> None:
    proto = onnx.parser.parse_model(FUNCTION)
    model = ir.load(proto)
    upgrade(model)
    model.sync()
    assert model.proto.graph.node[0].SerializeToString() == proto.graph.node[0].SerializeToString()


def test_sparse_initializers_and_sequences_pass(text: Text) -> None:
    proto = onnx.parser.parse_model(
        text(11, "seq(float[2, 3]) q, int64 i", "p = SequenceAt (q, i) y = Unsqueeze <axes = [0]> (p)")
    )
    values = helper.make_tensor("sp", FLOAT, [1], [2.0])
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, helper.make_tensor("", TensorProto.INT64, [1], [1]), [4])
    )
    model = ir.load(proto)
    upgrade(model)
    model.sync()
    assert model.proto.graph.sparse_initializer == proto.graph.sparse_initializer
    assert model.proto.graph.input == proto.graph.input


def test_foreign_and_unknown_operators_pass_and_are_counted(upgraded: Upgraded, text: Text) -> None:
    proto = onnx.parser.parse_model(text(9, "float[2, 3] x", "p = Plugin <k = 3> (x) q = my.Op (p) y = my.Op (q)"))
    proto.opset_import.append(helper.make_opsetid("my", 1))
    outcome = upgraded(proto, compare=False)
    assert outcome.report.passed == {"ai.onnx::Plugin": 1, "my::Op": 2}
    assert outcome.model.proto.graph.node[0] == proto.graph.node[0]


def test_one_error_names_every_blocking_node(text: Text) -> None:
    body = """p = Tile (x, a, a) q = Scan8 (p) r = Split <axis = 0> (q, a)
              y = BatchNormalization <spatial = 0> (r, a, a, a, a)"""
    with pytest.raises(UpgradeBlocked) as caught:
        upgrade(ir.load(onnx.parser.parse_model(text(1, "float[2, 3] x, float[k] a", body))))
    assert [line.split(" ")[0] for line in caught.value.blockers] == ["Tile-1", "Split-1", "BatchNormalization-1"]
    assert "3 nodes have no equivalent" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("target", [0, -1, 1000])
def test_an_opset_that_does_not_exist(text: Text, target: int) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        upgrade(ir.load(onnx.parser.parse_model(text(9, "float[2] x", "y = Relu (x)"))), target)


def test_an_opset_newer_than_the_installed_onnx(text: Text) -> None:
    with pytest.raises(Unsupported, match="newer than the installed onnx"):
        upgrade(ir.load(onnx.parser.parse_model(text(1000, "float[2] x", "y = Relu (x)"))))


def test_training_graphs_are_refused_rather_than_reinterpreted(text: Text) -> None:
    proto = onnx.parser.parse_model(text(9, "float[2] x", "y = Relu (x)"))
    proto.training_info.add()
    with pytest.raises(Unsupported, match="training_info"):
        upgrade(ir.load(proto))


def test_the_default_target_is_15_unless_the_model_is_newer(upgraded: Upgraded, text: Text) -> None:
    assert upgraded(text(9, "float[2] x", "y = Relu (x)")).report.after == 15
    assert upgraded(text(18, "float[2] x", "y = Relu (x)")).report.after == 18


def test_cuts_bound_what_changed_its_form(upgraded: Upgraded, text: Text) -> None:
    body = "p = Relu (x) q = Softmax (p) y = Unsqueeze <axes = [0]> (q)"
    (cut,) = upgraded(text(9, "float[2, 3, 4] x", body)).report.cuts
    assert cut == ir.Cut("", ("p",), ("q",), "upgrade Softmax")


def test_external_data_stays_where_it_is(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(3, 3, 40, 40)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["p"]),
            helper.make_node("Clip", ["p"], ["y"], min=0.0),
        ],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, (1, 3, 50, 50))],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(proto, before, save_as_external_data=True, location="w.data", size_threshold=0)
    model = ir.load(before)
    upgrade(model)
    ir.save(model, after)
    stored = onnx.load(after, load_external_data=False).graph.initializer[0]
    assert stored.data_location == TensorProto.EXTERNAL
    np.testing.assert_array_equal(numpy_helper.to_array(onnx.load(after).graph.initializer[0]), weights)


def test_a_network_of_2017(text: Text) -> None:
    """Untyped attributes, one pad for each axis, no opset, parameters as inputs: what PyTorch wrote first."""
    body = """c = Conv <kernel_shape = [3, 3], pads = [1, 1], strides = [1, 1]> (x, w)
              a = Add <broadcast = 1, axis = 1> (c, s)
              n = BatchNormalization <is_test = 1, consumed_inputs = [0, 0, 0, 1, 1]> (a, s, b, m, v)
              p = MaxPool <kernel_shape = [2, 2], pads = [0, 0], strides = [2, 2]> (n)
              d, mask = Dropout <is_test = 1> (p)
              f = Reshape <shape = [2, -1]> (d)
              y = Softmax (f)"""
    inputs = "float[2, 3, 6, 8] x, float[4, 3, 3, 3] w, float[4] s, float[4] b, float[4] m, float[4] v"
    proto = onnx.parser.parse_model(text(1, inputs, body, ir=1, outputs="float[2, 48] y"))
    del proto.opset_import[:]
    for node in proto.graph.node:
        for attribute in node.attribute:
            attribute.ClearField("type")
    model = ir.load(proto)
    report = upgrade(model)
    assert [repair.kind for repair in report.repairs] == ["half-pads", "half-pads"]
    model.sync()
    onnx.checker.check_model(model.proto, full_check=True)
    generator = np.random.default_rng(1)
    shapes = {value.name: [dim for dim in value.shape or () if isinstance(dim, int)] for value in model.graph.inputs}
    feeds = {name: np.asarray(generator.uniform(0.5, 1, shape)) for name, shape in shapes.items()}
    results = reference.evaluate(model, feeds)["y"]
    assert results.shape == (2, 48)
    np.testing.assert_allclose(results.sum(axis=1), 1)


def test_weights_beyond_two_gigabytes_are_no_concern(tmp_path: Path) -> None:
    """The data file is sparse, and nobody reads it: the converter of onnx fails on such a model."""
    rows, columns = 3 << 10, 1 << 18
    weight = TensorProto(name="w", data_type=FLOAT, dims=[rows, columns], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.data"), ("offset", "0"), ("length", str(4 * rows * columns))):
        weight.external_data.add(key=key, value=value)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Clip", ["p"], ["y"], max=1.0)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, (1, rows))],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [weight],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with (tmp_path / "w.data").open("wb") as data:
        data.truncate(4 * rows * columns)
    model = ir.load(tmp_path / "m.onnx")
    assert [change.op_type for change in upgrade(model).changes] == ["Clip"]
    assert model.proto.ByteSize() < 10_000
