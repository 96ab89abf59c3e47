"""Constant nodes become initializers of the same name, type and bytes: runtimes do that when they load a model."""

from __future__ import annotations

import onnx

from bnfold.ir.graph import Graph
from bnfold.ir.model import Model
from bnfold.ir.node import AP, Node
from bnfold.ir.value import Value, shape_of

_LISTS = {
    "value_float": (onnx.TensorProto.FLOAT, "f"),
    "value_floats": (onnx.TensorProto.FLOAT, "floats"),
    "value_int": (onnx.TensorProto.INT64, "i"),
    "value_ints": (onnx.TensorProto.INT64, "ints"),
    "value_string": (onnx.TensorProto.STRING, "s"),
    "value_strings": (onnx.TensorProto.STRING, "strings"),
}
"""The element type of each literal, and the field of its attribute."""


def lift_constants(model: Model) -> int:
    """Make initializers of Constant nodes, and return of how many.

    Those stay that a graph lists as an output, which runtimes want a node to make. So do those in the body of a
    function, which has no initializers, and sparse ones. What nobody reads stays too.
    """
    if model.proto.training_info:
        return 0
    model.sync()
    found = [
        (node, value, message)
        for graph in model.graphs()
        if isinstance(graph.proto, onnx.GraphProto)
        for node in graph.nodes
        if node.is_op("Constant") and (value := _value(node)) is not None and (message := _tensor(node)) is not None
    ]
    for node, value, message in found:
        _lift(node.graph, node, value, message)
    return len(found)


def _value(node: Node) -> Value | None:
    """Return what a node makes, where it is one value that nodes alone read."""
    value = node.outputs[0] if len(node.outputs) == 1 and not node.inputs and not node.is_call else None
    return None if value is None or value.is_output or value.is_unread else value


def _tensor(node: Node) -> onnx.TensorProto | None:
    """Return the tensor that a Constant holds; None where it is another kind, or several are said."""
    if len(node.proto.attribute) != 1 or node.has_references:
        return None
    (attribute,) = node.proto.attribute
    if attribute.name == "value":
        return attribute.t if attribute.type in (AP.TENSOR, AP.UNDEFINED) and attribute.HasField("t") else None
    dtype, field = _LISTS.get(attribute.name, (0, ""))
    if not field or attribute.type != AP.AttributeType.Value(_KINDS[field]):
        return None
    held = getattr(attribute, field)
    is_one = field in ("f", "i", "s")
    return onnx.helper.make_tensor("", dtype, () if is_one else (len(held),), [held] if is_one else held)


_KINDS = {"f": "FLOAT", "floats": "FLOATS", "i": "INT", "ints": "INTS", "s": "STRING", "strings": "STRINGS"}


def _lift(graph: Graph, node: Node, value: Value, message: onnx.TensorProto) -> None:
    assert isinstance(graph.proto, onnx.GraphProto), "a function's nodes are left out"
    stored = graph.proto.initializer.add()
    stored.CopyFrom(message)
    stored.name = value.name
    graph.remove(node)
    graph.adopt(value)
    value.tensor_proto = stored
    if shape_of(value.type) != tuple(stored.dims):
        graph.forget_type(value)
