"""Edits of a graph: what they leave in the index, and what in the message after `sync`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from bnfold import analysis, ir
from bnfold.ir.graph import opset_of
from tests.ir.build import info, model, weight


def relu_chain(length: int = 3, **more: Any) -> ir.Model:
    """``x → v0 → v1 → … → y``."""
    names = ["x", *(f"v{index}" for index in range(length - 1)), "y"]
    nodes = [helper.make_node("Relu", [names[i]], [names[i + 1]], name=f"r{i}") for i in range(length)]
    return ir.load(model(nodes, **more))


def consistent(loaded: ir.Model) -> onnx.ModelProto:
    """The synced message, after holding the index against one built anew from it."""
    loaded.sync()
    again = ir.load(loaded.proto)
    for graph, other in zip(loaded.graphs(), again.graphs(), strict=True):
        assert [node.op_type for node in graph.nodes] == [node.op_type for node in other.nodes]
        for node, twin in zip(graph.nodes, other.nodes, strict=True):
            assert [value and value.name for value in node.inputs] == [value and value.name for value in twin.inputs]
            assert [value and value.name for value in node.outputs] == [value and value.name for value in twin.outputs]
            assert not node.removed
            assert node.graph is graph
        live = {name for name, value in graph.values.items() if value.producer or value.uses or value.is_output}
        assert live <= set(other.values)
        for name in live:
            mine, theirs = graph.values[name], other.values[name]
            assert _uses(mine) == _uses(theirs), name
            assert mine.is_output == theirs.is_output, name
            assert (mine.producer and mine.producer.label) == (theirs.producer and theirs.producer.label)
            assert mine.is_initializer == theirs.is_initializer
    return loaded.proto


def _uses(value: ir.Value) -> list[tuple[str, int]]:
    return sorted((node.label, slot) for node, slot in value.uses)


def names(loaded: ir.Model) -> list[str]:
    return [node.name for node in loaded.graph.nodes]


# -- inserting


def test_before_and_after_a_node() -> None:
    loaded = relu_chain()
    graph = loaded.graph
    middle = graph.nodes[1]
    graph.insert("Abs", [graph.values["x"]], ["a"], before=middle, name="b1")
    graph.insert("Abs", [graph.values["x"]], ["a"], before=middle, name="b2")
    graph.insert("Abs", [graph.values["x"]], ["a"], after=middle, name="a1")
    graph.insert("Abs", [graph.values["x"]], ["a"], after=middle, name="a2")
    graph.insert("Abs", [graph.values["x"]], ["a"], name="end")
    assert names(loaded) == ["r0", "b1", "b2", "r1", "a2", "a1", "r2", "end"]
    assert {"a", "a_1", "a_2", "a_3", "a_4"} <= set(graph.values)
    assert [node.name for node in consistent(loaded).graph.node] == names(loaded)


def test_beside_nodes_that_are_not_placed_yet() -> None:
    loaded = relu_chain()
    graph, x = loaded.graph, loaded.graph.values["x"]
    first = graph.insert("Abs", [x], ["a"], before=graph.nodes[1], name="p")
    graph.insert("Abs", [x], ["a"], before=first, name="before p")
    graph.insert("Abs", [x], ["a"], after=first, name="after p")
    last = graph.insert("Abs", [x], ["a"], name="end")
    graph.insert("Abs", [x], ["a"], before=last, name="before end")
    follower = graph.insert("Abs", [x], ["a"], after=graph.nodes[-1], name="behind")
    graph.insert("Abs", [x], ["a"], after=follower, name="behind that")
    assert names(loaded) == ["r0", "before p", "p", "after p", "r1", "r2", "before end", "end", "behind", "behind that"]
    consistent(loaded)


def test_beside_a_node_removed_a_moment_ago() -> None:
    loaded = relu_chain()
    graph = loaded.graph
    old = graph.nodes[1]
    made = old.outputs[0]
    assert made is not None
    graph.insert("Abs", [graph.values["v0"]], [made], before=old, name="new")
    graph.remove(old)
    graph.insert("Neg", [graph.values["x"]], ["n"], after=old, name="late")
    assert names(loaded) == ["r0", "new", "late", "r2"]
    assert made.producer is graph.nodes[1]
    consistent(loaded)


def test_beside_a_node_long_gone_is_an_error() -> None:
    loaded = relu_chain()
    graph = loaded.graph
    old = graph.nodes[2]
    graph.remove(old)
    assert names(loaded) == ["r0", "r1"]
    graph.insert("Abs", [graph.values["x"]], ["a"], before=old)
    with pytest.raises(ValueError, match="not in this graph"):
        _ = graph.nodes


def test_omitted_inputs_and_outputs() -> None:
    loaded = relu_chain()
    graph = loaded.graph
    node = graph.insert("Clip", [graph.values["x"], None, graph.values["v0"]], [None, "second"], min=1, domain="d")
    assert list(node.proto.input) == ["x", "", "v0"]
    assert list(node.proto.output) == ["", "second"]
    assert (node.input(1), node.input(7), node.output(0), node.output(7)) == (None, None, None, None)
    assert (node.domain, node.attr("min")) == ("d", 1)
    consistent(loaded)


def test_editing_while_iterating() -> None:
    loaded = relu_chain(5)
    for node in loaded.graph.nodes:
        loaded.graph.insert("Abs", [loaded.graph.values["x"]], ["a"], after=node, name=f"after {node.name}")
        if node.name == "r1":
            source, made = node.inputs[0], node.outputs[0]
            assert source is not None
            assert made is not None
            made.replace_uses(source)
            loaded.graph.remove(node)
    assert names(loaded) == ["r0", "after r0", "after r1", "r2", "after r2", "r3", "after r3", "r4", "after r4"]
    consistent(loaded)


# -- removing, names


def test_a_removed_node_takes_its_annotations_along() -> None:
    loaded = relu_chain(value_info=[info("v0", 3), info("v1", 4)])
    graph = loaded.graph
    last = graph.nodes[2]
    last.set_input(0, graph.values["v0"])
    graph.remove(graph.nodes[1])
    proto = consistent(loaded)
    assert [value.name for value in proto.graph.value_info] == ["v0"]
    assert "v1" not in graph.values
    assert loaded.fresh_name("v1") == "v1_1"  # the name is not given to another value


def test_a_value_handed_from_one_node_to_another_keeps_its_annotation() -> None:
    for new_first in (True, False):
        loaded = relu_chain(value_info=[info("v0", 3)])
        graph = loaded.graph
        old, value = graph.nodes[0], graph.values["v0"]
        if not new_first:
            graph.remove(old)
        new = graph.insert("Abs", [graph.values["x"]], [value], before=old, name="new")
        if new_first:
            graph.remove(old)
        assert value.producer is new
        assert graph.values["v0"] is value
        proto = consistent(loaded)
        assert [entry.name for entry in proto.graph.value_info] == ["v0"]
        assert value.shape == (3,)


def test_renaming_takes_readers_and_annotations_along() -> None:
    branch = helper.make_graph([helper.make_node("Abs", ["v0"], ["b"])], "branch", [], [info("b", "N")])
    nodes = [
        helper.make_node("Relu", ["x"], ["v0"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    loaded = ir.load(model(nodes, inputs=["x", "c"], value_info=[info("v0", 3)]))
    graph = loaded.graph
    graph.rename(graph.values["v0"], "w0")
    graph.rename(graph.values["w0"], "z0")
    proto = consistent(loaded)
    assert [entry.name for entry in proto.graph.value_info] == ["z0"]
    assert graph.values["z0"].shape == (3,)
    assert [list(attribute.g.node[0].input) for attribute in proto.graph.node[1].attribute] == [["z0"], ["z0"]]
    assert loaded.fresh_name("v0") != "v0"


def test_names_may_be_passed_around_in_a_circle() -> None:
    infos = [info("v0", 3), info("v1", 4), info("v2", 5)]
    loaded = relu_chain(4, value_info=infos)
    graph = loaded.graph
    first, second, third = (graph.values[name] for name in ("v0", "v1", "v2"))
    graph.rename(first, "spare")
    graph.rename(second, "v0")
    graph.rename(third, "v1")
    graph.rename(first, "v2")
    proto = consistent(loaded)
    shapes = {entry.name: entry.type.tensor_type.shape.dim[0].dim_value for entry in proto.graph.value_info}
    assert shapes == {"v2": 3, "v0": 4, "v1": 5}


def test_a_name_taken_over_from_a_value_that_is_gone() -> None:
    loaded = relu_chain(4, value_info=[info("v0", 3), info("v1", 4)])
    graph = loaded.graph
    first, second = graph.values["v0"], graph.values["v1"]
    graph.nodes[2].set_input(0, first)
    graph.remove(graph.nodes[1])
    assert second.producer is None
    graph.rename(first, "v1")
    proto = consistent(loaded)
    assert [(entry.name, entry.type.tensor_type.shape.dim[0].dim_value) for entry in proto.graph.value_info] == [
        ("v1", 3)
    ]


@pytest.mark.parametrize("name", ["x", "y", "w"])
def test_names_of_the_interface_are_not_for_renaming(name: str) -> None:
    loaded = ir.load(model([helper.make_node("Add", ["x", "w"], ["y"])], [weight("w", 3)]))
    with pytest.raises(ValueError, match="cannot be renamed"):
        loaded.graph.rename(loaded.graph.values[name], "new")


def test_removing_a_node_with_subgraphs_lets_go_of_what_they_captured() -> None:
    inner = helper.make_graph([helper.make_node("Add", ["v", "w"], ["b"])], "inner", [], [info("b", "N")])
    passing = helper.make_graph([], "passing", [], [info("v", "N")])
    nodes = [
        helper.make_node("Relu", ["x"], ["v"]),
        helper.make_node("If", ["c"], ["i"], then_branch=inner, else_branch=passing),
        helper.make_node("Abs", ["v"], ["y"]),
    ]
    loaded = ir.load(model(nodes, [weight("w", 3)], inputs=["x", "c"]))
    graph = loaded.graph
    captured = graph.values["v"]
    assert captured.output_slots == 1
    assert {node.op_type for node in captured.consumers} == {"Add", "Abs"}
    graph.remove(graph.nodes[1])
    assert captured.output_slots == 0
    assert [node.op_type for node in captured.consumers] == ["Abs"]
    assert loaded.remove_dead_nodes() == ["w"]
    proto = consistent(loaded)
    assert not proto.graph.initializer


# -- initializers


def test_a_new_constant_is_an_initializer() -> None:
    loaded = relu_chain()
    value = loaded.graph.add_constant("v0", np.arange(6, dtype=np.float32).reshape(2, 3))
    assert (value.name, value.dtype, value.shape) == ("v0_1", 1, (2, 3))
    proto = consistent(loaded)
    np.testing.assert_array_equal(numpy_helper.to_array(proto.graph.initializer[0]), [[0, 1, 2], [3, 4, 5]])


def test_a_new_constant_of_a_function_is_a_node_in_front() -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])]
    proto = model([helper.make_node("f", ["x"], ["y"], domain="d")])
    proto.functions.append(helper.make_function("d", "f", ["a"], ["b"], body, [helper.make_opsetid("", 15)]))
    for size in (5, 5000):
        loaded = ir.load(proto)
        (function,) = loaded.functions
        value = function.add_constant("k", np.arange(size, dtype=np.float32))
        function.nodes[1].set_input(0, value)
        assert function.nodes[0].op_type == "Constant"
        tensor = analysis.constant(value)
        assert tensor is not None
        assert tensor.dims == (size,)
        loaded.sync()
        (read,) = ir.load(ir.load(loaded_bytes(loaded)).proto).functions
        assert [node.op_type for node in read.nodes] == ["Constant", "Relu"]
        constant = onnx.ModelProto.FromString(loaded_bytes(loaded)).functions[0].node[0].attribute[0].t
        np.testing.assert_array_equal(numpy_helper.to_array(constant), np.arange(size))


def loaded_bytes(loaded: ir.Model) -> bytes:
    from bnfold.ir.storage.save import encode

    return encode(loaded)


def test_an_initializer_that_is_an_input_too_stays_an_input() -> None:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [weight("w", 3)], inputs=["x", "w"])
    loaded = ir.load(proto)
    value = loaded.graph.values["w"]
    assert value.is_input
    assert value.is_initializer
    loaded.graph.remove_initializers([value])
    assert loaded.graph.values["w"] is value
    assert not loaded.graph.values["w"].is_initializer
    synced = consistent(loaded)
    assert [entry.name for entry in synced.graph.input] == ["x", "w"]
    assert not synced.graph.initializer


def test_a_removed_initializer_with_a_new_tensor_is_gone() -> None:
    loaded = ir.load(model([helper.make_node("Abs", ["x"], ["y"])], [weight("w", 3), weight("v", 4)]))
    value = loaded.graph.values["w"]
    value.tensor = ir.Exact(1, np.arange(3.0))
    loaded.graph.remove_initializers([value])
    assert [tensor.name for tensor in consistent(loaded).graph.initializer] == ["v"]


def test_a_constant_under_the_name_of_one_removed_before() -> None:
    """Two messages of one name exist until `sync`; the right one goes."""
    loaded = ir.load(model([helper.make_node("Add", ["x", "w"], ["y"])], [weight("w", 3)]))
    graph = loaded.graph
    old = graph.values["w"]
    new = graph.add_constant("w", np.arange(5, dtype=np.float32))
    graph.nodes[0].set_input(1, new)
    graph.remove_initializers([old])
    assert new.name == "w_1"
    proto = consistent(loaded)
    assert [(tensor.name, list(tensor.dims)) for tensor in proto.graph.initializer] == [("w_1", [5])]


# -- versions


def test_versions_of_domains() -> None:
    imports = [helper.make_opsetid("ai.onnx", 9), helper.make_opsetid("", 11), helper.make_opsetid("com", 3)]
    assert [opset_of(imports, domain) for domain in ("", "ai.onnx", "com", "other")] == [11, 11, 3, 0]
    assert opset_of([], "") == 1
    body = helper.make_graph([helper.make_node("Abs", ["x"], ["b"])], "b", [], [info("b", "N")])
    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)], inputs=["x", "c"], opset=11
    )
    loaded = ir.load(proto)
    assert {graph.opset() for graph in loaded.graphs()} == {11}


# -- any edits


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_edits_leave_index_and_message_in_step(data: st.DataObject) -> None:
    loaded = relu_chain(4, value_info=[info(f"v{index}", index + 2) for index in range(3)])
    graph = loaded.graph
    for step in range(data.draw(st.integers(1, 8))):
        nodes = graph.nodes
        node = data.draw(st.sampled_from(nodes))
        edit = data.draw(st.sampled_from(["insert", "bypass", "rename", "constant", "sync", "take over"]))
        made, source = node.outputs[0], node.inputs[0]
        assert made is not None
        assert source is not None
        if edit == "insert":
            side = data.draw(st.sampled_from(["before", "after"]))
            where = {side: node}
            graph.insert("Abs", [source], [f"n{step}"], name=f"n{step}", **where)  # type: ignore[arg-type]
        elif edit == "bypass" and not made.is_output and made.name.startswith("v"):
            made.replace_uses(source)
            graph.remove(node)
        elif edit == "rename" and not made.is_output:
            graph.rename(made, loaded.fresh_name(data.draw(st.sampled_from(["v0", "v1", "r"]))))
        elif edit == "constant":
            node.set_input(0, graph.add_constant("k", np.zeros(2, np.float32)))
        elif edit == "take over":
            graph.insert("Neg", [source], [made], before=node, name=f"t{step}")
            graph.remove(node)
        else:
            consistent(loaded)
    annotated = {value.name for value in consistent(loaded).graph.value_info}
    assert annotated <= {name for node in loaded.graph.nodes for name in node.proto.output}
