"""onnx's own light networks, made heavy: real architectures of 2017, with weights, which the package leaves out."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

from _models.weights import Array, Draw, fill

NETWORKS = {
    "resnet50": "light_resnet50.onnx",
    "densenet121": "light_densenet121.onnx",
    "inception_v2": "light_inception_v2.onnx",
    "shufflenet": "light_shufflenet.onnx",
}
_LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def write(name: str, folder: Path) -> Path:
    """Write the network `name` with weights into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    path.write_bytes(make(name).SerializeToString(deterministic=True))
    return path


def make(name: str) -> onnx.ModelProto:
    """Make the light network `name` (opset 9, IR 3) with an initializer, also an input, for each generated weight.

    The files had this form before onnx made them light: there a ConstantOfShape generates each weight.
    """
    model = onnx.load(_LIGHT / NETWORKS[name])
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    hollow = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    shapes = {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    for node in hollow:
        shapes[node.output[0]] = tuple(int(d) for d in numpy_helper.to_array(tensors[node.input[0]]))
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    weights = fill(nodes, shapes, Draw(name))
    dropped = {node.input[0] for node in hollow} | weights.keys()
    kept = [tensor for tensor in graph.initializer if tensor.name not in dropped]
    inputs = [value for value in graph.input if value.name not in dropped]
    _replace(graph.node, nodes)
    _replace(graph.input, [*inputs, *(_input(key, array) for key, array in weights.items())])
    _replace(graph.initializer, [*kept, *(numpy_helper.from_array(array, key) for key, array in weights.items())])
    return model


def _input(name: str, array: Array) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(array.shape))


def _replace(field: MutableSequence[Any], items: Sequence[Any]) -> None:
    """Replace the elements: a repeated field has no assignment."""
    del field[:]
    field.extend(items)
