"""Between the messages of a graph and its index: build the index, and write edits of it back.

Building runs once for every node and every weight of a model, so its loops touch each message as little as they can: a
slice of a repeated field comes three times as fast as its elements one by one. When edits are written, messages are
identified by object, never by name: names are taken over by other values, and may be doubled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import onnx

from bnfold.errors import MalformedModel
from bnfold.ir.elements import RAW_TYPES, to_raw
from bnfold.ir.graph import Graph, define_once
from bnfold.ir.messages import may_hold_graphs
from bnfold.ir.node import AP, Node
from bnfold.ir.storage.payloads import THRESHOLD
from bnfold.ir.tensor import Inline, Tensor
from bnfold.ir.value import Value

if TYPE_CHECKING:
    from bnfold.ir.model import Model

_HOLDS_GRAPH = (AP.GRAPH, AP.GRAPHS, AP.UNDEFINED)  # in files of IR version 1 the type is not said


def index_graph(model: Model, proto: onnx.GraphProto | onnx.FunctionProto, parent: Node | None, path: str) -> Graph:
    """Return the index of one graph and of everything nested in it.

    Raises MalformedModel if a name has two producers.
    """
    graph = Graph(model, proto, parent, path)
    model.add_graph(graph)
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


_CONTENT = (
    *("dims", "data_type", "segment", "raw_data", "external_data", "data_location"),
    *("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"),
)


def write_graph(model: Model, graph: Graph) -> None:
    """Write new tensors, the order of nodes, dropped initializers, and the names of type annotations."""
    for value in graph.touched_tensors:
        message, tensor = _message(value), value.pending_tensor
        if message is not None and tensor is not None:
            _fill(model, message, tensor)
    if graph.order_changed:
        _keep(graph.proto.node, [node.proto for node in graph.nodes])
    if graph.dropped_tensors and isinstance(graph.proto, onnx.GraphProto):
        _drop(graph.proto.initializer, graph.dropped_tensors)
    if graph.renamed or graph.dropped_names:
        _write_types(graph)
    graph.touched_tensors, graph.dropped_tensors, graph.order_changed = {}, [], False
    graph.renamed, graph.dropped_names = {}, set()


def _message(value: Value) -> onnx.TensorProto | None:
    """Return where a constant's TensorProto is: among the initializers, or in the Constant node that makes it."""
    if value.tensor_proto is not None:
        return value.tensor_proto
    node = value.producer
    if node is None or not node.is_op("Constant"):
        return None
    if "value" not in node.attrs:
        for name in node.attrs:
            node.del_attr(name)
        node.set_attr("value", onnx.TensorProto())
    return node.attrs["value"].t


def _fill(model: Model, message: onnx.TensorProto, tensor: Tensor) -> None:
    _set_form(message, tensor)
    if isinstance(tensor, Inline) and tensor.is_reference:
        _fill_rare(message, tensor)
    elif tensor.nbytes >= THRESHOLD:
        message.raw_data = model.payloads.add(tensor)
    elif tensor.dtype in RAW_TYPES:
        message.raw_data = bytes(to_raw(tensor.numpy(), tensor.dtype))
    else:
        _fill_rare(message, tensor)


def _set_form(message: onnx.TensorProto, tensor: Tensor) -> None:
    """Set type and dims, and room for raw_data; the message's name, its text and its metadata stay."""
    if message.HasField("raw_data") and message.data_type == tensor.dtype and tuple(message.dims[:]) == tensor.dims:
        return
    for field in _CONTENT:
        message.ClearField(field)
    message.data_type = tensor.dtype
    message.dims.extend(tensor.dims)


def _fill_rare(message: onnx.TensorProto, tensor: Tensor) -> None:
    """Fill in strings, sub-byte elements and references to external data, in onnx's own form."""
    source = tensor.proto if isinstance(tensor, Inline) else onnx.numpy_helper.from_array(tensor.numpy())
    content = deepcopy(source)
    for field in ("name", "doc_string", "data_type", "dims", "metadata_props"):
        content.ClearField(field)
    message.ClearField("raw_data")
    message.MergeFrom(content)


def _keep(messages: Any, wanted: list[Any]) -> None:
    """Let a repeated field hold the ``wanted`` ones of its messages, in that order."""
    order = {id(message): position for position, message in enumerate(wanted)}
    messages.sort(key=lambda message: order.get(id(message), len(order)))
    if wanted and messages[len(wanted) - 1] is not wanted[-1]:
        raise MemoryError("protobuf lost track of its messages")  # as it does, silently, where it gets no more memory
    del messages[len(order) :]


def _drop(messages: Any, unwanted: Collection[Any]) -> None:
    gone = {id(message) for message in unwanted}
    if gone:
        kept = sum(id(message) not in gone for message in messages[:])
        messages.sort(key=lambda message: id(message) in gone)  # stable: the others keep their order
        del messages[kept:]


def _write_types(graph: Graph) -> None:
    """Write types in one step for all: a name may have passed from a value that is gone to one that is renamed."""
    infos = getattr(graph.proto, "value_info", None)
    if infos is None:
        return
    _drop(infos, [info for info in infos if info.name in graph.dropped_names])
    names = {old: value.name for value, old in graph.renamed.items()}
    for info in infos:
        if info.name in names:
            info.name = names[info.name]
