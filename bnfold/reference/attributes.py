"""Attribute values and stored tensors as kernels want them: as arrays, references to attributes resolved."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.ir.node import attribute_value
from bnfold.ir.sparse import dense
from bnfold.reference.precision import Precision, admitted
from bnfold.reference.registry import Attribute

Bindings = Mapping[str, Attribute]
"""The attributes a function was called with, by name; empty outside functions."""


def resolve(node: ir.Node, bindings: Bindings, precision: Precision) -> dict[str, Attribute]:
    """Return the attributes that a node sets. One that refers to an attribute its caller left out is left out, too."""
    attrs: dict[str, Attribute] = {}
    for attribute in node.proto.attribute:
        if not attribute.ref_attr_name:
            attrs[attribute.name] = _value(node, attribute, precision)
        elif attribute.ref_attr_name in bindings:
            attrs[attribute.name] = bindings[attribute.ref_attr_name]
    return attrs


def function_bindings(function: ir.Graph, given: Bindings) -> dict[str, Attribute]:
    """Return what a function's body sees: the caller's attributes over the function's own defaults."""
    defaults = {attribute.name: attribute_value(attribute) for attribute in function.proto.attribute_proto}
    return {**defaults, **given}


def _value(node: ir.Node, attribute: onnx.AttributeProto, precision: Precision) -> Attribute:
    if attribute.name in node.subgraphs:
        graphs = node.subgraphs[attribute.name]
        return graphs[0] if attribute.HasField("g") else graphs
    value = attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return admitted(_stored(node, value).numpy(), precision)
    if isinstance(value, onnx.SparseTensorProto):
        return admitted(dense(node.graph.model, value), precision)
    return value


def _stored(node: ir.Node, proto: onnx.TensorProto) -> ir.Tensor:
    """Return a tensor attribute.

    Until the model is synced, what edits made of a Constant's tensor stands with its value.
    """
    output = node.output(0)
    if node.is_op("Constant") and output is not None and output.tensor is not None:
        return output.tensor
    return node.graph.model.tensor(proto)


def stored_array(value: ir.Value) -> Array | None:
    """Return what the file stores under a value's name; None if a node computes it, or a caller feeds it."""
    if value.tensor is not None:
        return value.tensor.numpy()
    sparse = sparse_of(value)
    return None if sparse is None else dense(value.graph.model, sparse)


def sparse_of(value: ir.Value) -> onnx.SparseTensorProto | None:
    """Return the message of a sparse initializer."""
    stored = getattr(value.graph.proto, "sparse_initializer", ())
    return next((sparse for sparse in stored if sparse.values.name == value.name), None)
