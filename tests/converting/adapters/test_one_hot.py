"""OneHot 11 → 9: places that count from the end."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import bnfold
from bnfold.errors import ConversionBlocked
from tests.converting.conftest import run
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


def test_stored_places_are_cast_before_they_are_counted() -> None:
    """So -0.5 is the first place, and not half a place before the end."""
    weights: Weights = {
        "i": np.array([-0.5, -1.5, 1.5], np.float32),
        "d": np.array(3.7, np.float32),
        "v": np.array([2.0, 5.0], np.float32),
    }
    proto = model("(float[3,3] x) => (float[3,3] y) { h = OneHot (i, d, v)  y = Add (x, h) }", weights, opset=11)
    made = bnfold.convert(proto, opset=9).to_proto()
    (places,) = (held for held in made.graph.initializer if held.name == made.graph.node[0].input[0])
    assert onnx.numpy_helper.to_array(places).tolist() == [0, 2, 1]


FED = np.array([[-1, 0, 2, -4], [-5, 4, -9, 3]])


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize(
    ("kind", "depth"),
    [
        ("int64", "int64 d"),
        ("int64", "int64[1] d"),
        ("int32", "int32 d"),
        ("float", "float d"),
        ("int64", ""),
    ],
)
def test_places_of_callers_are_counted_from_the_front(kind: str, depth: str, axis: int) -> None:
    """Version 9 forbids negative ones; runtimes count them as version 11 does, so what OneHot reads is looked at."""
    weights: Weights = {"v": np.array([2.0, 5.0], np.float32)} | ({} if depth else {"d": np.array([4])})
    inputs = f"{kind}[2,4] i" + (f", {depth}" if depth else "")
    proto = model(f"({inputs}) => (float[a,b,c] y) {{ y = OneHot <axis = {axis}> (i, d, v) }}", weights, opset=11)
    made = bnfold.convert(proto, opset=9).to_proto()
    onnx.checker.check_model(made, full_check=True)
    feeds = {"i": FED.astype(onnx.helper.tensor_dtype_to_np_dtype(proto.graph.input[0].type.tensor_type.elem_type))}
    if depth:
        size = proto.graph.input[1].type.tensor_type
        feeds["d"] = np.full([1] * len(size.shape.dim), 4, onnx.helper.tensor_dtype_to_np_dtype(size.elem_type))
    places = next(node.input[0] for node in made.graph.node if node.op_type == "OneHot")
    made.graph.output.append(onnx.helper.make_tensor_value_info(places, onnx.TensorProto.INT64, ["a", "b"]))
    results = run(made, feeds)
    np.testing.assert_array_equal(results["y"], run(proto, feeds)["y"])
    assert results[places].tolist() == [[3, 0, 2, 0], [4, 4, 4, 3]]


@pytest.mark.parametrize("body", ["k = Abs (i)  h = ArgMax <axis = 0> (k)", "h = Cast <to = 2> (i)"])
def test_places_that_are_never_negative_stay(body: str) -> None:
    weights: Weights = {"d": np.array(4), "v": np.array([2.0, 5.0], np.float32)}
    proto = model(f"(float[2,4] i) => (float[a,b,c] y) {{ {body}  y = OneHot (h, d, v) }}", weights, opset=11)
    assert bnfold.convert(proto, opset=9).to_proto().graph.node[-1].op_type == "OneHot"
    assert len(bnfold.convert(proto, opset=9).to_proto().graph.node) == len(proto.graph.node)


def test_stored_places_in_front_of_an_unknown_end_are_counted_as_well() -> None:
    weights: Weights = {"i": PLACES, "v": np.array([2.0, 5.0], np.float32)}
    proto = model("(int64 d) => (float[7,K] y) { y = OneHot (i, d, v) }", weights, opset=11)
    made = bnfold.convert(proto, opset=9).to_proto()
    for depth in (2, 4, 9):
        feeds = {"d": np.array(depth)}
        np.testing.assert_array_equal(run(made, feeds)["y"], run(proto, feeds)["y"])


def test_other_places_stay() -> None:
    weights: Weights = {"i": np.array([0, 3]), "d": np.array(4), "v": np.array([2.0, 5.0], np.float32)}
    proto = model("(float[2,4] x) => (float[2,4] y) { h = OneHot (i, d, v)  y = Add (x, h) }", weights, opset=11)
    assert [node.op_type for node in bnfold.convert(proto, opset=9).to_proto().graph.node] == ["OneHot", "Add"]


def test_a_top_of_none_is_refused() -> None:
    """Version 1 counts at least one."""
    proto = model(
        "(float[2,4] x) => (float[2,0] y, int64[2,0] i) { y, i = TopK (x, k) }", {"k": np.array([0])}, opset=11
    )
    with pytest.raises(ConversionBlocked, match="has k=0"):
        bnfold.convert(proto, opset=9)
