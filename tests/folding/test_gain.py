"""Whether an Add pays in a BatchNormalization's place: fewer operators, or as many on fewer elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import bnfold
from bnfold import ir
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import ExtraAdd
from bnfold.folding import SizeBudget, gain
from bnfold.settings import Options
from tests.folding.nets import Folded, Net, folded, saved

Build = Callable[[Net, str], str]


def auto(net: Net, *outputs: str, **limits: Any) -> Folded:
    return folded(net, *outputs, exchange="auto", **limits)


def padded(net: Net, x: str, channels: int = 4, inputs: int = 4, **attributes: Any) -> str:
    return net.node("Conv", x, net.const(channels, inputs, 3, 3), pads=[1, 1, 1, 1], **attributes)


def pooled(net: Net, x: str, operator: str = "MaxPool") -> str:
    return net.node(operator, x, kernel_shape=[2, 2], strides=[2, 2])


def norm(net: Net, x: str) -> str:
    return net.batchnorm(x, 4, positive=True)


def test_before_a_conv_that_pads_it_stays() -> None:
    net = Net()
    result = auto(net, padded(net, norm(net, net.input(2, 4, 6, 8))))
    assert result.ops == ["BatchNormalization", "Conv"]
    assert result.reasons == ["no-gain"]
    (event,) = result.report.batchnorms
    assert event.detail.startswith("an Add in front of Conv 'Conv_")
    assert event.detail.endswith("would take its place; --exchange always does that")
    assert [(attempt.direction, attempt.reason and attempt.reason.code) for attempt in event.attempts] == [
        ("up", "graph-input"), ("down", "no-gain"),
    ]  # fmt: skip


def test_always() -> None:
    net = Net()
    result = folded(net, padded(net, norm(net, net.input(2, 4, 6, 8))), exchange="always")
    assert result.ops == ["Add", "Conv"]
    assert [event.verdict for event in result.report.batchnorms] == ["exchanged"]
    assert result.report.normalizations[0].where == "1 replaced by an Add"


@pytest.mark.parametrize("behind_a_node", [False, True])
def test_an_add_that_several_share_stands_in_front_of_them_all(behind_a_node: bool) -> None:
    """Also if the one that asks first comes last."""
    net = Net()
    x = net.input(2, 4, 6, 8)
    x = net.node("Relu", x) if behind_a_node else x
    model = ir.load(net.model(padded(net, x), padded(net, x)))
    adds = [ExtraAdd(node, 0, np.ones((1, 4, 1, 1)), TensorProto.DOUBLE, "before") for node in model.nodes()
            if node.is_op("Conv")]  # fmt: skip
    apply_edits(adds[::-1], SizeBudget(0))
    assert [node.op_type for node in model.nodes()] == ["Relu"] * behind_a_node + ["Add", "Conv", "Conv"]
    onnx.checker.check_model(saved(model))


ELSEWHERE: dict[str, Build] = {
    "behind an activation": lambda net, x: norm(net, net.node("Relu", net.node("Conv", x, net.const(4, 4, 1, 1)))),
    "before an activation": lambda net, x: net.node("Conv", net.node("Relu", norm(net, x)), net.const(4, 4, 1, 1)),
    "behind a constant product": lambda net, x: norm(net, net.node("MatMul", net.const(4, 6, 6), x)),
    "a border image": lambda net, x: padded(net, net.batchnorm(x, 4, scale=[1.0, 0.0, 2.0, 3.0])),
    "a border image of fewer channels": lambda net, x: padded(net, norm(net, x), 1),
    "a border image of more channels behind a stride": lambda net, x: padded(net, norm(net, x), 8, strides=[2, 2]),
}


@pytest.mark.parametrize("build", ELSEWHERE.values(), ids=ELSEWHERE)
def test_as_many_operators_on_as_many_elements(build: Build) -> None:
    net = Net()
    result = auto(net, build(net, net.input(2, 4, 6, 8)))
    assert result.ops.count("BatchNormalization") == 1
    assert result.reasons == ["no-gain"]
    net = Net()
    result = folded(net, build(net, net.input(2, 4, 6, 8)))
    assert (result.ops.count("BatchNormalization"), result.ops.count("Add")) == (0, 1)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("declared", [(2, 4, 6, 8), ("N", 4, "H", "W"), ("N", 4, None, None)])
def test_behind_a_pooling(operator: str, declared: tuple[Any, ...]) -> None:
    net = Net()
    x = net.input(2, 4, 6, 8, declared=declared)
    result = auto(net, padded(net, pooled(net, norm(net, x), operator)))
    assert result.ops == [operator, "Add", "Conv"]
    assert [event.verdict for event in result.report.batchnorms] == ["exchanged"]


def test_behind_a_conv_with_a_stride_to_fewer_channels() -> None:
    net = Net()
    result = auto(net, padded(net, net.batchnorm(net.input(2, 4, 6, 8), 4), 2, strides=[2, 2]))
    assert result.ops == ["Conv", "Add"]


@pytest.mark.parametrize("strides", [None, [1, 1]])
def test_a_pooling_that_leaves_as_many(strides: list[int] | None) -> None:
    net = Net()
    attributes = {} if strides is None else {"strides": strides}
    x = net.node("MaxPool", norm(net, net.input(2, 4, 6, 8)), kernel_shape=[3, 3], pads=[1, 1, 1, 1], **attributes)
    assert auto(net, padded(net, x)).reasons == ["no-gain"]


def test_a_conv_takes_the_scale_of_several_and_two_adds_are_more() -> None:
    net = Net()
    y = norm(net, net.input(2, 4, 6, 8))
    result = auto(net, padded(net, pooled(net, y)), padded(net, pooled(net, y, "AveragePool")))
    assert result.reasons == ["no-gain"]


@pytest.mark.parametrize("around", ["before", "behind", "both"])
def test_one_with_its_mul_and_add_is_one_operator_too(around: str) -> None:
    """As Caffe writes it: the BatchNormalization absorbs them, and is then no more than the Add."""
    net = Net()
    x = net.input(2, 4, 6, 8)
    if around != "behind":
        x = net.node("Mul", x, net.const(4, 1, 1))
    x = norm(net, x)
    if around != "before":
        x = net.node("Add", net.node("Mul", x, net.const(4, 1, 1)), net.const(4, 1, 1))
    result = auto(net, padded(net, x), tolerance=1e-8)
    assert result.ops == ["BatchNormalization", "Conv"]
    assert result.reasons == ["no-gain"]


def test_one_with_its_mul_and_add_behind_a_pooling() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 8), 4, positive=True)
    x = net.node("Mul", x, net.const(value=np.full((4, 1, 1), 2.0)))
    result = auto(net, padded(net, pooled(net, x)))
    assert result.ops == ["MaxPool", "Add", "Conv"]


def test_an_add_that_a_batchnorm_cannot_absorb_takes_its_shift() -> None:
    """Its parameters are read elsewhere and no copy is allowed: two operators become one, which was there."""
    net = Net()
    parameters = [net.const(value=np.array([0.5, 1.0, 2.0, 3.0])) for _ in range(4)]
    other = net.node("Sin", net.node("BatchNormalization", net.input(2, 4, 6, 8), *parameters))
    x = net.node("BatchNormalization", net.input(2, 4, 6, 8), *parameters)
    x = net.node("Add", x, net.const(4, 1, 1))
    result = auto(net, padded(net, x), other, growth=0)
    assert result.ops == ["BatchNormalization", "Sin", "Add", "Conv"]
    assert [event.verdict for event in result.report.batchnorms] == ["kept", "folded"]


def test_a_bias_that_is_an_add_takes_the_shift() -> None:
    """It was there, so the BatchNormalization is folded."""
    net = Net()
    y = net.node("Add", net.node("MatMul", net.input(2, 5, 7), net.const(7, 4)), net.const(4))
    y = net.node("Transpose", net.batchnorm(net.node("Transpose", y, perm=[0, 2, 1]), 4), perm=[0, 2, 1])
    result = auto(net, net.node("Sin", y))
    assert result.ops == ["MatMul", "Add", "Transpose", "Transpose", "Sin"]
    assert [event.verdict for event in result.report.batchnorms] == ["folded"]


def test_what_other_readers_undo_with_an_add() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 6, 8), net.const(4, 3, 1, 1))
    outputs = net.node("Sin", norm(net, y)), net.node("Sin", padded(net, y))
    assert auto(net, *outputs).reasons == ["no-gain"]


def test_a_part_behind_a_concat_is_fewer_elements() -> None:
    net = Net()
    y = net.node(
        "Concat", net.node("Conv", net.input(2, 3, 4, 6), net.const(4, 3, 1, 1)), net.input(2, 2, 4, 6), axis=1
    )
    assert auto(net, net.node("Sin", net.batchnorm(y, 6))).ops == ["Conv", "BatchNormalization", "Concat", "Sin"]


def test_spelled_out_it_is_two_operators() -> None:
    net = Net()
    x = net.node("Add", net.node("Mul", net.input(2, 4, 6, 8), net.const(4, 1, 1)), net.const(4, 1, 1))
    outcome = bnfold.fold(net.model(padded(net, x)))
    assert [(event.mode, event.verdict) for event in outcome.report.batchnorms] == [("spelled-out", "exchanged")]


@pytest.mark.parametrize(
    ("options", "operators"),
    [
        ({}, ["BatchNormalization", "Conv"]),
        ({"exchange": "always"}, ["Add", "Conv"]),
        ({"decompose": "remaining"}, ["Add", "Conv"]),
        (
            {"decompose": "remaining", "decompose_ops": frozenset({"InstanceNormalization"})},
            ["BatchNormalization", "Conv"],
        ),
    ],
)
def test_options(options: dict[str, Any], operators: list[str]) -> None:
    net = Net()
    model = net.model(padded(net, norm(net, net.input(2, 4, 6, 8))))
    outcome = bnfold.optimize(model, options=Options(**options))
    assert [node.op_type for node in outcome.to_proto().graph.node] == operators


OPEN: dict[str, tuple[str, dict[str, Any], float]] = {
    "the same": ("Relu", {}, 1.0),
    "half as many each way": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, 0.25),
    "as many": ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, 1.0),
    "elsewhere": ("Transpose", {"perm": [0, 2, 3, 1]}, 1.0),
    "in a row": ("Flatten", {}, 1.0),
}


@pytest.mark.parametrize("operator", OPEN)
@pytest.mark.parametrize("dims", [["N", 4, "H", "W"], [None, 4, None, None]])
def test_open_sizes_are_the_same_but_for_strides(operator: str, dims: list[Any]) -> None:
    op_type, attributes, ratio = OPEN[operator]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"], **attributes)], "g", info, made)
    model = ir.load(helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 15)], ir_version=8))
    before, after = (gain.elements(model.graph.values[name]) for name in "xy")
    assert after == ratio * before


def test_where_not_even_the_rank_is_known_nothing_is_fewer() -> None:
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info, made)
    model = ir.load(helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 15)], ir_version=8))
    assert gain.elements(model.graph.values["y"]) == float("inf")


def shared_weight(net: Net) -> list[str]:
    """Two Convs of one weight, behind one of them a BatchNormalization before a Conv that pads."""
    w, x = net.const(4, 4, 3, 3), net.input(2, 4, 6, 8)
    return [padded(net, norm(net, net.node("Conv", x, w))), net.node("Conv", net.node("Neg", x), w)]


def test_an_add_that_a_later_fold_takes_is_folded() -> None:
    net = Net()
    result = folded(net, *shared_weight(net), growth=0)
    assert [event.verdict for event in result.report.batchnorms] == ["exchanged"]
    assert result.ops.count("Add") == 1
    net = Net()
    result = folded(net, *shared_weight(net), growth=0, all_affines=True)
    assert result.ops.count("Add") == 0
    (event,) = result.report.batchnorms
    assert event.verdict == "folded"
    assert event.into == ("Conv_10", "Conv_3")
    assert result.report.normalizations[0].where == "folded into 1 Conv"


def between(net: Net, x: str, first: list[int], second: list[int]) -> str:
    x = net.node("Transpose", net.node("MatMul", x, net.const(8, 4)), perm=first)
    return net.node("Transpose", net.batchnorm(x, 4), perm=second)


@pytest.mark.parametrize("sizes", [(2, 5, 8), ("N", "L", 8)])
def test_nodes_that_meet_and_cancel_are_gain(sizes: tuple[Any, ...]) -> None:
    net = Net()
    y = between(net, net.input(2, 5, 8, declared=sizes), [0, 2, 1], [0, 2, 1])
    result = auto(net, net.node("Sigmoid", y), simplifies=True)
    assert result.ops == ["MatMul", "Add", "Transpose", "Transpose", "Sigmoid"]


@pytest.mark.parametrize(
    ("second", "simplifies"), [([0, 2, 1], False), ([2, 1, 0], True)], ids=["not simplified", "another order"]
)
def test_nodes_that_stay_are_none(second: list[int], simplifies: bool) -> None:
    net = Net()
    y = between(net, net.input(2, 5, 8), [0, 2, 1], second)
    assert auto(net, net.node("Sigmoid", y), simplifies=simplifies).reasons == ["no-gain"]


def test_shapes_that_come_back_are_gain() -> None:
    net = Net()
    x = net.node("MatMul", net.input(2, 5, 8), net.const(8, 4))
    x = net.node("Reshape", x, net.const(value=np.array([10, 4])))
    x = net.node("Reshape", net.batchnorm(x, 4), net.const(value=np.array([2, 5, 4])))
    result = auto(net, net.node("Sigmoid", x), simplifies=True)
    assert result.ops == ["MatMul", "Add", "Reshape", "Reshape", "Sigmoid"]


def test_a_first_node_with_another_consumer_stays() -> None:
    """One node goes: as many operators would be left, and an Add of as many elements is worth one of them."""
    net = Net()
    x = net.node("Transpose", net.node("Abs", net.input(2, 5, 4)), perm=[0, 2, 1])
    y = net.node("Transpose", net.batchnorm(x, 4), perm=[0, 2, 1])
    result = auto(net, net.node("Sigmoid", y), net.node("Neg", x), simplifies=True)
    assert "BatchNormalization" in result.ops
