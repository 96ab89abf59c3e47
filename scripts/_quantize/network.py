"""A network in the manner of MobileNet with channels as uneven as chosen, and true statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Array = npt.NDArray[np.float32]
CHANNELS, SIZE, BLOCKS = 24, 12, 3


def make(decades: float, rng: np.random.Generator) -> onnx.ModelProto:
    """Build blocks of 1×1 Conv → BN → Relu → depthwise Conv → BN → Relu.

    The first BatchNormalization of a block spreads its channels' scales over ``decades`` powers of ten. The second one
    evens them out again, as in trained networks: its variance is that of its input.
    """
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, Array] = {}
    value = "x"
    for block in range(BLOCKS):
        for kind, group, kernel in (("point", 1, 1), ("depth", CHANNELS, 3)):
            name = f"{kind}{block}"
            shape = (CHANNELS, CHANNELS // group, kernel, kernel)
            fan = np.sqrt(2 / np.prod(shape[1:]))
            weights[f"{name}_w"] = (rng.standard_normal(shape) * fan).astype(np.float32)
            scale = 10 ** rng.uniform(-decades, 0, CHANNELS) if kind == "point" else rng.uniform(0.7, 1.4, CHANNELS)
            shift = scale * rng.normal(0.3, 0.3, CHANNELS)
            for part, array in (("scale", scale), ("b", shift), ("mean", 0 * scale), ("var", 1 + 0 * scale)):
                weights[f"{name}_{part}"] = array.astype(np.float32)
            pads = [kernel // 2] * 4
            nodes += [
                helper.make_node("Conv", [value, f"{name}_w"], [f"{name}_c"], name=name, group=group, pads=pads),
                helper.make_node(
                    "BatchNormalization",
                    [f"{name}_c", *(f"{name}_{part}" for part in ("scale", "b", "mean", "var"))],
                    [f"{name}_n"],
                    name=f"{name}_bn",
                ),
                helper.make_node("Relu", [f"{name}_n"], [f"{name}_r"], name=f"{name}_relu"),
            ]
            value = f"{name}_r"
    weights["head_w"] = (rng.standard_normal((10, CHANNELS, 1, 1)) * 0.3).astype(np.float32)
    nodes.append(helper.make_node("Conv", [value, "head_w"], ["y"], name="head"))
    image = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", CHANNELS, SIZE, SIZE])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 10, SIZE, SIZE])
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "uneven", [image], [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


def settle(model: onnx.ModelProto, data: Array) -> onnx.ModelProto:
    """Give each BatchNormalization, front to back, the mean and variance of its input on ``data``."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            found = run(watched(model, node.input[0]), data)[0].astype(np.float64)
            for name, value in zip(node.input[3:5], (found.mean((0, 2, 3)), found.var((0, 2, 3))), strict=True):
                held[name].CopyFrom(numpy_helper.from_array(value.astype(np.float32), name))
    return model


def watched(model: onnx.ModelProto, value: str) -> onnx.ModelProto:
    """Return the model with an inner value as its only output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.add(name=value)
    return copy


def run(model: onnx.ModelProto, data: Array) -> list[Any]:
    """Run the model in onnxruntime, as the file has it, nothing fused."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": data}))
