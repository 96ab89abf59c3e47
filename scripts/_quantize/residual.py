"""Small networks in the manner of MobileNetV2 and of ResNet: blocks around which a value passes unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from _quantize.network import CHANNELS, SIZE, Array

BLOCKS = 3


class Layers:
    """Convolutions with BatchNormalizations behind them, weights drawn."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [f"{name}_y"], name=name, **attributes))
        return f"{name}_y"

    def constant(self, name: str, array: npt.NDArray[Any]) -> str:
        self.weights[name] = array.astype(np.float32)
        return name

    def conv(self, x: str, dims: tuple[int, int, int], group: int = 1, *, relu: bool = True) -> str:
        """Append Conv of (out, in, kernel) → BatchNormalization → Relu."""
        out, into, kernel = dims
        name, shape = f"layer{len(self.nodes)}", (out, into // group, kernel, kernel)
        weight = self.rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        x = self.op("Conv", x, self.constant(f"{name}_w", weight), group=group, pads=[kernel // 2] * 4)
        scale = self.rng.uniform(0.3, 1.5, out)
        drawn = {"scale": scale, "b": scale * self.rng.normal(0.2, 0.3, out), "mean": 0 * scale, "var": 1 + 0 * scale}
        x = self.op("BatchNormalization", x, *(self.constant(f"{name}_{part}", array) for part, array in drawn.items()))
        return self.op("Relu", x) if relu else x


def make(kind: str, rng: np.random.Generator) -> onnx.ModelProto:
    """Build ``mobilenet`` (expand, depthwise, project, add) or ``resnet`` (two 3×3, add, Relu)."""
    net, x = Layers(rng), "x"
    for _ in range(BLOCKS):
        if kind == "mobilenet":
            wide = 3 * CHANNELS
            inner = net.conv(net.conv(x, (wide, CHANNELS, 1)), (wide, wide, 3), wide)
            x = net.op("Add", x, net.conv(inner, (CHANNELS, wide, 1), relu=False))
        else:
            inner = net.conv(net.conv(x, (CHANNELS, CHANNELS, 3)), (CHANNELS, CHANNELS, 3), relu=False)
            x = net.op("Relu", net.op("Add", x, inner))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    head = net.constant("head_w", rng.standard_normal((CHANNELS, 10)) * 0.3)
    y = net.op("Gemm", x, head, net.constant("head_b", rng.standard_normal(10)))
    image = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", CHANNELS, SIZE, SIZE])
    result = helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, ["N", 10])
    tensors = [numpy_helper.from_array(array, name) for name, array in net.weights.items()]
    graph = helper.make_graph(net.nodes, kind, [image], [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
