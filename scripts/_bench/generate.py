"""Script: write one model of the benchmark.

`generate.py OUT full NAME [OPSET [SIDE]]`, `generate.py OUT mobilenet` or
`generate.py OUT chain LENGTH CHANNELS KERNEL [external]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, helper

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _models import full
from _models.net import Net
from _models.weights import Array, fill

# Attributes that opset 6 requires and opset 9 does not have.
_AT_6 = {"BatchNormalization": {"is_test": 1}, "Gemm": {"broadcast": 1}}
_SIDE = 224
_IR_VERSIONS = {6: 3, 9: 3, 15: 8, 22: 10}


def network(name: str, opset: int = 9, side: int = 224) -> onnx.ModelProto:
    """Build a full network at opset 6, 9, 15 or 22; a ``side`` other than its own gets a larger last pooling.

    Opsets other than 9 are for resnet50 and shufflenet only, whose operators did not change in between.
    """
    model = full.make(name)
    model.opset_import[0].version = opset
    model.ir_version = _IR_VERSIONS[opset]
    for node in model.graph.node if opset == 6 else ():
        node.attribute.extend(helper.make_attribute(*item) for item in _AT_6.get(node.op_type, {}).items())
    if opset > 9:
        weights = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in weights]
        del model.graph.input[:]
        model.graph.input.extend(inputs)
    if side != _SIDE:
        _resize(model.graph, side)
    return model


def _resize(graph: onnx.GraphProto, side: int) -> None:
    for dim in graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = side
    del graph.value_info[:]
    last = next(node for node in reversed(graph.node) if node.op_type == "AveragePool")
    kernel = next(attribute for attribute in last.attribute if attribute.name == "kernel_shape")
    kernel.ints[:] = [size * side // _SIDE for size in kernel.ints]


def chain(length: int, channels: int, kernel: int) -> Net:
    """Build a chain of `length` times Conv → BatchNormalization at opset 15, each with weights of its own."""
    net = Net(f"chain{length}", 15)
    y = net.input(["N", channels, 16, 16])
    for _ in range(length):
        y = net.bn(net.conv(y, channels, kernel))
    net.output(y, ["N", channels, 16, 16])
    return net


# Expansion, channels, repetitions and stride of each stage (Sandler et al. 2018, table 2).
_STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def mobilenet() -> Net:
    """Build MobileNetV2, 14 MB, at opset 12: 52 times Conv → BatchNormalization, a third of them depthwise."""
    net = Net("mobilenet_v2", 12)
    y = net.input(["N", 3, 224, 224])
    bounds = [net.constant("low", np.zeros((), np.float32)), net.constant("high", np.full((), 6.0, np.float32))]

    def layer(x: str, channels: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        return net.op("Clip", net.bn(net.conv(x, channels, kernel, stride=stride, group=group)), *bounds)

    y = layer(y, 32, 3, 2)
    for expansion, channels, repetitions, stride in _STAGES:
        for repetition in range(repetitions):
            x, wide = y, net.channels[y] * expansion
            y = layer(y, wide, 1) if expansion > 1 else y
            y = layer(y, wide, 3, stride if repetition == 0 else 1, wide)
            y = net.bn(net.conv(y, channels, 1))
            y = net.op("Add", x, y) if repetition else y
    y = net.op("Flatten", net.op("GlobalAveragePool", layer(y, 1280, 1)))
    net.output(net.dense(y, 1000), ["N", 1000])
    return net


def save_external(net: Net, path: Path) -> None:
    """Write the network with its weights beside it, never holding them more than once."""
    weights = fill(net.nodes, net.shapes, net.draw)
    net.shapes = {}
    with path.with_name("model.onnx.data").open("wb") as data:
        net.given |= {name: _reference(name, array, data) for name, array in weights.items()}
    path.write_bytes(net.model().SerializeToString())


def _reference(name: str, array: Array, data: BinaryIO) -> TensorProto:
    tensor = TensorProto(name=name, dims=array.shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "model.onnx.data"), ("offset", data.tell()), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    data.write(array.tobytes())
    return tensor


def main(out: str, kind: str, *recipe: str) -> None:
    """Write the model that `recipe` describes."""
    path = Path(out)
    if kind == "full":
        model = network(recipe[0], *(int(opset) for opset in recipe[1:]))
        path.write_bytes(model.SerializeToString())
        return
    if kind == "mobilenet":
        path.write_bytes(mobilenet().model().SerializeToString())
        return
    length, channels, kernel = (int(number) for number in recipe[:3])
    net = chain(length, channels, kernel)
    if "external" in recipe:
        save_external(net, path)
    else:
        path.write_bytes(net.model().SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
