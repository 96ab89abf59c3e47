"""Counts of what a model consists of."""

from __future__ import annotations

from bnfold import ir
from bnfold.report import totals
from tests.conftest import MODELS


def test_nodes_of_every_graph_count_and_weights_wherever_they_are() -> None:
    assert totals.count(ir.load(MODELS / "in_if.onnx")).operators["BatchNormalization"] == 3
    stored = ir.load(MODELS / "constant_nodes.onnx")
    assert stored.parameter_bytes() == 0
    assert totals.count(stored).weights > 0


def test_what_changed_comes_with_the_largest_change_first() -> None:
    before = totals.Totals({"Conv": 3, "Relu": 2, "BatchNormalization": 9})
    after = totals.Totals({"Conv": 3, "Add": 1, "Relu": 4})
    assert totals.changed(before, after) == {"BatchNormalization": (9, 0), "Relu": (2, 4), "Add": (0, 1)}
