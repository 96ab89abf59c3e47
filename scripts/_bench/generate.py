"""Script: write one model of the benchmark.

`generate.py OUT full NAME [OPSET]` or `generate.py OUT chain LENGTH CHANNELS KERNEL [external]`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _models import full
from _models.net import Net

# What opset 6 wants said that opset 9 takes for granted.
_AT_6 = {"BatchNormalization": {"is_test": 1}, "Gemm": {"broadcast": 1}}
_IR_VERSIONS = {6: 3, 9: 3, 15: 8, 22: 10}


def network(name: str, opset: int = 9) -> onnx.ModelProto:
    """A full network at opset 6, 9, 15 or 22.

    Other opsets than 9 are for resnet50 and shufflenet only, whose operators did not change in between.
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
    return model


def chain(length: int, channels: int, kernel: int) -> onnx.ModelProto:
    """`length` times Conv → BatchNormalization at opset 15, each with weights of its own."""
    net = Net(f"chain{length}", 15)
    y = net.input(["N", channels, 16, 16])
    for _ in range(length):
        y = net.bn(net.conv(y, channels, kernel))
    net.output(y, ["N", channels, 16, 16])
    return net.model()


def save(model: onnx.ModelProto, path: Path, external: bool) -> None:
    """Write `model`, weights beside it where `external`."""
    if not external:
        path.write_bytes(model.SerializeToString())
        return
    with path.with_name("model.onnx.data").open("wb") as data:
        for tensor in model.graph.initializer:
            _move(tensor, data.tell(), data.write(tensor.raw_data))
    path.write_bytes(model.SerializeToString())


def _move(tensor: TensorProto, offset: int, length: int) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "model.onnx.data"), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def main(out: str, kind: str, *recipe: str) -> None:
    """Make what `recipe` says."""
    if kind == "full":
        save(network(recipe[0], *(int(opset) for opset in recipe[1:])), Path(out), external=False)
    else:
        length, channels, kernel = (int(number) for number in recipe[:3])
        save(chain(length, channels, kernel), Path(out), external="external" in recipe)


if __name__ == "__main__":
    main(*sys.argv[1:])
