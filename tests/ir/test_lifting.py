"""Constant nodes become initializers, and mean what they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from bnfold import analysis, ir
from bnfold.ir.lifting import lift_constants
from tests.ir.build import LARGE, info, model, weight, written


def constant(name: str = "k", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], name=f"constant_{name}", **(attributes or {"value_float": 1.5}))


def lifted(proto: onnx.ModelProto, path: Path) -> tuple[int, onnx.ModelProto]:
    loaded = ir.load(proto)
    count = lift_constants(loaded)
    return count, written(loaded, path / "out.onnx")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": weight("", 3)}, numpy_helper.to_array(weight("", 3))),
        ({"value": weight("other", LARGE)}, numpy_helper.to_array(weight("other", LARGE))),
        ({"value": weight("", 3, dtype=np.float16)}, numpy_helper.to_array(weight("", 3, dtype=np.float16))),
        ({"value": numpy_helper.from_array(np.array([True, False]))}, np.array([True, False])),
        ({"value": helper.make_tensor("", TensorProto.FLOAT, [2], [1.5, 2.5])}, np.array([1.5, 2.5], np.float32)),
        ({"value": numpy_helper.from_array(np.array(["a", "bc"], object))}, np.array(["a", "bc"], object)),
        ({"value_float": 1.5}, np.array(1.5, np.float32)),
        ({"value_floats": [1.5, 2.5]}, np.array([1.5, 2.5], np.float32)),
        ({"value_int": -3}, np.array(-3)),
        ({"value_ints": [1, 2**40]}, np.array([1, 2**40])),
        ({"value_string": "text"}, np.array("text", object)),
        ({"value_strings": ["a", "bc"]}, np.array(["a", "bc"], object)),
    ],
)
def test_every_literal(attributes: dict[str, Any], expected: np.ndarray[Any, Any], tmp_path: Path) -> None:
    proto = model([constant(**attributes), helper.make_node("Identity", ["k"], ["y"])], inputs=[])
    proto.graph.output[0].type.CopyFrom(
        helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(expected.dtype), expected.shape)
    )
    count, made = lifted(proto, tmp_path)
    assert count == 1
    assert [node.op_type for node in made.graph.node] == ["Identity"]
    (stored,) = made.graph.initializer
    assert stored.name == "k"
    onnx.checker.check_model(made, full_check=True)
    array = numpy_helper.to_array(stored)
    assert array.shape == expected.shape
    assert array.tolist() == expected.tolist()
    assert array.dtype == expected.dtype
    for before, after in zip(
        ReferenceEvaluator(proto).run(None, {}), ReferenceEvaluator(made).run(None, {}), strict=True
    ):
        np.testing.assert_array_equal(after, before)


def test_many_readers_and_other_initializers_stay(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "k"], ["a"]),
        constant(value=weight("", LARGE)),
        helper.make_node("Mul", ["a", "k"], ["b"]),
        helper.make_node("Sub", ["b", "w"], ["y"]),
    ]
    count, made = lifted(model([nodes[1], nodes[0], *nodes[2:]], [weight("w", 3)]), tmp_path)
    assert count == 1
    assert [tensor.name for tensor in made.graph.initializer] == ["w", "k"]
    assert [node.op_type for node in made.graph.node] == ["Add", "Mul", "Sub"]


def test_annotations_stay_if_they_say_the_same(tmp_path: Path) -> None:
    nodes = [constant(), constant("m"), helper.make_node("Sum", ["x", "k", "m"], ["y"])]
    proto = model(nodes, value_info=[info("k"), info("m", 7)])
    _, made = lifted(proto, tmp_path)
    assert [value.name for value in made.graph.value_info] == ["k"]


def branches(*names: str) -> onnx.ModelProto:
    """An If whose branches read a constant of theirs; those named are outputs."""
    bodies = [
        helper.make_graph(
            [constant(f"k{index}"), helper.make_node("Add", ["x", f"k{index}"], [f"b{index}"])],
            f"branch{index}",
            [],
            [info(f"k{index}" if f"k{index}" in names else f"b{index}")],
        )
        for index in range(2)
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])
    proto = model([node], inputs=["x", "c"])
    proto.graph.input[1].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, ()))
    return proto


def test_in_bodies_too(tmp_path: Path) -> None:
    count, made = lifted(branches(), tmp_path)
    assert count == 2
    bodies = [attribute.g for attribute in made.graph.node[0].attribute]
    assert sorted(tensor.name for body in bodies for tensor in body.initializer) == ["k0", "k1"]
    onnx.checker.check_model(made)
    for choice in (True, False):
        feeds = {"x": np.array([2, 3], np.float32), "c": np.array(choice)}
        (found,) = ReferenceEvaluator(made).run(None, feeds)
        np.testing.assert_array_equal(found, [3.5, 4.5])


def test_outputs_of_any_graph_are_still_made_by_nodes(tmp_path: Path) -> None:
    count, made = lifted(branches("k1"), tmp_path)
    assert count == 1
    assert [node.op_type for node in made.graph.node[0].attribute[1].g.node] + [
        node.op_type for node in made.graph.node[0].attribute[0].g.node
    ] in (["Constant", "Add", "Add"], ["Add", "Constant", "Add"])
    count, made = lifted(model([constant("y")], inputs=[]), tmp_path)
    assert count == 0
    assert [node.op_type for node in made.graph.node] == ["Constant"]


def test_a_constant_that_a_body_hands_out_stays(tmp_path: Path) -> None:
    bodies = [helper.make_graph([], f"branch{index}", [], [info("k")]) for index in range(2)]
    nodes = [constant(), helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1])]
    assert lifted(model(nodes, inputs=["c"]), tmp_path)[0] == 0


def test_what_stays(tmp_path: Path) -> None:
    sparse = helper.make_sparse_tensor(weight("", 3), numpy_helper.from_array(np.arange(3), "i"), [7])
    two, wrong, referring = constant(value_float=1.0), constant("w"), constant("r")
    two.attribute.append(helper.make_attribute("value_int", 2))
    wrong.attribute[0].type = onnx.AttributeProto.INTS
    nodes = [
        constant("s", sparse_value=sparse), two, wrong, constant("unread"),
        helper.make_node("Constant", [], ["o"], domain="custom", value_float=1.0),
        helper.make_node("Sum", ["x", "s", "k", "w", "o"], ["y"]),
    ]  # fmt: skip
    assert lifted(model(nodes), tmp_path)[0] == 0
    referring.attribute[0].ref_attr_name = "alpha"
    body = [referring, constant("plain"), helper.make_node("Sum", ["a", "r", "plain"], ["b"])]
    proto = model([helper.make_node("f", ["x"], ["y"], domain="d", alpha=1.0)])
    proto.functions.append(helper.make_function("d", "f", ["a"], ["b"], body, [helper.make_opsetid("", 15)], ["alpha"]))
    assert lifted(proto, tmp_path)[0] == 0


def test_training_graphs_are_left_alone(tmp_path: Path) -> None:
    proto = model([constant(), helper.make_node("Add", ["x", "k"], ["y"])])
    proto.training_info.add().algorithm.CopyFrom(helper.make_graph([], "training", [], []))
    assert lifted(proto, tmp_path)[0] == 0


def test_an_edited_constant(tmp_path: Path) -> None:
    loaded = ir.load(model([constant(value=weight("", LARGE)), helper.make_node("Add", ["x", "k"], ["y"])]))
    loaded.graph.values["k"].tensor = ir.Exact(TensorProto.FLOAT, np.full(LARGE, 1 / 3))
    assert lift_constants(loaded) == 1
    made = written(loaded, tmp_path / "out.onnx")
    np.testing.assert_array_equal(numpy_helper.to_array(made.graph.initializer[0]), np.full(LARGE, 1 / 3, np.float32))
    held = analysis.constant(loaded.graph.values["k"])
    assert held is not None
    assert loaded.graph.values["k"].holds_constant
