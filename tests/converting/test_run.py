"""The upgrade of whole models: nothing lost, and clear words for what cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir, reference
from bnfold.converting import convert as upgrade
from bnfold.errors import BadInput, ExternalDataError, MalformedModel, Unsupported

Converted = Callable[..., Any]
Text = Callable[..., str]
FLOAT = TensorProto.FLOAT


def test_what_belongs_to_the_file_is_kept(upgraded: Converted, text: Text) -> None:
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


@pytest.mark.parametrize("target", [0, -1, 1000])
def test_an_opset_that_does_not_exist(text: Text, target: int) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        bnfold.upgrade(onnx.parser.parse_model(text(9, "float[2] x", "y = Relu (x)")), target_opset=target)


def test_an_opset_newer_than_the_installed_onnx(text: Text) -> None:
    with pytest.raises(Unsupported, match="newer than the installed onnx"):
        upgrade(ir.load(onnx.parser.parse_model(text(1000, "float[2] x", "y = Relu (x)"))))


def test_training_graphs_are_refused_rather_than_reinterpreted(text: Text) -> None:
    proto = onnx.parser.parse_model(text(9, "float[2] x", "y = Relu (x)"))
    proto.training_info.add()
    with pytest.raises(Unsupported, match="training_info"):
        upgrade(ir.load(proto))


def test_the_default_target_is_15_unless_the_model_is_newer(upgraded: Converted, text: Text) -> None:
    assert upgraded(text(9, "float[2] x", "y = Relu (x)")).report.after == 15
    assert upgraded(text(18, "float[2] x", "y = Relu (x)")).report.after == 18


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


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("p = Add (x, ghost) y = Relu (p)", "Add 'p' reads 'ghost', which nothing makes"),
        ("p = Relu (x)", "nothing makes the output 'y'"),
        ("y = Relu (x) p = Upsample ()", "Upsample 'p' has no inputs"),
        ("p = my.Op (ghost) y = Relu (x)", "Op 'p' reads 'ghost'"),
        (
            """c = Cast <to = 9> (x) y = If (c) <then_branch = t () => (a) { a = Relu (ghost) },
                                                else_branch = e () => (b) { b = Relu (x) }>""",
            "Relu 'a' reads 'ghost'",
        ),
    ],
)
@pytest.mark.parametrize("target", [9, 15])
def test_what_nothing_makes_is_named(text: Text, body: str, reason: str, target: int) -> None:
    with pytest.raises(MalformedModel, match=reason):
        upgrade(ir.load(onnx.parser.parse_model(text(9, "float[2] x", body))), target)


@pytest.fixture
def referring(tmp_path: Path) -> onnx.ModelProto:
    """A ModelProto whose weights lie in a file that nobody named."""
    weight, vector = np.arange(24, dtype=np.float32).reshape(4, 3, 2, 1), np.arange(1, 5, dtype=np.float32)
    text = """<ir_version: 4, opset_import: ["" : 6]> g (float[2, 3, 5, 7] x) => (float[2, 4, 4, 7] y)
              { c = Conv (x, w) b = BatchNormalization <is_test = 1> (c, v, v, v, v)
                y = Add <broadcast = 1, axis = 1> (b, v) }"""
    proto = onnx.parser.parse_model(text)
    arrays = (("w", weight), ("v", vector))
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return onnx.load(path, load_external_data=False)


def test_references_to_external_data_are_carried_along(referring: onnx.ModelProto, tmp_path: Path) -> None:
    outcome = bnfold.upgrade(referring)
    assert outcome.verdict is not None
    assert outcome.verdict.status == "unverified"
    assert "external data" in outcome.verdict.reason
    onnx.save(outcome.to_proto(), tmp_path / "upgraded.onnx")
    verdict = bnfold.verify(tmp_path / "model.onnx", tmp_path / "upgraded.onnx")
    assert verdict.status == "verified"


@pytest.mark.parametrize("call", [bnfold.optimize, lambda proto: bnfold.upgrade(proto, "out.onnx")])
def test_a_weight_that_is_needed_is_asked_for(referring: onnx.ModelProto, call: Callable[..., Any]) -> None:
    with pytest.raises(ExternalDataError, match="load it by its path"):
        call(referring)


@pytest.mark.parametrize("inner", ["b = Relu (a)", "c = Neg (a) b = Cast <to = 1> (c)"])
@pytest.mark.parametrize("node", ["Clip <min = -1.0> (t)", "Pad <pads = [0, 1, 0, 1], value = 2.0> (t)", "Dropout (t)"])
def test_the_types_behind_a_call_of_a_local_function(node: str, inner: str) -> None:
    text = f"""
        <ir_version: 8, opset_import: ["" : 8, "local" : 1]>
        main (float[2,4] x) => (float[2,n] y) {{ t = local.f (x) z = {node} y = Identity (z) }}
        <domain: "local", opset_import: ["" : 8]> f (a) => (b) {{ {inner} }}"""
    outcome = bnfold.upgrade(onnx.parser.parse_model(text), target_opset=15)
    assert outcome.verdict is not None
    assert outcome.verdict.verified
