"""Small models to try the weight-free model on, and a reader of the wire format that shares no code with bnfold's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bnfold import ir
from bnfold.ir.messages import tensor_messages
from bnfold.ir.storage.source import BufferSource
from bnfold.ir.storage.stored import Span, Stored

Array = np.ndarray[Any, Any]
LARGE = 2048
"""Elements of float32 beyond the threshold from which on payloads stay outside."""


def weight(name: str, *dims: int, seed: int = 0, dtype: Any = np.float32) -> onnx.TensorProto:
    """A tensor of random numbers as raw_data."""
    values = np.random.default_rng([seed, len(name)]).normal(size=dims) * 10
    return numpy_helper.from_array(values.astype(dtype), name)


def stored(values: np.ndarray[Any, Any], dtype: int, *, before: int = 7) -> Stored:
    """A tensor in the middle of a buffer."""
    data = values.tobytes()
    return Stored(dtype, values.shape, Span(BufferSource(bytes(before) + data + b"tail"), before, len(data)), "w")


def info(name: str, *dims: Any, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def model(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 15,
    ir_version: int = 8,
    **more: Any,
) -> onnx.ModelProto:
    """A model of float values of one unknown dim."""
    graph = helper.make_graph(
        nodes, "main", [info(name, "N") for name in inputs], [info(name, "N") for name in outputs], weights, **more
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def chain(weights: int = 3, size: int = LARGE) -> onnx.ModelProto:
    """``x + w0 + w1 + …`` with weights that stay outside the skeleton."""
    names = ["x", *(f"s{index}" for index in range(weights - 1)), "y"]
    nodes = [helper.make_node("Add", [names[i], f"w{i}"], [names[i + 1]], name=f"add{i}") for i in range(weights)]
    return model(nodes, [weight(f"w{index}", size, seed=index) for index in range(weights)])


def everywhere() -> onnx.ModelProto:
    """Large tensors in every place that can hold one."""
    branch = helper.make_graph(
        [helper.make_node("Add", ["s", "inner"], ["b"])], "branch", [], [info("b", "N")], [weight("inner", LARGE + 1)]
    )
    nodes = [
        helper.make_node("Constant", [], ["k"], value=weight("", LARGE + 2)),
        helper.make_node("If", ["c"], ["s2"], name="choice", then_branch=branch, else_branch=branch),
        helper.make_node("Sum", ["x", "w", "k", "s2"], ["y"]),
        helper.make_node("Foreign", [], ["z"], domain="custom", many=[weight("p", LARGE), weight("q", LARGE + 5)]),
        helper.make_node("Constant", [], ["sparse"], sparse_value=_sparse("", LARGE + 6)),
        helper.make_node("Local", ["x"], ["l"], domain="local"),
    ]
    proto = model(nodes, [weight("w", LARGE)], inputs=["x", "s", "c"], opset=15)
    proto.graph.sparse_initializer.append(_sparse("thin", LARGE + 7))
    body = [
        helper.make_node("Constant", [], ["k"], value=weight("", LARGE + 3)),
        helper.make_node("Add", ["a", "k"], ["b"]),
    ]
    proto.functions.append(helper.make_function("local", "Local", ["a"], ["b"], body, [helper.make_opsetid("", 15)]))
    proto.training_info.add().algorithm.CopyFrom(helper.make_graph([], "training", [], [], [weight("rate", LARGE + 4)]))
    return proto


def _sparse(name: str, count: int) -> onnx.SparseTensorProto:
    indices = numpy_helper.from_array(np.arange(count, dtype=np.int64), f"{name}_indices")
    return helper.make_sparse_tensor(weight(name, count), indices, [2 * count])


def written(model: ir.Model | onnx.ModelProto, path: Path, **options: Any) -> onnx.ModelProto:
    """What stands in the file after saving, read by onnx, external data included."""
    ir.save(model if isinstance(model, ir.Model) else ir.load(model), path, **options)
    return read(path)


def names(folder: Path) -> set[str]:
    """What lies in a folder."""
    return {path.name for path in folder.iterdir()}


def read(path: Path) -> onnx.ModelProto:
    """The model with its weights inside. onnx leaves a note on those it fetched, which goes, so that models compare."""
    proto = onnx.load(path)
    for tensor in tensor_messages(proto):
        if tensor.data_location == TensorProto.DEFAULT:
            tensor.ClearField("data_location")
    return proto


def fields(data: bytes) -> list[tuple[int, int, bytes]]:
    """(number, wire type, content) of every field of an encoded message, plainly. IndexError, KeyError for others."""
    found, position = list[tuple[int, int, bytes]](), 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(data):
        key = number()
        start = position
        if key & 7 == 2:
            length = number()
            start, position = position, position + length
        elif key & 7 == 0:
            number()
        else:
            position += {1: 8, 5: 4}[key & 7]
        if position > len(data) or key < 8:
            raise IndexError("a field that is none")
        found.append((key >> 3, key & 7, data[start:position]))
    return found
