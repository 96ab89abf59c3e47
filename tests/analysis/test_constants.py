"""What is a constant, and what only looks like one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from bnfold import analysis, ir
from tests.ir.build import LARGE, info, model, weight


def value_of(nodes: list[onnx.NodeProto], *weights: onnx.TensorProto, name: str = "y") -> ir.Tensor | None:
    return analysis.constant(ir.load(model(nodes, weights)).graph.values[name])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": weight("", 3)}, numpy_helper.to_array(weight("", 3))),
        ({"value": weight("", LARGE)}, numpy_helper.to_array(weight("", LARGE))),
        ({"value_float": 1.5}, np.float32(1.5)),
        ({"value_floats": [1.5, 2.5]}, np.array([1.5, 2.5], np.float32)),
        ({"value_int": -3}, np.int64(-3)),
        ({"value_ints": [1, 2**40]}, np.array([1, 2**40])),
        ({"value_ints": np.array([], np.int64)}, None),
    ],
)
def test_constant_nodes(attributes: dict[str, Any], expected: np.ndarray | None) -> None:
    if expected is None:  # an empty list has to be told its type
        node = helper.make_node("Constant", [], ["y"])
        node.attribute.append(onnx.AttributeProto(name="value_ints", type=onnx.AttributeProto.INTS))
        expected = np.array([], np.int64)
    else:
        node = helper.make_node("Constant", [], ["y"], **attributes)
    tensor = value_of([node])
    assert tensor is not None
    assert tensor.numpy().dtype == expected.dtype
    assert tensor.dims == expected.shape
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_texts_are_left_alone() -> None:
    assert value_of([helper.make_node("Constant", [], ["y"], value_string="text")]) is None


@pytest.mark.parametrize(("places", "values"), [([0, 2], [1, 0, 1, 0, 0, 0, 0]), ([0, 9], None)])
def test_sparse_values_have_their_zeros(places: list[int], values: list[float] | None) -> None:
    indices = numpy_helper.from_array(np.array(places), "i")
    ones = numpy_helper.from_array(np.ones(2, np.float32), "v")
    sparse = helper.make_sparse_tensor(ones, indices, [7])
    held = value_of([helper.make_node("Constant", [], ["y"], sparse_value=sparse)])
    assert (None if held is None else held.numpy().tolist()) == values


def test_of_two_values_neither_is_the_constant() -> None:
    """Runtimes read the first attribute, whatever its name."""
    node = helper.make_node("Constant", [], ["y"], value=weight("", 3), value_float=1.5)
    assert value_of([node]) is None


def test_a_literal_of_another_type_is_no_constant() -> None:
    node = helper.make_node("Constant", [], ["y"], value_ints=[1, 2])
    node.attribute[0].type = onnx.AttributeProto.TENSOR
    assert value_of([node]) is None


def test_a_fill_value_of_another_type_is_no_constant() -> None:
    node = helper.make_node("ConstantOfShape", ["n"], ["y"], value=weight("", 1))
    node.attribute[0].type = onnx.AttributeProto.SPARSE_TENSOR
    assert value_of([node], numpy_helper.from_array(np.array([2, 3]), "n")) is None


def test_nothing_is_no_constant() -> None:
    assert analysis.constant(None) is None


def test_a_chain_is_evaluated() -> None:
    nodes = [
        helper.make_node("Constant", [], ["one"], value_float=1.0),
        helper.make_node("Add", ["w", "one"], ["a"]),
        helper.make_node("Mul", ["a", "a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"]),
    ]
    tensor = value_of(nodes, weight("w", 2, 3))
    assert tensor is not None
    exact = numpy_helper.to_array(weight("w", 2, 3)).astype(np.float64) + 1
    np.testing.assert_array_equal(tensor.float64(), (exact * exact).T)


def test_a_chain_that_reads_an_input_is_none() -> None:
    nodes = [helper.make_node("Add", ["w", "x"], ["a"]), helper.make_node("Mul", ["a", "w"], ["y"])]
    assert value_of(nodes, weight("w", 3)) is None


def test_an_overridable_initializer_is_none_in_a_chain_too() -> None:
    loaded = ir.load(model([helper.make_node("Neg", ["w"], ["y"])], [weight("w", 3)], inputs=["x", "w"]))
    assert analysis.constant(loaded.graph.values["y"]) is None
    loaded.freeze_overridable = True
    assert analysis.constant(loaded.graph.values["y"]) is not None


def test_an_edited_operand_counts() -> None:
    loaded = ir.load(model([helper.make_node("Neg", ["w"], ["y"])], [weight("w", 3)]))
    loaded.graph.values["w"].tensor = ir.Exact(1, np.array([1 / 3, 2.0]))
    tensor = analysis.constant(loaded.graph.values["y"])
    assert tensor is not None
    np.testing.assert_array_equal(tensor.float64(), [-1 / 3, -2])


def test_captured_constants_count_in_a_subgraph() -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["w"], ["b"])], "branch", [], [info("b", "N")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    (inner, _) = [
        graph for graph in ir.load(model(nodes, [weight("w", 3)], inputs=["c"])).graphs() if graph.parent is not None
    ]
    assert analysis.constant(inner.values["b"]) is not None


def test_an_attribute_that_the_caller_gives_is_no_constant() -> None:
    constant = helper.make_node("Constant", [], ["k"], value_float=1.0)
    constant.attribute[0].ref_attr_name = "alpha"
    body = [constant, helper.make_node("Neg", ["k"], ["b"])]
    proto = model([helper.make_node("f", [], ["y"], domain="d")])
    proto.functions.append(helper.make_function("d", "f", [], ["b"], body, [helper.make_opsetid("", 15)], ["alpha"]))
    (function,) = ir.load(proto).functions
    assert analysis.constant(function.values["k"]) is None
    assert analysis.constant(function.values["b"]) is None


def test_a_cycle_is_no_constant() -> None:
    nodes = [
        helper.make_node("Neg", ["b"], ["a"]),
        helper.make_node("Add", ["a", "w"], ["b"]),
        helper.make_node("Neg", ["a"], ["y"]),
    ]
    assert value_of(nodes, weight("w", 3)) is None


def test_a_very_deep_chain_is_none_and_costs_little() -> None:
    names = ["w", *(f"v{index}" for index in range(5_000)), "y"]
    nodes = [helper.make_node("Neg", [names[index]], [names[index + 1]]) for index in range(len(names) - 1)]
    assert value_of(nodes, weight("w", 3)) is None
    assert value_of(nodes, weight("w", 3), name="v30") is not None


def test_an_operand_shared_many_times_is_evaluated_once() -> None:
    """Twice as many paths with every step; a walk along paths would not come back."""
    names = ["w", *(f"v{index}" for index in range(50)), "y"]
    nodes = [helper.make_node("Sub", [names[i], names[i]], [names[i + 1]]) for i in range(len(names) - 1)]
    tensor = value_of(nodes, weight("w", 3))
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), np.zeros(3))
