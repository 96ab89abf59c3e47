"""Attribute values as kernels want them: tensors as arrays, references to a function's attributes resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from bnfold import ir
from bnfold.ir.node import attribute_value
from bnfold.reference.precision import Precision, widen

Bindings = Mapping[str, Any]
"""The attributes a function was called with, by name; empty outside functions."""


def resolve(node: ir.Node, bindings: Bindings, precision: Precision) -> dict[str, Any]:
    """The attributes a node spells out. One that refers to an attribute its caller left out is left out, too."""
    attrs: dict[str, Any] = {}
    for attribute in node.proto.attribute:
        if not attribute.ref_attr_name:
            attrs[attribute.name] = _value(node, attribute, precision)
        elif attribute.ref_attr_name in bindings:
            attrs[attribute.name] = bindings[attribute.ref_attr_name]
    return attrs


def function_bindings(function: ir.Graph, given: Bindings) -> dict[str, Any]:
    """What a function's body sees: the caller's attributes over the function's own defaults."""
    defaults = {attribute.name: attribute_value(attribute) for attribute in function.proto.attribute_proto}
    return {**defaults, **given}


def _value(node: ir.Node, attribute: onnx.AttributeProto, precision: Precision) -> Any:
    if attribute.name in node.subgraphs:
        graphs = node.subgraphs[attribute.name]
        return graphs[0] if attribute.HasField("g") else graphs
    value = attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return _admit(_stored(node, value).numpy(), precision)
    if isinstance(value, onnx.SparseTensorProto):
        return _admit(_dense(node, value), precision)
    return value


def _stored(node: ir.Node, proto: onnx.TensorProto) -> ir.Tensor:
    """A tensor attribute. What edits made of a Constant node's tensor stands with the value until the model is synced."""
    output = node.output(0)
    if node.is_op("Constant") and output is not None and output.tensor is not None:
        return output.tensor
    return node.graph.model.tensor(proto)


def _dense(node: ir.Node, proto: onnx.SparseTensorProto) -> Any:
    values = node.graph.model.tensor(proto.values).numpy()
    indices = node.graph.model.tensor(proto.indices).numpy()
    dense = np.zeros(tuple(proto.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense


def _admit(array: Any, precision: Precision) -> Any:
    return widen(array) if precision == "float64" else array
