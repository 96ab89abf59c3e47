"""Nodes: their attributes as Python values, and edges that both ends know of."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from bnfold import ir
from bnfold.errors import ReferenceAttribute
from bnfold.ir.node import AP, attribute_value
from tests.ir.build import info, model, weight


def single(*outputs: str, domain: str = "", **attributes: Any) -> ir.Node:
    node = helper.make_node("Op", ["x", "", "x"], list(outputs or ("y",)), domain=domain, **attributes)
    return ir.load(model([node])).graph.nodes[0]


VALUES: list[tuple[object, object]] = [
    (3, 3),
    (0, 0),
    (1.5, 1.5),
    ("täxt", "täxt"),
    ([1, -2], [1, -2]),
    ([1.5, 2.5], [1.5, 2.5]),
    (["a", "ß"], ["a", "ß"]),
]


@pytest.mark.parametrize(("given", "expected"), VALUES)
@pytest.mark.parametrize("typed", [True, False], ids=["typed", "IR version 1"])
def test_attributes_are_python_values(given: object, expected: object, typed: bool) -> None:
    attribute = helper.make_attribute("a", given)
    if not typed:
        attribute.ClearField("type")
    if given == 0 and not typed:
        pytest.skip("a zero leaves no trace but its type")
    assert attribute_value(attribute) == expected


def test_messages_are_given_as_they_are() -> None:
    tensor, graph = weight("w", 3), helper.make_graph([], "g", [], [])
    kind = helper.make_tensor_type_proto(1, [2])
    for value in (tensor, graph, kind):
        assert attribute_value(helper.make_attribute("a", value)) == value
        assert attribute_value(helper.make_attribute("a", [value, value])) == [value, value]
    assert attribute_value(AP(name="a")) == 0


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert attribute_value(AP(name="a", type=AP.STRING, s=b"\xff")) == "\ufffd"
    assert attribute_value(AP(name="a", type=AP.STRINGS, strings=[b"\xff", b"ok"])) == ["\ufffd", "ok"]


def test_setting_replaces_and_deleting_is_harmless() -> None:
    node = single(a=1, b="x")
    node.set_attr("a", [1.5])
    node.del_attr("b")
    node.del_attr("nothing")
    assert (node.attr("a"), node.attr("b", "default"), node.has_attr("b")) == ([1.5], "default", False)
    assert list(node.attrs) == ["a"]


def test_attributes_as_bytes_follow_what_is_set_and_deleted() -> None:
    node = single(a=1)
    first = node.spelled
    assert first == single(a=1).spelled
    node.set_attr("a", 2)
    assert node.spelled == single(a=2).spelled != first
    node.del_attr("a")
    assert node.spelled == ()
    node.replace_attrs(single(a=1).proto.attribute)
    assert node.spelled == first


def test_of_several_attributes_of_one_name_the_last_counts() -> None:
    node = single(alpha=0.25)
    node.proto.attribute.append(helper.make_attribute("alpha", 0.5))
    assert node.attr("alpha") == 0.5 == node.attrs["alpha"].f
    node.set_attr("alpha", 0.75)
    assert [attribute.f for attribute in node.proto.attribute] == [0.75]


def test_a_reference_is_not_a_value() -> None:
    assert not single(a=1).has_references
    node = single(a=1)
    node.proto.attribute[0].ref_attr_name = "outer"
    assert node.has_references
    with pytest.raises(ReferenceAttribute, match="'a' is a reference to the function's attribute 'outer'"):
        node.attr("a")
    assert node.attr("b", 5) == 5


def test_domains_and_labels() -> None:
    assert single(domain="ai.onnx").is_op("Op", "Other")
    assert not single(domain="custom").is_op("Op")
    assert single("", "second").label == "second"
    node = single("")
    assert node.label == "<Op>"
    node.proto.name = "named"
    assert node.name == "named"
    assert repr(node) == "Node(Op, 'named')"
    node.set_op_type("New")
    assert node.is_op("Other", "New")
    assert node.proto.op_type == "New"


def test_both_ends_know_of_an_edge() -> None:
    node = single()
    graph = node.graph
    x, k = graph.values["x"], graph.add_constant("k", np.zeros(3, np.float32))
    assert x.uses == {(node, 0): None, (node, 2): None}
    node.set_input(2, k)
    assert (list(x.uses), list(k.uses)) == ([(node, 0)], [(node, 2)])
    node.set_input(4, x)
    assert list(node.proto.input) == ["x", "", "k", "", "x"]
    node.set_input(0, None)
    assert list(x.uses) == [(node, 4)]
    node.set_inputs([k, k])
    assert list(node.proto.input) == ["k", "k"]
    assert (x.uses, list(k.uses)) == ({}, [(node, 0), (node, 1)])
    assert x.consumers == []
    assert k.consumers == [node, node]


def test_outputs_are_made_by_one_node() -> None:
    node = single("y", "z")
    graph = node.graph
    other = graph.fresh("other")
    lost = graph.values["z"]
    node.set_output(1, other)
    assert (lost.producer, "z" in graph.values) == (None, False)
    assert (other.producer, other.slot) == (node, 1)
    node.trim_outputs(1)
    assert list(node.proto.output) == ["y"]
    assert other.producer is None


def test_subgraphs_are_found_by_attribute() -> None:
    body = helper.make_graph([helper.make_node("Abs", ["x"], ["b"])], "b", [], [info("b", "N")])
    node = single(one=body, many=[body, body])
    assert {name: [graph.path for graph in graphs] for name, graphs in node.subgraphs.items()} == {
        "one": ["y.one"],
        "many": ["y.many[0]", "y.many[1]"],
    }
    assert node.subgraphs["many"][1].parent is node


def test_a_node_says_what_it_is() -> None:
    assert repr(single()) == "Node(Op, 'y')"
    assert isinstance(single().proto, onnx.NodeProto)
