"""What no operator text allows is refused, not read leniently; onnxruntime refuses every one of these as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnfold import ir, reference
from tests.reference.models import Array, floats, one_node
from tests.reference.witness import Case, witness

X, IMAGE = floats(1, 6, 4), floats(2, 1, 3, 5, 6)
Row = tuple[str, int, list[Array | None], tuple[str, ...], dict[str, Any]]


def ints(*values: Any) -> Array:
    return np.array(values, np.int64)


ONE, TWO = ("y",), ("a", "b")
ROWS: list[Row] = [
    ("Add", 14, [X, X.astype(np.int32)], ONE, {}),
    ("Acos", 22, [X.astype(np.int32)], ONE, {}),
    ("AveragePool", 19, [IMAGE], ONE, {"kernel_shape": [0, 2]}),
    ("AveragePool", 19, [IMAGE], ONE, {"kernel_shape": [9, 2]}),
    ("BitShift", 11, [np.ones(3, np.uint8), np.ones(3, np.uint8)], ONE, {"direction": "UP"}),
    ("BitShift", 11, [np.ones(3, np.uint8), np.ones(3, np.uint8)], ONE, {}),
    ("ConstantOfShape", 9, [np.array(3)], ONE, {}),
    ("Conv", 11, [IMAGE, floats(3, 2, 3, 3, 3), floats(4, 1)], ONE, {}),
    ("Conv", 11, [IMAGE, floats(3, 2, 3, 3, 3)], ONE, {"pads": [-1, 0, 0, 0]}),
    ("Conv", 11, [IMAGE, floats(3, 2, 3, 3, 3)], ONE, {"strides": [-1, 1]}),
    ("Conv", 11, [IMAGE[:, :, :2], floats(3, 2, 3, 3, 3)], ONE, {}),
    ("Conv", 11, [IMAGE[:, :, :0], floats(3, 2, 3, 1, 1)], ONE, {}),
    ("DepthToSpace", 13, [floats(1, 1, 4, 2, 2)], ONE, {"blocksize": 2, "mode": "OTHER"}),
    ("DequantizeLinear", 13, [np.zeros((2, 1, 3), np.uint8), floats(1, 5), np.zeros(5, np.uint8)], ONE, {}),
    ("Expand", 13, [X[0], np.array(4)], ONE, {}),
    ("Flatten", 13, [X], ONE, {"axis": 3}),
    ("Flatten", 13, [X], ONE, {"axis": -3}),
    ("GatherElements", 13, [X, ints(0, 1)], ONE, {}),
    ("GatherND", 13, [X, ints([[0]])], ONE, {"batch_dims": 1}),
    ("InstanceNormalization", 6, [IMAGE, floats(1, 1), floats(2, 1)], ONE, {}),
    ("LayerNormalization", 17, [X[:, :1], floats(1, 3)], ONE, {}),
    ("OneHot", 11, [ints(1), np.array(3), floats(1, 3)], ONE, {}),
    ("Pad", 13, [X, ints(6, 0, 0, 0)], ONE, {"mode": "reflect"}),
    ("RNN", 14, [floats(1, 3, 2, 4), floats(2, 1, 5, 4), floats(3, 1, 5, 5)], ONE, {"hidden_size": 6}),
    (
        "RNN",
        14,
        [floats(1, 3, 2, 4), floats(2, 1, 5, 4), floats(3, 1, 5, 5), None, np.array([4, 2], np.int32)],
        ONE,
        {"hidden_size": 5},
    ),
    ("Reshape", 13, [X, ints(6, -2)], ONE, {}),
    ("Reshape", 13, [X, ints([4, 6])], ONE, {}),
    ("Resize", 13, [IMAGE, None, np.ones(4, np.float32), ints(1, 3, 5, 6)], ONE, {}),
    ("Resize", 13, [IMAGE, None, np.array([1, 1, 0, 1], np.float32)], ONE, {}),
    ("ReverseSequence", 10, [X, ints(7, 1, 1, 1)], ONE, {"batch_axis": 1, "time_axis": 0}),
    ("ReverseSequence", 10, [X, ints(-1, 1, 1, 1)], ONE, {"batch_axis": 1, "time_axis": 0}),
    ("ScatterElements", 13, [X, np.zeros((2, 2), np.int64), floats(1, 1, 2)], ONE, {}),
    ("ScatterND", 13, [X, np.zeros((2, 1), np.int64), floats(1, 4)], ONE, {}),
    ("Slice", 13, [X, ints(0, 1), ints(4, 5), ints(0, 0)], ONE, {}),
    ("Slice", 13, [X, np.array(0), np.array(4)], ONE, {}),
    ("Split", 13, [X, ints(8, -2)], TWO, {}),
    ("Split", 13, [X, ints(2, 2, 2)], TWO, {}),
    ("Split", 18, [X, ints(2, 4)], TWO, {"num_outputs": 2}),
    ("Split", 18, [X], TWO, {}),
    ("SplitToSequence", 11, [X, ints(1, 2)], ONE, {}),
    ("SplitToSequence", 11, [X, np.array(-2)], ONE, {}),
    ("Squeeze", 13, [IMAGE, np.array(0)], ONE, {}),
    ("Tile", 13, [X, ints(-1, 1)], ONE, {}),
    ("TopK", 11, [X, ints(-1)], TWO, {}),
    ("Transpose", 13, [X], ONE, {"perm": [-1, 0]}),
    ("Trilu", 14, [X[0]], ONE, {}),
    ("Upsample", 9, [IMAGE, np.array([1, 1, 0.5, 1], np.float32)], ONE, {}),
]


def cases() -> list[Case]:
    return [one_node(op, opset, inputs, outputs, **attrs) for op, opset, inputs, outputs, attrs in ROWS]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0].graph.node[0].op_type)
def test_the_referee_refuses(case: Case) -> None:
    with pytest.raises(reference.Misfit if case[0].graph.node[0].op_type != "Pad" else reference.CannotEvaluate):
        reference.evaluate(ir.load(case[0]), case[1])


def test_so_does_onnxruntime(tmp_path: Path) -> None:
    drawn = cases()
    taken = [
        case[0].graph.node[0].op_type
        for case, answer in zip(drawn, witness(drawn, tmp_path), strict=True)
        if not isinstance(answer, str)
    ]
    assert taken == []


@pytest.mark.parametrize(
    ("op", "opset", "inputs", "attrs"),
    [
        ("Pad", 18, [X, ints(1, 0, 0, 0)], {"mode": "wrap"}),
        ("Resize", 18, [X, None, np.ones(2, np.float32)], {"coordinate_transformation_mode": "half_pixel_symmetric"}),
        ("ScatterElements", 16, [X, ints([0]), floats(1, 1, 1)], {"reduction": "max"}),
        ("ScatterND", 16, [X, ints([0]), floats(1, 1, 4)], {"reduction": "min"}),
    ],
)
def test_values_that_a_later_version_brings_are_refused_before_it(
    op: str, opset: int, inputs: list[Array | None], attrs: dict[str, Any]
) -> None:
    model, feeds = one_node(op, opset, inputs, **attrs)
    with pytest.raises(reference.Misfit, match="not in the operator text"):
        reference.evaluate(ir.load(model), feeds)
    later, feeds = one_node(op, 19, inputs, **attrs)
    assert reference.evaluate(ir.load(later), feeds)
