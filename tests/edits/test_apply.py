"""Edits change the graph as they say, in the order in which they are given."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import Bypass, Edit, NewNode, Remove, Replace, SetAttr, SetConstant, StoreConstant, can_bypass
from bnfold.edits.size_budget import SizeBudget
from bnfold.ir.tensor import TP, InMemory


def loaded(body: str, head: str = "(float[2,3] x) => (float[2,3] y)", weights: str = "") -> ir.Model:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {head} <{weights}> {{ {body} }}'
    return ir.load(onnx.parser.parse_model(text))


def node(model: ir.Model, op_type: str) -> ir.Node:
    return next(node for node in model.nodes() if node.is_op(op_type))


def applied(model: ir.Model, *edits: Edit) -> list[str]:
    """The nodes afterwards, each as it would be typed."""
    apply_edits(edits, SizeBudget(None))
    model.sync()
    onnx.checker.check_model(model.proto)
    return [f"{', '.join(made.output)} = {made.op_type} ({', '.join(made.input)})" for made in model.proto.graph.node]


ROW = "a = Abs (x) b = Neg (a) c = Sin (b) y = Relu (c)"


@pytest.mark.parametrize("order", [("Neg", "Sin"), ("Sin", "Neg")])
def test_nodes_in_a_row_are_bypassed_in_either_order(order: tuple[str, str]) -> None:
    """Each was planned to be replaced by what it reads, which may be gone by then."""
    model = loaded(ROW)
    edits = [Bypass(node(model, op_type), node(model, op_type).inputs[:1]) for op_type in order]
    assert applied(model, *edits) == ["a = Abs (x)", "y = Relu (a)"]


def test_a_graph_output_keeps_its_name() -> None:
    model = loaded(ROW)
    relu = node(model, "Relu")
    assert can_bypass(relu, relu.inputs[0])
    assert applied(model, Bypass(relu, relu.inputs)) == ["a = Abs (x)", "b = Neg (a)", "y = Sin (b)"]


def test_a_source_that_becomes_the_output_takes_its_name() -> None:
    model = loaded(ROW)
    sin = node(model, "Sin")
    assert applied(model, Bypass(sin, sin.inputs, renames=True)) == ["a = Abs (x)", "c = Neg (a)", "y = Relu (c)"]


def test_an_equal_node_takes_all_outputs() -> None:
    body = "a, b = Split <axis = 1> (x, parts) c, d = Split <axis = 1> (x, parts) y = Concat <axis = 1> (c, b)"
    model = loaded(body, weights="int64[2] parts = {1, 2}")
    first, second = (each for each in model.nodes() if each.is_op("Split"))
    kept = "a, b = Split (x, parts)"
    assert applied(model, Bypass(second, first.outputs)) == [kept, "y = Concat (a, b)"]


def test_an_operator_becomes_another() -> None:
    model = loaded("a, mask = Dropout (x) y = Relu (a)")
    dropout = node(model, "Dropout")
    assert applied(model, Replace(dropout, "Identity", dropout.inputs[:1], {})) == ["a = Identity (x)", "y = Relu (a)"]


def test_without_inputs_and_attributes_it_keeps_its_own() -> None:
    model = loaded("a = Softmax <axis = 0> (x) y = Relu (a)")
    softmax = node(model, "Softmax")
    assert applied(model, Replace(softmax, "LogSoftmax"))[0] == "a = LogSoftmax (x)"
    assert softmax.attr("axis") == 0
    applied(model, SetAttr(softmax, "axis", None))
    assert not softmax.attrs


def test_a_new_node_stands_in_front() -> None:
    model = loaded(ROW)
    sin = node(model, "Sin")
    (value,) = sin.inputs
    assert value is not None
    assert applied(model, Replace(sin, "Cos", [NewNode("Exp", [value], {})]))[2:4] == [
        "c_made = Exp (b)",
        "c = Cos (c_made)",
    ]


def test_equal_constants_are_stored_once_and_close_ones_apart() -> None:
    """Two of these integers are one number of float64."""
    body = "a = Add (i, one) b = Add (i, one) c = Add (i, one) y = Sum (x)"
    model = loaded(
        body, "(float[2,3] x, int64[1] i) => (float[2,3] y, int64[1] a, int64[1] b, int64[1] c)", "int64[1] one = {1}"
    )
    adds, large = [each for each in model.nodes() if each.is_op("Add")], 1 << 60
    numbers = [np.array([number], np.int64) for number in (large, large, large + 1)]
    edits = [Replace(add, "Add", [add.inputs[0], number]) for add, number in zip(adds, numbers, strict=True)]
    applied(model, *edits)
    first, second, third = (add.inputs[1] for add in adds)
    assert first is second is not third


def test_a_result_is_stored_and_what_nothing_reads_is_removed() -> None:
    model = loaded(
        "s = Shape (x) t = Cast <to = 1> (s) y = Relu (x) z = Add (t, t)",
        "(float[2,3] x) => (float[2,3] y, float[2] z)",
    )
    cast = node(model, "Cast")
    nodes = applied(
        model, StoreConstant(cast, InMemory(TP.FLOAT, np.array([2, 3], np.float32))), Remove(node(model, "Shape"))
    )
    assert nodes == ["y = Relu (x)", "z = Add (t, t)"]
    (stored,) = model.proto.graph.initializer
    assert (stored.name, [*onnx.numpy_helper.to_array(stored)]) == ("t", [2, 3])


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_constant_that_others_read_stays(is_shared: bool) -> None:
    other = "z = Mul (x, w)" if is_shared else "z = Neg (x)"
    model = loaded(f"y = Add (x, w) {other}", "(float[2,3] x) => (float[2,3] y, float[2,3] z)", "float[1] w = {1}")
    edit = SetConstant(node(model, "Add"), 1, InMemory(TP.FLOAT, np.array([5], np.float32)))
    read = "w_1" if is_shared else "w"
    assert applied(model, edit)[0] == f"y = Add (x, {read})"
