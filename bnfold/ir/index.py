"""Build the index over a graph's messages: who makes a value, who reads it, captured reads included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import onnx

from bnfold.errors import MalformedModel
from bnfold.ir.graph import Graph, define_once
from bnfold.ir.node import Node

if TYPE_CHECKING:
    from bnfold.ir.model import Model


def index_graph(
    model: Model, proto: onnx.GraphProto | onnx.FunctionProto, parent: Node | None, path: str
) -> Graph:
    """The index of one graph and of everything nested in it. Raises MalformedModel where a name has two makers."""
    graph = Graph(model, proto, parent, path)
    _index_interface(graph)
    for message in proto.node:
        node = Node(graph, message)
        graph._nodes.append(node)
        for slot, name in enumerate(message.output):
            value = define_once(graph, name) if name else None
            node.outputs.append(value)
            if value is not None:
                value.producer, value.slot = node, slot
    for node in graph._nodes:
        for slot, name in enumerate(node.proto.input):
            value = graph.lookup(name) if name else None
            node.inputs.append(value)
            if value is not None:
                value.uses[node, slot] = None
        _index_subgraphs(node)
    for name in (proto.output if isinstance(proto, onnx.FunctionProto) else [info.name for info in proto.output]):
        value = graph.lookup(name)
        value.output_slots += 1
        graph.outputs.append(value)
    return graph


def _index_interface(graph: Graph) -> None:
    proto = graph.proto
    if isinstance(proto, onnx.FunctionProto):
        for name in proto.input:
            value = define_once(graph, name)
            value.is_input = True
            graph.inputs.append(value)
        _index_types(graph, getattr(proto, "value_info", ()))
        return
    for info in proto.input:
        value = define_once(graph, info.name)
        value.is_input = True
        graph.inputs.append(value)
    for tensor in proto.initializer:
        value = graph.values.get(tensor.name) or graph.define(tensor.name)
        if value.tensor_proto is not None:
            raise MalformedModel(f"the initializer {tensor.name!r} is stored twice")
        value.tensor_proto = tensor
    for sparse in proto.sparse_initializer:
        define_once(graph, sparse.values.name)
    _index_types(graph, proto.input)
    _index_types(graph, proto.value_info)
    _index_types(graph, proto.output)


def _index_types(graph: Graph, infos: Iterable[onnx.ValueInfoProto]) -> None:
    for info in infos:
        if info.HasField("type"):
            graph.types.setdefault(info.name, info.type)


def _index_subgraphs(node: Node) -> None:
    graph = node.graph
    for attribute in node.proto.attribute:
        if attribute.HasField("g"):
            protos = [attribute.g]
        elif attribute.graphs:
            protos = list(attribute.graphs)
        else:
            continue
        base = f"{graph.path}/{node.label}.{attribute.name}".lstrip("/")
        node.subgraphs[attribute.name] = [
            index_graph(graph.model, proto, node, base if len(protos) == 1 else f"{base}[{position}]")
            for position, proto in enumerate(protos)
        ]
