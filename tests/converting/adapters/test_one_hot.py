"""OneHot 11 → 9: places that count from the end."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.errors import UpgradeBlocked
from tests.verification.graphs import Weights, model

PLACES = np.array([-1, 0, 2, -4, -5, 4, -9])


@pytest.mark.parametrize("opset", [9, 10])
@pytest.mark.parametrize("depth", [np.array(4), np.array([4])], ids=["scalar", "list"])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32])
def test_constant_places_that_count_from_the_end_are_turned(opset: int, depth: np.ndarray, kind: type) -> None:
    """Those beyond either end are nowhere."""
    weights = {"i": PLACES.astype(kind), "d": depth, "v": np.array([2.0, 5.0], np.float32)}
    proto = model("(float[7,4] x) => (float[7,4] y) { h = OneHot (i, d, v)  y = Add (x, h) }", weights, opset=11)
    made = bnfold.convert(proto, opset=opset).to_proto()  # raises where results differ
    onnx.checker.check_model(made, full_check=True)
    hot = made.graph.node[0]
    (array,) = (onnx.numpy_helper.to_array(held) for held in made.graph.initializer if held.name == hot.input[0])
    assert array.tolist() == [3, 0, 2, 0, 4, 4, 4]


def test_places_in_front_of_an_unknown_end_are_refused() -> None:
    weights: Weights = {"i": PLACES, "v": np.array([2.0, 5.0], np.float32)}
    proto = model("(int64 d) => (float[7,K] y) { y = OneHot (i, d, v) }", weights, opset=11)
    with pytest.raises(UpgradeBlocked, match="a depth that is no constant"):
        bnfold.convert(proto, opset=9)


def test_other_places_stay() -> None:
    weights: Weights = {"i": np.array([0, 3]), "d": np.array(4), "v": np.array([2.0, 5.0], np.float32)}
    proto = model("(float[2,4] x) => (float[2,4] y) { h = OneHot (i, d, v)  y = Add (x, h) }", weights, opset=11)
    assert [node.op_type for node in bnfold.convert(proto, opset=9).to_proto().graph.node] == ["OneHot", "Add"]


def test_a_top_of_none_is_refused() -> None:
    """Version 1 counts at least one."""
    proto = model(
        "(float[2,4] x) => (float[2,0] y, int64[2,0] i) { y, i = TopK (x, k) }", {"k": np.array([0])}, opset=11
    )
    with pytest.raises(UpgradeBlocked, match="has k=0"):
        bnfold.convert(proto, opset=9)
