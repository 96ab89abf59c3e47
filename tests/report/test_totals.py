"""Counts of what a model consists of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.report import totals
from bnfold.report.totals import Products
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


F = TensorProto.FLOAT


def one(operator: str, shapes: list[list[Any]], made: list[Any] | None = None, **attributes: Any) -> ir.Model:
    """A model of one node, all of whose inputs have the shapes given; the later ones are stored."""
    names = [f"i{index}" for index in range(len(shapes))]
    kind = TensorProto.INT8 if "Integer" in operator else F
    stored = [
        numpy_helper.from_array(np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)), name)
        for name, shape in zip(names[1:], shapes[1:], strict=True)
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT32 if "Integer" in operator else F, made)]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **attributes)], "g",
        [helper.make_tensor_value_info("i0", kind, shapes[0])], outputs, stored,
    )  # fmt: skip
    return ir.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "count"),
    [
        ("Conv", [[2, 3, 8, 8], [5, 3, 3, 3]], {}, 2 * 5 * 6 * 6 * 27),
        ("Conv", [[1, 4, 8, 8], [4, 2, 3, 3]], {"group": 2, "strides": [2, 2]}, 4 * 3 * 3 * 18),
        ("ConvInteger", [[1, 3, 8], [5, 3, 3]], {}, 5 * 6 * 9),
        ("ConvTranspose", [[1, 4, 5, 5], [4, 3, 2, 2]], {"strides": [2, 2]}, 4 * 25 * 12),
        ("Gemm", [[7, 3], [3, 5]], {}, 7 * 3 * 5),
        ("Gemm", [[3, 7], [5, 3]], {"transA": 1, "transB": 1}, 7 * 3 * 5),
        ("MatMul", [[2, 7, 3], [3, 5]], {}, 2 * 7 * 3 * 5),
        ("MatMul", [[3], [3, 5]], {}, 15),
        ("LSTM", [[6, 2, 3], [1, 16, 3], [1, 16, 4]], {"hidden_size": 4}, 6 * 2 * 16 * (3 + 4)),
        ("Relu", [[2, 3]], {}, 0),
    ],
)
def test_multiply_adds_are_counted(
    operator: str, shapes: list[list[int]], attributes: dict[str, Any], count: int
) -> None:
    assert totals.multiply_adds(one(operator, shapes, **attributes)) == Products(count)


def test_open_sizes_multiply() -> None:
    assert totals.multiply_adds(one("Gemm", [["N", 3], [3, 5]])) == Products(15, ("N",))
    assert totals.multiply_adds(one("MatMul", [["N", "T", 3], [3, 5]])) == Products(15, ("N", "T"))


def test_what_cannot_be_told_is_not_guessed() -> None:
    for model in (
        one("Conv", [[1, 3, None, 8], [5, 3, 3, 3]]),
        one("Conv", [[1, 3, None, 8], [5, 3, 3, 3]], made=[1, 5, 0, 6]),
        one("Einsum", [[2, 3], [3, 5]], equation="ij,jk->ik"),
        ir.load(MODELS / "in_loop.onnx"),
        ir.load(MODELS / "in_function.onnx"),
    ):
        assert totals.multiply_adds(model) is None


def test_folding_changes_no_multiply_adds() -> None:
    source = MODELS / "resnet_opset6.onnx"
    before, after = (
        totals.multiply_adds(ir.load(source)),
        totals.multiply_adds(ir.load(bnfold.optimize(source).to_proto())),
    )
    assert before is not None
    assert before.count > 1_000_000
    assert before == after
