"""Constant nodes become initializers of the same name, type and bytes: runtimes do that when they load a model."""

from __future__ import annotations

import onnx

from bnfold.ir.model import Model
from bnfold.ir.node import AP, Node

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
    function, which has no initializers, and sparse ones. Unused ones stay too.
    """
    if model.proto.training_info:
        return 0
    model.sync()
    found = [
        (node, message)
        for graph in model.graphs()
        if isinstance(graph.proto, onnx.GraphProto)
        for node in graph.nodes
        if node.is_op("Constant") and _is_read_by_nodes_alone(node) and (message := held_tensor(node)) is not None
    ]
    for node, message in found:
        node.graph.store_output(node, message)
    return len(found)


def _is_read_by_nodes_alone(node: Node) -> bool:
    """Whether a node makes one value, of nothing, that nodes read and no graph lists as an output."""
    value = node.outputs[0] if len(node.outputs) == 1 and not node.inputs and not node.is_call else None
    return value is not None and not (value.is_output or value.is_unread)


def held_tensor(node: Node) -> onnx.TensorProto | None:
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
