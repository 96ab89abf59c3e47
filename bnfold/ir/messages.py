"""The ways through the messages of a model: its nodes, and its tensors, at any depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import onnx

FunctionKey = tuple[str, str, str]
"""Domain, name and overload."""


def function_key(message: onnx.FunctionProto | onnx.NodeProto) -> FunctionKey:
    """Return what a function and the nodes that call it have in common."""
    name = message.op_type if isinstance(message, onnx.NodeProto) else message.name
    return "" if message.domain == "ai.onnx" else message.domain, name, getattr(message, "overload", "")


def nested_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes, and those of the graphs that they hold."""
    stack = [nodes]
    while stack:
        for node in stack.pop():
            yield node
            if may_hold_graphs(node.op_type, node.domain):
                stack.extend(graph.node for graph in _held(node))


def nested_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph, and those that its nodes hold."""
    stack = [graph]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph.node:
            if may_hold_graphs(node.op_type, node.domain):
                stack += _held(node)


def _held(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        found += [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
    return found


@cache
def may_hold_graphs(op_type: str | bytes, domain: str) -> bool:
    """Whether attributes may be graphs: looking through those of every node is slow."""
    if domain or isinstance(op_type, bytes) or not onnx.defs.has(op_type):  # bytes are no UTF-8
        return True
    kinds = {attribute.type for attribute in onnx.defs.get_schema(op_type).attributes.values()}
    return onnx.defs.OpSchema.AttrType.GRAPH in kinds or onnx.defs.OpSchema.AttrType.GRAPHS in kinds


def tensor_messages(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every TensorProto of the model."""
    for training in proto.training_info:
        yield from tensors_of((training.initialization, training.algorithm))
    yield from tensors_of((proto.graph, *proto.functions))


def tensors_of(holders: Iterable[onnx.GraphProto | onnx.FunctionProto]) -> Iterator[onnx.TensorProto]:
    """Yield every TensorProto of graphs and functions, and of the graphs that their nodes and attributes hold."""
    graphs, attributes = list(holders), []
    while graphs:
        graph = graphs.pop()
        if isinstance(graph, onnx.FunctionProto):
            attributes.append(graph.attribute_proto)
        else:
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        attributes += [node.attribute for node in graph.node if node.attribute]
        while attributes:
            for attribute in attributes.pop():
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
                found = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
                for sparse in (*found, *attribute.sparse_tensors):
                    yield from (sparse.values, sparse.indices)
                graphs += [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
