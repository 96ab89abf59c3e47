"""The frame around the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.converting import convert as upgrade
from bnfold.converting import imports
from bnfold.errors import MalformedModel
from bnfold.ir.schemas import newest_opset

Converted = Callable[..., Any]
Text = Callable[..., str]
FLOAT = TensorProto.FLOAT


@pytest.mark.parametrize("written", [[], [("", 1), ("", 1)], [("ai.onnx", 1)], [("", 1), ("ai.onnx", 1)]])
def test_opset_imports_of_every_habit(text: Text, written: list[tuple[str, int]]) -> None:
    proto = onnx.parser.parse_model(text(1, "float[2, 3] x", "y = Relu <consumed_inputs = [0]> (x)"))
    del proto.opset_import[:]
    proto.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in written)
    model = ir.load(proto)
    report = upgrade(model)
    assert (report.before, report.after) == (1, 15)
    domains = dict.fromkeys(domain for domain, _ in written or [("", 1)])
    assert [(entry.domain, entry.version) for entry in model.proto.opset_import] == [(name, 15) for name in domains]


def test_the_other_spelling_on_nodes_is_kept(text: Text) -> None:
    proto = onnx.parser.parse_model(text(9, "float[2, 3] x", "p = ai.onnx.Unsqueeze <axes = [0]> (x) y = Relu (p)"))
    model = ir.load(proto)
    assert len(upgrade(model).changes) == 1
    model.sync()
    assert [node.domain for node in model.proto.graph.node] == ["ai.onnx", ""]


@pytest.mark.parametrize(
    ("opset", "target", "ir_before", "ir_after"),
    [(6, 15, 3, 8), (6, 9, 3, 4), (6, 11, 4, 6), (15, 15, 8, 8), (9, 15, 10, 8), (15, 21, 8, 10), (15, 19, 8, 9)],
)
def test_ir_version_is_what_the_opset_came_with(
    upgraded: Converted, text: Text, opset: int, target: int, ir_before: int, ir_after: int
) -> None:
    model = upgraded(text(opset, "float[2, 3] x", "y = Relu (x)", ir=ir_before), target).model
    assert model.proto.ir_version == ir_after


def weighted(ir_version: int, *, listed: bool) -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    inputs = [helper.make_tensor_value_info("x", FLOAT, (2, 3, 4))]
    inputs += [helper.make_tensor_value_info("w", FLOAT, (3,))] * listed
    node = helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=1)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=ir_version)


@pytest.mark.parametrize("listed", [True, False])
def test_initializers_of_early_ir_versions_are_constants(upgraded: Converted, listed: bool) -> None:
    outcome = upgraded(weighted(3, listed=listed))
    assert [value.name for value in outcome.model.graph.inputs] == ["x"]
    assert outcome.ops == ["Add"]


def test_overridable_initializers_stay_inputs(upgraded: Converted) -> None:
    outcome = upgraded(weighted(4, listed=True))
    assert [value.name for value in outcome.model.graph.inputs] == ["x", "w"]
    assert outcome.ops == ["Reshape", "Add"]


def test_target() -> None:
    assert imports.resolve_target(6, None) == 15
    assert imports.resolve_target(17, None) == 17
    assert imports.resolve_target(17, 13) == 13
    assert imports.resolve_target(6, newest_opset()) == newest_opset()


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [("ints", [1, 2], "INTS"), ("f", 0.5, "FLOAT"), ("s", b"x", "STRING"), ("i", 3, "INT"), (None, None, "INTS")],
)
def test_attribute_types_are_told_by_the_field_or_the_operator(field: str | None, value: object, kind: str) -> None:
    node = onnx.NodeProto(op_type="Conv", input=["x", "w"], output=["y"])
    attribute = node.attribute.add(name="pads")
    if isinstance(value, list):
        attribute.ints.extend(value)
    elif field is not None:
        setattr(attribute, field, value)
    graph = onnx.helper.make_graph([node], "g", [], [onnx.helper.make_tensor_value_info("y", 1, None)])
    model = ir.load(onnx.ModelProto(ir_version=1, graph=graph))
    imports.state_attribute_types(model)
    assert onnx.AttributeProto.AttributeType.Name(model.graph.nodes[0].proto.attribute[0].type) == kind


def test_imports_that_contradict_each_other_become_the_highest() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "ai.onnx" : 15]> g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }'
    )
    outcome = bnfold.fold(proto)
    assert {entry.version for entry in outcome.to_proto().opset_import} == {15}
    assert [repair.kind for repair in outcome.report.repairs] == ["opset-imports"]
    proto.opset_import[1].version = 2**31 - 1
    with pytest.raises(MalformedModel, match="all at once"):
        bnfold.fold(proto)


@pytest.mark.parametrize(("target", "ir_version"), [(17, 8), (15, 8), (13, 7), (11, 6), (10, 5), (9, 4), (8, 4)])
def test_the_ir_version_goes_down_with_the_opset(text: Text, target: int, ir_version: int) -> None:
    model = ir.load(onnx.parser.parse_model(text(18, "float[2, 3] x", "y = Relu (x)", ir=10)))
    model.proto.metadata_props.add(key="a", value="b")
    upgrade(model, target)
    assert model.proto.ir_version == ir_version
    assert model.proto.metadata_props[0].value == "b"


def test_the_ir_version_keeps_what_the_file_uses(text: Text) -> None:
    versions: dict[tuple[str, int], int] = onnx.helper.OP_SET_ID_VERSION_MAP
    needs = {("my", 4): 4, ("ai.onnx.training", 1): versions["ai.onnx.training", 1], ("ai.onnx.ml", 4): 4}
    for (domain, version), needed in needs.items():  # that of ai.onnx.ml goes down with the opset
        proto = onnx.parser.parse_model(text(18, "float[2, 3] x", f"y = Relu (x) z = {domain}.Normalizer (x)", ir=11))
        del proto.opset_import[1:]
        proto.opset_import.add(domain=domain, version=version)
        model = ir.load(proto)
        upgrade(model, 9)
        assert model.proto.ir_version == needed
    source = text(18, "float[2, 3] x, float8e4m3fn[2] q", "y = Relu (x) z = my.Op (q)", outputs="float[] y", ir=11)
    model = ir.load(onnx.parser.parse_model(source))
    upgrade(model, 9)
    assert model.proto.ir_version == 9


UNREAD = {"ai.onnx.ml": 5, "com.microsoft": 1, "own": 1}


def of_onnxruntime(text: Text) -> onnx.ModelProto:
    """As onnxruntime writes models: every domain that it knows is imported."""
    proto = onnx.parser.parse_model(text(9, "float[2, 3] x", "y = Relu (x)"))
    proto.ir_version = 4
    proto.opset_import.extend(helper.make_opsetid(*entry) for entry in UNREAD.items())
    return proto


@pytest.mark.parametrize(("ir_version", "opset", "expected"), [("auto", 11, 6), ("keep", 11, 4), (4, 9, 4)])
def test_imports_that_no_node_needs_raise_no_ir_version(text: Text, ir_version: Any, opset: int, expected: int) -> None:
    outcome = bnfold.convert(of_onnxruntime(text), opset=opset, ir_version=ir_version)
    made = outcome.to_proto()
    assert outcome.verified
    assert (made.ir_version, [*made.opset_import]) == (expected, [helper.make_opsetid("", opset)])
    (note,) = (repair.text for repair in outcome.report.repairs)
    assert note == "imports that no node needs are gone: ai.onnx.ml, com.microsoft, own"


def test_an_import_that_a_body_or_a_function_needs_stays(text: Text) -> None:
    proto = of_onnxruntime(text)
    call = helper.make_node("Call", ["x"], ["z"], domain="own")
    inside = [helper.make_node("Scaler", ["a"], ["b"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0])]
    versions = [helper.make_opsetid("ai.onnx.ml", 5)]
    proto.functions.append(helper.make_function("own", "Call", ["a"], ["b"], inside, versions))
    proto.ir_version = 8
    proto.graph.node.append(call)
    model = ir.load(proto)
    assert imports.unread_imports(model) == {"com.microsoft"}
    model.proto.training_info.add()
    assert imports.unread_imports(model) == set()


def test_a_body_reads_a_sparse_weight_of_the_graph_around_it() -> None:
    weight = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1, 2], np.float32), "s"), numpy_helper.from_array(np.array([0, 2])), [3]
    )
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Add", ["x", "s"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, FLOAT, [2, 3])],
        )
        for name in ("then", "else")
    }
    infos = [
        helper.make_tensor_value_info("x", FLOAT, [2, 3]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    result = helper.make_tensor_value_info("y", FLOAT, [2, 3])
    choice = helper.make_node("If", ["c"], ["y"], **branches)
    graph = helper.make_graph([choice], "g", infos, [result], sparse_initializer=[weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert bnfold.convert(proto, opset=13).verified


@pytest.mark.parametrize("opset", [21, 17, 13, 9])
def test_a_normalization_in_a_function_goes_down(opset: int) -> None:
    """What it takes to lower it is known of the call alone."""
    text = """<ir_version: 10, opset_import: ["" : 22, "own" : 1]>
        g (float[2,3,4] x, float[3] s, float[3] b) => (float[2,3,4] y) { y = own.F (x, s, b) }
        <domain: "own", opset_import: ["" : 22]> F (p, q, r) => (o) { o = InstanceNormalization (p, q, r) }"""
    assert bnfold.convert(onnx.parser.parse_model(text), opset=opset).verified


@pytest.mark.parametrize("attribute", ["strides: ints = @size", "group: int = @size"])
def test_the_work_of_a_transposed_convolution_in_a_function_is_counted(attribute: str) -> None:
    """Its attributes are known of the call alone."""
    size, width = ("[2, 2]", 2) if "strides" in attribute else ("2", 1)
    text = f"""<ir_version: 8, opset_import: ["" : 13, "own" : 1]>
        g (float[1,2,5,6] x, float[2,{width},3,3] w) => (float[a,b,c,d] y, float[1,2,5,6] z) {{
            y = own.F <size = {size}> (x, w)  z = Softmax <axis = 1> (x) }}
        <domain: "own", opset_import: ["" : 13]> F <size> (p, q) => (o) {{ o = ConvTranspose <{attribute}> (p, q) }}"""
    assert bnfold.convert(onnx.parser.parse_model(text), opset=12).verified
