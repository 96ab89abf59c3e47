"""Which commands make initializers of Constant nodes, and what tables say of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold.cli import before_after
from bnfold.report.events import Report
from bnfold.report.totals import Totals

RNG = np.random.default_rng(3)


def constant(name: str, *dims: int) -> onnx.NodeProto:
    tensor = numpy_helper.from_array(RNG.uniform(0.5, 2, dims).astype(np.float32))
    return helper.make_node("Constant", [], [name], value=tensor)


def network(ir_version: int = 8, opset: int = 13) -> onnx.ModelProto:
    """Every weight is a Constant node, and one is an output."""
    nodes = [
        constant("w", 4, 3, 3, 3),
        helper.make_node("Conv", ["x", "w"], ["c"]),
        *(constant(name, 4) for name in "sbmv"),
        helper.make_node("BatchNormalization", ["c", *"sbmv"], ["n"]),
        constant("k", 6),
        helper.make_node("Max", ["n", "k"], ["y"]),
        constant("z", 5),
    ]
    ends = [("y", (1, 4, 6, 6)), ("z", (5,))]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in ends],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def made(outcome: bnfold.Outcome) -> tuple[Counter[str], set[str]]:
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"
    proto = outcome.to_proto()
    onnx.checker.check_model(proto, full_check=True)
    return Counter(node.op_type for node in proto.graph.node), {tensor.name for tensor in proto.graph.initializer}


@pytest.mark.parametrize(("ir_version", "options"), [(8, {}), (8, {"fold": False}), (3, {"target_opset": "keep"})])
def test_optimize_lifts_what_no_graph_hands_out(ir_version: int, options: dict[str, Any]) -> None:
    operators, stored = made(bnfold.optimize(network(ir_version), **options))
    assert operators["Constant"] == 1
    assert {"w", "k"} <= stored
    assert "z" not in stored


def test_initializers_need_a_newer_form_of_file() -> None:
    outcome = bnfold.optimize(network(3), target_opset="keep", fold=False)
    assert (outcome.report.ir_before, outcome.report.ir_after) == (3, 4)


@pytest.mark.parametrize("command", [bnfold.fold, bnfold.upgrade, bnfold.decompose])
def test_others_keep_them(command: Any) -> None:
    operators, stored = made(command(network()))
    assert operators["Constant"] >= 3
    assert "k" not in stored


def test_they_are_kept_where_that_is_asked_for() -> None:
    operators, stored = made(bnfold.optimize(network(), constants="keep"))
    assert operators["Constant"] == 3
    assert "k" not in stored


def test_tables_count_nodes_without_them() -> None:
    outcome = bnfold.optimize(network())
    rows = [line.split() for line in before_after.lines(outcome.report, verbose=False)]
    assert ["nodes", "10", "3", "Constant", "→", "initializer", "×2"] in rows  # noqa: RUF001
    assert ["without", "Constant", "3", "2"] in rows
    assert (outcome.report.before.without_constants, outcome.report.after.without_constants) == (3, 2)
    steps = [line.split() for line in before_after.steps(outcome.report.before, ())]
    assert steps[1][:5] == ["original", "10", "(3", "without", "Constant)"]


def test_tables_of_models_without_any_say_nothing_of_it() -> None:
    report = Report(before=Totals({"Conv": 2}), after=Totals({"Conv": 1}))
    assert not any("without" in line for line in before_after.lines(report, verbose=False))
    assert not any("without" in line for line in before_after.steps(report.before, ()))
