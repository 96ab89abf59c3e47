"""Small networks, and copies of them with other names."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bnfold import diffing, ir
from tests.conftest import MODELS


def network(name: str = "resnet_opset6.onnx") -> onnx.ModelProto:
    return onnx.load(MODELS / name)


def renamed(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """A copy in which inner values and weights have exchanged their names, and nodes have none."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    ends = {value.name for value in (*graph.input, *graph.output)} - {tensor.name for tensor in graph.initializer}
    names = {name for node in graph.node for name in (*node.input, *node.output)} - ends - {""}
    shuffled = sorted(names)
    random.Random(seed).shuffle(shuffled)
    called = dict(zip(sorted(names), shuffled, strict=True))
    _rename(graph, called)
    for each in (*graph.initializer, *graph.value_info, *graph.input):
        each.name = called.get(each.name, each.name)
    return copy


def _rename(graph: onnx.GraphProto, called: dict[str, str]) -> None:
    for node in graph.node:
        node.name = ""
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                field[index] = called.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, called)


def diff(before: onnx.ModelProto, after: onnx.ModelProto, **options: Any) -> dict[str, Any]:
    return diffing.diff(ir.load(before), ir.load(after), **{"values": False, **options})


def texts(before: onnx.ModelProto, after: onnx.ModelProto) -> list[str]:
    """What is told of every difference."""
    return [each["text"] for each in diff(before, after)["differences"]]


def model(*nodes: onnx.NodeProto, opset: int = 15, **weights: Any) -> onnx.ModelProto:
    """A model from ``x`` to ``y``, both of four floats."""
    x, y = ([helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4])] for name in "xy")
    tensors = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "main", x, y, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(op_type: str, read: str, made: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, read.split(), made.split(), **attributes)
