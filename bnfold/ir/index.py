"""Build the index over a graph's messages: producers and consumers of each value, captures included.

Runs once for every node and every weight of a model, so its loops touch each message as little as they can: a slice of
a repeated field comes three times as fast as its elements one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from bnfold.errors import MalformedModel
from bnfold.ir.graph import Graph, define_once
from bnfold.ir.messages import may_hold_graphs
from bnfold.ir.model import Model
from bnfold.ir.node import AP, Node
from bnfold.ir.value import Value

_HOLDS_GRAPH = (AP.GRAPH, AP.GRAPHS, AP.UNDEFINED)  # in files of IR version 1 the type is not said


def index_graph(model: Model, proto: onnx.GraphProto | onnx.FunctionProto, parent: Node | None, path: str) -> Graph:
    """Return the index of one graph and of everything nested in it.

    Raises MalformedModel if a name has two producers.
    """
    graph = Graph(model, proto, parent, path)
    model.indexed.append(graph)
    _index_interface(graph)
    _index_producers(graph)
    for node in graph.nodes:
        _index_reads(graph, node)
        if may_hold_graphs(node.op_type, node.domain):
            index_subgraphs(node)
    for name in proto.output if isinstance(proto, onnx.FunctionProto) else [info.name for info in proto.output]:
        value = graph.lookup(name)
        value.output_slots += 1
        graph.outputs.append(value)
    return graph


def _index_producers(graph: Graph) -> None:
    values, nodes = graph.values, graph.nodes
    for message in graph.proto.node[:]:
        node = Node(graph, message)
        nodes.append(node)
        outputs = node.outputs
        for name in message.output[:]:
            if not name:
                outputs.append(None)
                continue
            value = values[name] = define_once(graph, name) if name in values else Value(graph, name)
            value.producer, value.slot = node, len(outputs)
            outputs.append(value)


def _index_reads(graph: Graph, node: Node) -> None:
    inputs, values = node.inputs, graph.values
    for name in node.proto.input[:]:
        value = values.get(name) if name else None
        if value is None and name:
            value = graph.lookup(name)
        if value is not None:
            value.add_use(node, len(inputs))
        inputs.append(value)


def _index_interface(graph: Graph) -> None:
    proto = graph.proto
    if isinstance(proto, onnx.FunctionProto):
        graph.inputs = [_input(graph, name) for name in proto.input]
        _index_types(graph, getattr(proto, "value_info", ()))
        return
    graph.inputs = [_input(graph, info.name) for info in proto.input]
    values = graph.values
    for tensor in proto.initializer[:]:
        name = tensor.name
        value = values.get(name)
        if value is None:
            value = values[name] = Value(graph, name)
        if value.tensor_proto is not None:
            raise MalformedModel(f"the initializer {name!r} is stored twice")
        value.tensor_proto = tensor
    for sparse in proto.sparse_initializer:
        name = sparse.values.name
        known = graph.values.get(name) or graph.define(name)
        if known.is_initializer:
            raise MalformedModel(f"the initializer {name!r} is stored twice")
        graph.types[name] = onnx.helper.make_tensor_type_proto(sparse.values.data_type, sparse.dims)
    _index_types(graph, proto.input)
    _index_types(graph, proto.value_info)
    _index_types(graph, proto.output)


def _input(graph: Graph, name: str) -> Value:
    value = define_once(graph, name)
    value.is_input = True
    return value


def _index_types(graph: Graph, infos: Iterable[onnx.ValueInfoProto]) -> None:
    for info in infos:
        if info.HasField("type"):
            graph.types.setdefault(info.name, info.type)


def index_subgraphs(node: Node) -> None:
    """Index the graphs in the node's message, in place of those that it held before."""
    for body in node.bodies:
        body.dissolve()
    found = {
        name: [
            index_graph(node.graph.model, proto, node, _body_path(node, name, position, len(protos)))
            for position, proto in enumerate(protos)
        ]
        for name, protos in graphs_of(node.proto).items()
    }
    if found:
        node.subgraphs = found


def update_paths(node: Node) -> None:
    """Let the paths of the graphs in a node begin with what it makes first by now."""
    for name, bodies in node.subgraphs.items():
        for position, body in enumerate(bodies):
            body.path = _body_path(node, name, position, len(bodies))
            for inner in body.nodes:
                update_paths(inner)


def _body_path(node: Node, name: str, position: int, count: int) -> str:
    # Of the names a node has, that of its first output: two nodes may be called the same, but not make the same.
    label = next((value.name for value in node.outputs if value is not None), node.label)
    base = f"{node.graph.path}/{label}.{name}".lstrip("/")
    return base if count == 1 else f"{base}[{position}]"


def graphs_of(node: onnx.NodeProto) -> dict[str, list[onnx.GraphProto]]:
    """Return the graphs that a node holds, by attribute; of several attributes of one name the last counts."""
    found = {}
    for attribute in node.attribute:
        if attribute.type not in _HOLDS_GRAPH:
            continue
        protos = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        if protos:
            found[attribute.name] = protos
    return found
