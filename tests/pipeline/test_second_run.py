"""A run on a result changes no byte of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bnfold
from bnfold.errors import BnfoldError
from tests.corpus import models

UNVERIFIED = bnfold.VerifyOptions(depth="none")
MOST_BYTES = 1 << 18
CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


def assert_settled(source: Path | onnx.ModelProto, opset: Any) -> onnx.ModelProto:
    """The result of a run is the result of a run on it."""
    first = bnfold.optimize(source, target_opset=opset, verify=UNVERIFIED).to_proto()
    again = bnfold.optimize(first, target_opset=opset, verify=UNVERIFIED).to_proto()
    assert again.SerializeToString(deterministic=True) == first.SerializeToString(deterministic=True), source
    return first


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus here")
@pytest.mark.large
@pytest.mark.parametrize("opset", [None, 9, "keep"])
def test_real_networks(opset: Any) -> None:
    count = 0
    for path in models(CORPUS):
        if path.stat().st_size > MOST_BYTES:
            continue
        try:
            assert_settled(path, opset)
        except BnfoldError:
            continue
        count += 1
    assert count > 20


def net(nodes: list[onnx.NodeProto], shape: list[int], weights: dict[str, object], opset: int = 15) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    read = {name for node in nodes for name in node.input}
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items() if name in read]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(op_type: str, reads: str, makes: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, reads.split(), makes.split(), **attributes)


WEIGHTS: dict[str, object] = {
    "rows": np.array([-1, 4]), "w": np.ones((4, 5), np.float32), "first": np.array([0, 1]), "five": np.array([5]),
    "b": np.arange(5, dtype=np.float32), "six": np.float32(6), "zero": np.array([0]), "rest": np.array([-1]),
    "k": np.ones((3, 5), np.float32), "kernel": np.ones((3, 3, 1, 1), np.float32),
    "s": np.arange(1, 4, dtype=np.float32),
}  # fmt: skip
DENSE = [
    node("Reshape", "x rows", "r"), node("MatMul", "r w", "mm"), node("Shape", "x", "s"),
    node("Gather", "s first", "g"), node("Concat", "g five", "sh", axis=0), node("Reshape", "mm sh", "t"),
    node("Add", "t b", "a"), node("Relu", "a", "y"),
]  # fmt: skip
SWISH = [
    node("Mul", "x x", "m"), node("Div", "m six", "d"), node("GlobalAveragePool", "d", "p"), node("Shape", "p", "s"),
    node("Gather", "s zero", "g"), node("Concat", "g rest", "sh", axis=0), node("Reshape", "p sh", "r"),
    node("MatMul", "r k", "y"),
]  # fmt: skip


@pytest.mark.parametrize("opset", [None, 9, 11, 13])
@pytest.mark.parametrize(
    ("nodes", "shape", "left"),
    [
        (DENSE, [1, 3, 4], ["MatMul", "Add", "Relu"]),
        (SWISH, [1, 3, 4, 4], ["Mul", "GlobalAveragePool", "Reshape", "MatMul"]),
    ],
    ids=["Dense on a sequence", "a product before a pooling"],
)
def test_arithmetic_beside_sizes_that_become_known(
    nodes: list[onnx.NodeProto], shape: list[int], left: list[str], opset: int | None
) -> None:
    weights = {name: value for name, value in WEIGHTS.items() if name != "s"}
    result = assert_settled(net(nodes, shape, weights), opset)
    assert [each.op_type for each in result.graph.node] == left


def test_a_dead_consumer_is_in_no_ones_way() -> None:
    nodes = [
        node("Conv", "x kernel", "c"), node("Softplus", "c", "dead"), node("BatchNormalization", "c s s s s", "n"),
        node("Relu", "n", "y"),
    ]  # fmt: skip
    result = assert_settled(net(nodes, [1, 3, 4, 4], WEIGHTS), None)
    assert [each.op_type for each in result.graph.node] == ["Conv", "Relu"]


def test_room_is_for_all_or_for_none() -> None:
    """Tables of 40 KB each, which take more together than a model may grow by."""
    nodes, weights = [], dict[str, object]()
    for index in range(5):
        weights[f"r{index}"] = np.arange(100, dtype=np.float32).reshape(100, 1) + index
        weights[f"c{index}"] = np.arange(100, dtype=np.float32)
        nodes += [node("Mul", f"r{index} c{index}", f"t{index}"), node("Cos", f"t{index}", f"f{index}")]
    nodes.append(node("Max", "x f0 f1 f2 f3 f4", "y"))
    assert_settled(net(nodes, [100, 100], weights), None)
    assert_settled(net([*nodes[2:-1], node("Max", "x f1 f2 f3", "y")], [100, 100], weights), None)


def test_a_rewrite_that_needs_a_newer_opset_is_named() -> None:
    nodes = [node("Conv", "x kernel", "c"), node("Add", "c s", "a", broadcast=1, axis=1), node("Relu", "a", "y")]
    before = net(nodes, [1, 3, 4, 4], WEIGHTS, opset=6)
    outcome = bnfold.optimize(before, target_opset="keep")
    assert outcome.verified
    assert [each.op_type for each in outcome.to_proto().graph.node] == ["Conv", "Add", "Relu"]
    text = "constant arithmetic not folded: 1 operator broadcasts as before opset 7. Add target_opset=7."
    assert text in outcome.report.notes
    newer = bnfold.optimize(before, target_opset=7)
    assert [each.op_type for each in newer.to_proto().graph.node] == ["Conv", "Relu"]
    assert not any(note.startswith("constant arithmetic not folded") for note in newer.report.notes)


@pytest.mark.parametrize("decompose", ["remaining", "all"])
def test_what_was_decomposed_is_not_reported_as_left(decompose: Any) -> None:
    nodes = [node("Sigmoid", "x", "z"), node("BatchNormalization", "z s s s s", "n"), node("Relu", "n", "y")]
    outcome = bnfold.optimize(net(nodes, [1, 3, 4, 4], WEIGHTS), decompose=decompose)
    assert outcome.verified
    assert [(event.verdict, event.reason) for event in outcome.report.batchnorms] == [("decomposed", None)]
