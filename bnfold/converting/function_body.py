"""The last resort on the way down: onnx's own function body in the place of a node, its nodes lowered in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.ir.schemas import schema_of


def expand(conversion: NodeConversion, version: int) -> tuple[list[ir.Node], int]:
    """Put the body of the node's function in its place; return its nodes in order, and the opset that they are of.

    Raises:
        Inexpressible: onnx has no body for this node.
    """
    node = conversion.node
    body = _body_of(conversion, version)
    opset = next(entry.version for entry in body.opset_import if not entry.domain)
    values: dict[str, ir.Value | None] = dict.fromkeys(body.input)
    values.update(zip(body.input, node.inputs, strict=False))
    outputs = [value if value is not None and not value.is_unread else None for value in node.outputs]
    for index, value in enumerate(node.outputs):
        if value is not None:
            conversion.divert(index, "replaced")
    wanted = {name: value for name, value in zip(body.output, outputs, strict=False) if value is not None}
    attributes = _attributes(node, version)
    made = [_inserted(conversion, proto, values, wanted, attributes) for proto in _needed(body.node, wanted)]
    node.graph.remove(node)
    conversion.touched = conversion.finished = conversion.replaced = True
    return made, opset


def _body_of(conversion: NodeConversion, version: int) -> onnx.FunctionProto:
    """Return the body that is written for the lowest opset."""
    schema: Any = schema_of(conversion.node.op_type, version)  # whose stubs lack these methods
    proto = conversion.node.proto
    if schema.has_function:
        opset = min(schema.function_opset_versions)
        encoded = schema.get_function_with_opset_version(opset)
    elif schema.has_context_dependent_function:
        types = [onnx.TypeProto() if value is None else _type_of(conversion, value) for value in conversion.node.inputs]
        opset = min(schema.context_dependent_function_opset_versions)
        given = [kind.SerializeToString() for kind in types]
        encoded = schema.get_context_dependent_function_with_opset_version(opset, proto.SerializeToString(), given)
    else:
        encoded = b""
    if not encoded:
        raise Inexpressible(f"does not exist before opset {version}, and has no function body for this form")
    body = onnx.FunctionProto()
    body.ParseFromString(encoded)
    return body


def _type_of(conversion: NodeConversion, value: ir.Value) -> onnx.TypeProto:
    conversion.context.types.recall()
    return value.type or onnx.helper.make_tensor_type_proto(conversion.dtype(value), conversion.shape(value))


def _needed(nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the wanted outputs follow from, in order."""
    needed, kept = set(wanted), []
    for proto in reversed(nodes):
        if needed & set(proto.output):
            kept.append(proto)
            needed.update(proto.input)
            needed.update(name for graph in _graphs(proto) for name in _read_in(graph))
    return kept[::-1]


def _graphs(proto: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    return [attribute.g for attribute in proto.attribute if attribute.type == onnx.AttributeProto.GRAPH]


def _read_in(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a graph reads, its own among them, and gives back."""
    found = {info.name for info in graph.output}
    for proto in graph.node:
        found.update(proto.input)
        found.update(name for inner in _graphs(proto) for name in _read_in(inner))
    return found


def _attributes(node: ir.Node, version: int) -> Mapping[str, onnx.AttributeProto]:
    """Return the attributes of the call, with the defaults of those that it leaves out."""
    stated = {
        name: attribute.default_value
        for name, attribute in schema_of(node.op_type, version).attributes.items()
        if attribute.default_value.name
    }
    return stated | dict(node.attrs)


def _inserted(
    conversion: NodeConversion,
    proto: onnx.NodeProto,
    values: dict[str, ir.Value | None],
    wanted: Mapping[str, ir.Value],
    attributes: Mapping[str, onnx.AttributeProto],
) -> ir.Node:
    """Insert one node of the body in front of the node that it belongs to."""
    graph = conversion.graph
    outputs: list[ir.Value | None] = []
    for name in proto.output:
        value = wanted.get(name) or (graph.fresh(f"{conversion.label}_{name}") if name else None)
        values[name] = value
        outputs.append(value)
    inputs = [values.get(name) if name else None for name in proto.input]
    name = conversion.node_name(proto.op_type.lower())
    made = graph.insert(proto.op_type, inputs, outputs, before=conversion.node, name=name)
    made.replace_attrs(_resolved(conversion, proto.attribute, values, attributes))
    if any(True for _ in _graphs(made.proto)):
        ir.index_subgraphs(made)
    conversion.added.append(made)
    return made


def _resolved(
    conversion: NodeConversion,
    found: Iterable[onnx.AttributeProto],
    values: Mapping[str, ir.Value | None],
    attributes: Mapping[str, onnx.AttributeProto],
) -> list[onnx.AttributeProto]:
    """Return attributes as they are of this call; graphs have names that are no others' in the model."""
    made = []
    for attribute in found:
        entry = onnx.AttributeProto()
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in attributes:
                continue
            entry.CopyFrom(attributes[attribute.ref_attr_name])
            entry.name = attribute.name
        else:
            entry.CopyFrom(attribute)
        if entry.type == onnx.AttributeProto.GRAPH:
            names = {name: value.name for name, value in values.items() if value is not None}
            _rename(conversion, entry.g, names, attributes)
        made.append(entry)
    return made


def _rename(
    conversion: NodeConversion,
    graph: onnx.GraphProto,
    outer: Mapping[str, str],
    attributes: Mapping[str, onnx.AttributeProto],
) -> None:
    """Rename values of a graph in the body: fresh names for its results, names of the call for captured values."""
    names = dict(outer)
    own = [*(info.name for info in graph.input), *(tensor.name for tensor in graph.initializer)]
    for name in dict.fromkeys([*own, *(name for proto in graph.node for name in proto.output if name)]):
        names[name] = conversion.graph.model.fresh_name(f"{conversion.label}_{name}")
    for holder in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        holder.name = names.get(holder.name, holder.name)
    for proto in graph.node:
        for field in (proto.input, proto.output):
            field[:] = [names.get(name, name) for name in field]
        proto.name = conversion.node_name(proto.op_type.lower())
        entries = []
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name not in attributes:
                    continue
                entry = onnx.AttributeProto()
                entry.CopyFrom(attributes[attribute.ref_attr_name])
                entry.name = attribute.name
                entries.append(entry)
                continue
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(conversion, attribute.g, names, attributes)
            entries.append(attribute)
        copies = [onnx.AttributeProto.FromString(entry.SerializeToString()) for entry in entries]
        del proto.attribute[:]
        proto.attribute.extend(copies)
