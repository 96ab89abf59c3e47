"""onnxruntime's own operators, beside what they are made of; and in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from bnfold import ir, reference
from bnfold.reference.shapes import ShapeWalk
from tests.reference.models import Array, floats

Feeds = dict[str, Array]


def node(op_type: str, feeds: Feeds, inputs: list[str], **attributes: Any) -> onnx.ModelProto:
    helper = onnx.helper
    made = helper.make_node(op_type, inputs, ["y"], domain="com.microsoft", **attributes)
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in feeds.items()]
    graph = helper.make_graph([made], "g", infos, [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)])
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def same_in_onnxruntime(model: onnx.ModelProto, feeds: Feeds) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)[0]
    loaded = ir.load(model)
    walk = ShapeWalk(loaded)
    value = loaded.graph.values["y"]
    assert (walk.dims(value), walk.dtype(value)) == (expected.shape, onnx.TensorProto.FLOAT)
    np.testing.assert_allclose(reference.evaluate(ir.load(model), feeds)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("activation", "numbers"),
    [
        *((name, []) for name in ("", "Relu", "Sigmoid", "Tanh")),
        ("LeakyRelu", [0.3]),
        ("Clip", [-0.2, 0.7]),
        ("HardSigmoid", [0.3, 0.4]),
    ],
)
@pytest.mark.parametrize("added", [True, False])
def test_fused_conv(activation: str, numbers: list[float], added: bool) -> None:
    feeds = {"x": floats(1, 2, 4, 5, 5), "w": floats(2, 4, 2, 2, 2)}
    attributes: dict[str, Any] = {"group": 2, "pads": [1, 0, 0, 1], "auto_pad": "NOTSET"}
    attributes |= {"activation": activation} if activation else {}
    attributes |= {"activation_params": numbers} if numbers else {}
    inputs = ["x", "w"]
    if added:
        feeds |= {"b": floats(3, 4), "z": floats(4, 2, 4, 5, 5)}
        inputs += ["b", "z"]
    same_in_onnxruntime(node("FusedConv", feeds, inputs, **attributes), feeds)


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("stack", [(), (2,)])
def test_fused_matmul(turned: tuple[int, int], stack: tuple[int, ...]) -> None:
    a, b = floats(1, *stack, 3, 4), floats(2, 4, 5)
    feeds = {"a": a.swapaxes(-1, -2) if turned[0] else a, "b": b.T if turned[1] else b}
    feeds = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
    model = node("FusedMatMul", feeds, ["a", "b"], transA=turned[0], transB=turned[1], alpha=0.5)
    same_in_onnxruntime(model, feeds)


@pytest.mark.parametrize(
    ("shapes", "attributes", "reason"),
    [
        (((2, 3, 4), (4, 5)), {"transBatchA": 1}, "turns stacks"),
        (((3, 4), (3,)), {"transA": 1}, "reads a vector"),
    ],
)
def test_forms_that_onnxruntime_computes_in_its_own_way(
    shapes: tuple[tuple[int, ...], ...], attributes: dict[str, int], reason: str
) -> None:
    feeds = {name: floats(1, *shape) for name, shape in zip("ab", shapes, strict=True)}
    loaded = ir.load(node("FusedMatMul", feeds, ["a", "b"], **attributes))
    with pytest.raises(reference.CannotEvaluate, match=reason):
        reference.evaluate(loaded, feeds)
    if "transBatchA" in attributes:
        assert ShapeWalk(loaded).dims(loaded.graph.values["y"]) is None


def test_what_is_unknown() -> None:
    feeds = {"x": floats(1, 1, 2, 3, 3), "w": floats(2, 2, 2, 1, 1), "z": floats(3, 1, 2, 3, 1)}
    with pytest.raises(reference.CannotEvaluate, match="activation 'Elu'"):
        reference.evaluate(ir.load(node("FusedConv", feeds, ["x", "w"], activation="Elu")), feeds)
    with pytest.raises(reference.CannotEvaluate, match="another shape"):
        reference.evaluate(ir.load(node("FusedConv", feeds, ["x", "w", "", "z"])), feeds)
    with pytest.raises(reference.CannotEvaluate, match="required input"):
        reference.evaluate(ir.load(node("FusedConv", feeds, ["x", ""])), feeds)
