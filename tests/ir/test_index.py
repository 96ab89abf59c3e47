"""The index over strange but legal graphs, and over some that are not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import analysis, ir
from bnfold.errors import MalformedModel
from tests.ir.build import everywhere, info, model, weight


def test_outputs_may_be_inputs_or_initializers_or_doubled() -> None:
    graph = ir.load(model([], [weight("w", 3)], outputs=["x", "w", "x"])).graph
    assert graph.values["x"].is_input
    assert graph.values["x"].output_slots == 2
    assert graph.values["w"].is_output
    assert [value.name for value in graph.outputs] == ["x", "w", "x"]


def test_names_may_be_anything() -> None:
    strange = ["", " ", "\n", "ü/ñ:💥", "x" * 10_000, "__proto__"]
    for name in strange[1:]:
        graph = ir.load(model([helper.make_node("Abs", [name], ["y"], name="same")] * 1, inputs=[name])).graph
        assert graph.nodes[0].inputs == [graph.values[name]]
    graph = ir.load(model([helper.make_node("Op", ["", "x", ""], ["", "y", ""])])).graph
    assert graph.nodes[0].inputs == [None, graph.values["x"], None]
    assert graph.nodes[0].outputs == [None, graph.values["y"], None]


@pytest.mark.parametrize("name", ["made", "read", "given", "stored", "Operator", "domain"])
def test_a_name_that_is_no_text_is_refused(name: str) -> None:
    """Protobuf lets it pass, and gives bytes."""
    nodes = [helper.make_node("Operator", ["given", "stored", "read"], ["made"], domain="domain")]
    data = model(nodes, [weight("stored", 3)], inputs=["given"], outputs=["made"]).SerializeToString()
    with pytest.raises(MalformedModel, match="not UTF-8"):
        ir.load(data.replace(name.encode(), b"\xff" * len(name)))


def test_a_node_may_be_called_anything() -> None:
    """Also what is no text: nothing depends on it, but annotations beside it have to stay as they are."""
    nodes = [helper.make_node("Abs", ["x"], ["v"], name="called"), helper.make_node("Neg", ["x"], ["y"])]
    proto = model(nodes, value_info=[info("v", 3), info("strange", 3)])
    data = proto.SerializeToString().replace(b"called", b"c\xff\xffled").replace(b"strange", b"str\xffnge")
    loaded = ir.load(data)
    assert loaded.graph.nodes[0].label == "c\ufffd\ufffdled"
    loaded.graph.remove(loaded.graph.nodes[0])
    loaded.sync()
    assert b"str\xffnge" in loaded.proto.SerializeToString()


def test_a_value_nobody_makes_is_a_value() -> None:
    """Such a model runs nowhere, but it is not for the index to say so."""
    value = ir.load(model([helper.make_node("Abs", ["nobody"], ["y"])])).graph.values["nobody"]
    assert value.producer is None
    assert not value.is_input
    assert len(value.uses) == 1


def test_nodes_may_stand_before_what_they_read() -> None:
    nodes = [helper.make_node("Abs", ["v"], ["y"]), helper.make_node("Neg", ["x"], ["v"])]
    graph = ir.load(model(nodes)).graph
    assert graph.values["v"].producer is graph.nodes[1]
    assert graph.values["v"].consumers == [graph.nodes[0]]


def test_a_captured_read_is_known_to_the_outer_value() -> None:
    deepest = helper.make_graph([helper.make_node("Add", ["x", "b"], ["z"])], "deepest", [], [info("z", "N")])
    nodes = [
        helper.make_node("Abs", ["x"], ["b"]),
        helper.make_node("If", ["c"], ["i"], then_branch=deepest, else_branch=deepest),
    ]
    branch = helper.make_graph(nodes, "branch", [], [info("i", "N")])
    shadow = helper.make_graph([helper.make_node("Abs", ["q"], ["x"])], "shadow", [], [info("x", "N")])
    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=shadow)], inputs=["x", "c", "q"]
    )
    loaded = ir.load(proto)
    x = loaded.graph.values["x"]
    assert sorted((node.op_type, node.graph.path) for node in x.consumers) == [
        ("Abs", "y.then_branch"),
        ("Add", "y.then_branch/i.else_branch"),
        ("Add", "y.then_branch/i.then_branch"),
    ]
    (inner,) = loaded.graph.nodes[0].subgraphs["else_branch"]
    assert inner.outputs == [inner.values["x"]]
    assert inner.values["x"] is not x
    assert not x.is_output


def test_an_outer_value_may_be_the_output_of_a_branch() -> None:
    branch = helper.make_graph([], "branch", [], [info("v", "N")])
    nodes = [helper.make_node("Abs", ["x"], ["v"]), helper.make_node("If", ["c"], ["y"], then_branch=branch)]
    graph = ir.load(model(nodes, inputs=["x", "c"])).graph
    assert graph.values["v"].is_output


def test_paths_of_subgraphs_are_unique_whatever_nodes_are_called() -> None:
    body = helper.make_graph([helper.make_node("Abs", ["x"], ["b"])], "b", [], [info("b", "N")])
    nodes = [helper.make_node("If", ["c"], [name], name="If_1", then_branch=body, else_branch=body) for name in "uvwy"]
    paths = [graph.path for graph in ir.load(model(nodes, inputs=["x", "c"])).graphs()]
    assert len(set(paths)) == len(paths) == 9


def test_functions_differ_by_overload() -> None:
    proto = model([helper.make_node("f", ["x"], ["y"], domain="d")])
    for overload in ("", "second"):
        body = [helper.make_node("Abs", ["a"], ["b"])]
        function = helper.make_function("d", "f", ["a"], ["b"], body, [helper.make_opsetid("", 15)], overload=overload)
        proto.functions.append(function)
    assert [function.path for function in ir.load(proto).functions] == ["d::f", "d::f:second"]


def test_a_body_without_type_is_found_in_files_of_ir_version_1() -> None:
    body = helper.make_graph([helper.make_node("Abs", ["x"], ["b"])], "b", [], [info("b", "N")])
    proto = model([helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)], inputs=["x", "c"])
    for attribute in proto.graph.node[0].attribute:
        attribute.ClearField("type")
    assert len(list(ir.load(proto).graphs())) == 3


def test_a_sparse_initializer_is_a_value_without_a_maker() -> None:
    loaded = ir.load(everywhere())
    value = loaded.graph.values["thin"]
    assert (value.producer, value.is_input, value.is_initializer) == (None, False, False)
    assert analysis.constant(value) is None


def test_a_sparse_initializer_may_be_the_default_of_an_input() -> None:
    proto = model([helper.make_node("Abs", ["thin"], ["y"])], inputs=["thin"])
    proto.graph.sparse_initializer.append(everywhere().graph.sparse_initializer[0])
    value = ir.load(proto).graph.values["thin"]
    assert value.is_input
    assert analysis.constant(value) is None


def _doubled(kind: str) -> onnx.ModelProto:
    proto = model([helper.make_node("Abs", ["x"], ["y"])], [weight("w", 3)])
    if kind == "initializer":
        proto.graph.initializer.append(weight("w", 4))
    elif kind == "sparse":
        sparse = everywhere().graph.sparse_initializer[0]
        sparse.values.name = "w"
        proto.graph.sparse_initializer.append(sparse)
    elif kind == "input":
        proto.graph.input.append(proto.graph.input[0])
    elif kind == "output of a node":
        proto.graph.node.append(helper.make_node("Split", ["x"], ["a", "a"]))
    elif kind == "node and input":
        proto.graph.node.append(helper.make_node("Neg", ["y"], ["x"]))
    elif kind == "node and initializer":
        proto.graph.node.append(helper.make_node("Neg", ["y"], ["w"]))
    return proto


@pytest.mark.parametrize(
    "kind", ["initializer", "sparse", "input", "output of a node", "node and input", "node and initializer"]
)
def test_a_name_with_two_makers_is_refused(kind: str) -> None:
    with pytest.raises(MalformedModel, match=r"(made|stored) twice"):
        ir.load(_doubled(kind))


def test_values_of_ten_thousand_nodes_are_found() -> None:
    """Deep graphs are no deep recursion."""
    names = ["x", *(f"v{index}" for index in range(9_999)), "y"]
    nodes = [helper.make_node("Abs", [names[index]], [names[index + 1]]) for index in range(10_000)]
    graph = ir.load(model(nodes)).graph
    assert len(graph.nodes) == 10_000
    assert graph.values["v5000"].producer is graph.nodes[5000]


def test_numbers_of_a_constant_are_read_through_the_index() -> None:
    proto = everywhere()
    loaded = ir.load(proto)
    constant = analysis.constant(loaded.graph.values["k"])
    assert constant is not None
    np.testing.assert_array_equal(constant.numpy(), numpy_helper.to_array(proto.graph.node[0].attribute[0].t))
