"""Bring the messages of a graph in line with the edits made to its index.

Messages are identified by object, never by name: names are taken over by other values, and may be doubled.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from typing import Any

import onnx

from bnfold.ir.elements import RAW_TYPES, to_raw
from bnfold.ir.graph import Graph
from bnfold.ir.model import Model
from bnfold.ir.storage.payloads import THRESHOLD
from bnfold.ir.tensor import Inline, Tensor
from bnfold.ir.value import Value

_CONTENT = (
    *("dims", "data_type", "segment", "raw_data", "external_data", "data_location"),
    *("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"),
)


def write(model: Model, graph: Graph) -> None:
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
