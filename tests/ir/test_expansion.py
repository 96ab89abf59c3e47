"""How large a model is with every call of a function spelled out, found without spelling it out."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from bnfold.ir.expansion import MAX_DEPTH, is_bounded


def calling(callees: dict[str, list[str]]) -> onnx.ModelProto:
    """A model whose main graph calls A, and functions that call these."""
    model = onnx.ModelProto()
    model.graph.node.append(helper.make_node("A", ["x"], ["y"], domain="d"))
    for name, called in callees.items():
        nodes = [helper.make_node(callee, ["x"], [f"y{index}"], domain="d") for index, callee in enumerate(called)]
        model.functions.append(helper.make_function("d", name, ["x"], ["y0"], nodes, []))
    return model


def row(length: int, times: int) -> dict[str, list[str]]:
    names = ["A", *(f"F{index}" for index in range(length - 1))]
    return {name: [callee] * times for name, callee in zip(names, [*names[1:], "Relu"], strict=True)}


@pytest.mark.parametrize(
    ("callees", "bounded"),
    [
        ({}, True),
        ({"A": ["Relu", "Relu"]}, True),
        ({"A": ["B", "C"], "B": ["C", "C"], "C": ["Relu"]}, True),
        ({"A": ["A"]}, False),
        ({"A": ["B"], "B": ["C"], "C": ["B"]}, False),
        ({"A": ["Relu"], "B": ["B"]}, False),
        (row(MAX_DEPTH, 1), True),
        (row(MAX_DEPTH + 1, 1), False),
        (row(18, 2), True),
        (row(22, 2), False),
        (row(60, 1000), False),
    ],
)
def test_calls_are_counted(callees: dict[str, list[str]], bounded: bool) -> None:
    assert is_bounded(calling(callees)) is bounded


def test_calls_in_nested_graphs_count() -> None:
    model = calling(row(18, 2))
    branch = helper.make_graph(
        [helper.make_node("A", ["x"], [f"b{index}"], domain="d") for index in range(9)], "b", [], []
    )
    model.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch))
    assert not is_bounded(model)


def test_other_domains_and_overloads_are_other_functions() -> None:
    model = calling({"A": ["B"]})
    model.functions.append(
        helper.make_function("e", "B", ["x"], ["y"], [helper.make_node("A", ["x"], ["y"], domain="d")], [])
    )
    assert is_bounded(model)
