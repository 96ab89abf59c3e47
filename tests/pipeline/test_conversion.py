"""What is in the way of a conversion is rewritten, if that takes it out; `convert` changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold.errors import ConversionBlocked


def node(op_type: str, reads: str, makes: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, reads.split(), makes.split(), **attributes)


def branch(op_type: str, reads: str, makes: str) -> onnx.GraphProto:
    made = helper.make_tensor_value_info(makes, TensorProto.FLOAT, None)
    return helper.make_graph([node(op_type, reads, makes)], "branch", [], [made])


WEIGHTS = {
    "w": np.ones((1, 3, 3, 3), np.float32), "one": np.array([1]), "index": np.array(1), "axis": np.array([3]),
    "ones": np.array([1, 1]), "two": np.array(2), "pads": np.array([0, 1, 0]),
}  # fmt: skip
OBSTACLES: dict[str, tuple[list[onnx.NodeProto], str]] = {
    "a node that nothing reads": ([node("SplitToSequence", "x", "d"), node("Identity", "x", "z")], "unread node"),
    "a node behind which nothing is read": (
        [node("SplitToSequence", "x", "d"), node("SequenceLength", "d", "e"), node("Identity", "x", "z")],
        "unread node",
    ),
    "Cast of bfloat16": ([node("Cast", "half", "f", to=1), node("Mul", "x f", "z")], "result of constants stored"),
    "Expand of the same sizes": ([node("Expand", "x ones", "z")], "Expand without effect"),
}


def _captured(holder: onnx.NodeProto) -> list[str]:
    return [name for entry in holder.attribute for each in entry.g.node for name in each.input]


def model(nodes: list[onnx.NodeProto], shape: list[Any], opset: int = 13) -> onnx.ModelProto:
    """A Relu and an Identity that no conversion needs to touch, behind the nodes."""
    nodes = [*nodes, node("Identity", "z", "i"), node("Relu", "i", "y")]
    read = {name for each in nodes for name in (*each.input, *_captured(each))}
    held = [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items() if name in read]
    if "half" in read:
        held.append(helper.make_tensor("half", TensorProto.BFLOAT16, [4], [1.0, 2.0, 3.0, 4.0]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("convert", [bnfold.convert, bnfold.optimize], ids=["convert", "optimize"])
def test_what_rewriting_removes_is_in_no_ones_way(obstacle: str, convert: Callable[..., bnfold.Outcome]) -> None:
    nodes, title = OBSTACLES[obstacle]
    before = model(nodes, ["N", 4])
    outcome = convert(before, target_opset=7)
    assert outcome.verified
    assert title in {event.rewrite.title for event in outcome.report.simplified}
    assert outcome.to_proto().opset_import[0].version == 7
    operators = [each.op_type for each in outcome.to_proto().graph.node]
    assert "Identity" in operators if convert is bnfold.convert else "Identity" not in operators


@pytest.mark.parametrize("command", [bnfold.convert, bnfold.optimize], ids=["convert", "optimize"])
def test_an_if_that_sizes_decide(command: Callable[..., bnfold.Outcome]) -> None:
    nodes = [
        node("Conv", "x w", "c"), node("GlobalAveragePool", "c", "p"), node("Squeeze", "p axis", "q"),
        node("Shape", "q", "s"), node("Gather", "s index", "d"), node("Equal", "d index", "e"),
        node("If", "e", "z", then_branch=branch("Squeeze", "q one", "a"), else_branch=branch("Identity", "q", "b")),
    ]  # fmt: skip
    outcome = command(model(nodes, ["N", 3, "H", "W"]), target_opset=9)
    assert outcome.verified
    assert "If" not in [each.op_type for each in outcome.to_proto().graph.node]
    titles = {event.rewrite.title for event in outcome.report.simplified}
    assert "If decided" in titles or command is bnfold.convert, "which has a form for it in opset 9"


def test_what_is_read_stays_in_the_way() -> None:
    before = model([node("SplitToSequence", "x", "d"), node("ConcatFromSequence", "d", "z", axis=0)], ["N", 4])
    for command in (bnfold.convert, bnfold.optimize):
        with pytest.raises(ConversionBlocked, match="lowest opset for this model: 11"):
            command(before, target_opset=9)


def test_a_conversion_that_nothing_is_in_the_way_of_simplifies_nothing() -> None:
    nodes = [node("Neg", "x", "dead"), node("Expand", "x ones", "z")]
    outcome = bnfold.convert(model(nodes, ["N", 4]), opset=9)
    assert not outcome.report.simplified
    assert [each.op_type for each in outcome.to_proto().graph.node] == ["Neg", "Expand", "Identity", "Relu"]


@pytest.mark.parametrize("command", [bnfold.convert, bnfold.optimize], ids=["convert", "optimize"])
def test_the_lowest_opset_by_the_same_rule(command: Callable[..., bnfold.Outcome]) -> None:
    before = model([node("SplitToSequence", "x", "d"), node("Expand", "x ones", "z")], ["N", 4])
    outcome = command(before, target_opset="lowest", verify=bnfold.VerifyOptions(runtime="none"))
    assert outcome.verified
    lowest = outcome.report.opset_after
    assert outcome.report.lowest is not None
    assert outcome.report.lowest["opset"] == lowest < 8
    if lowest > 1:
        with pytest.raises(ConversionBlocked):
            command(before, target_opset=lowest - 1)


def test_raising_removes_what_is_in_the_way_as_well() -> None:
    dead = node("Upsample", "x", "d", width_scale=2.0)  # no version of the operator has this form
    outcome = bnfold.optimize(model([dead, node("Neg", "x", "z")], ["N", 4], opset=7))
    assert [each.op_type for each in outcome.to_proto().graph.node] == ["Neg", "Relu"]
