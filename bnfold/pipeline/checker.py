"""onnx's checker over a model without its weights, small ones included: nodes, types and names are what it judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx

from bnfold import ir
from bnfold.ir.messages import tensors_of
from bnfold.ir.storage import wire


def checker_error(model: ir.Model) -> str:
    """What the checker says of the model; empty when it is content."""
    try:
        onnx.checker.check_model(_outline(model))
    except onnx.checker.ValidationError as error:
        return str(error).split("\n", 1)[0]
    except UnicodeDecodeError:
        return "a text in it is not UTF-8"  # which the checker quotes
    return ""


def _outline(model: ir.Model) -> bytes:
    """The encoded skeleton with empty tensors, put together field by field.

    As a copy of the message it would be the largest object of the whole run, at 40,000 nodes.
    """
    model.sync()
    graph = model.proto.graph
    frame = onnx.ModelProto()
    _copy_fields(model.proto, frame, but=("graph",))
    _copy_fields(graph, frame.graph, but=("initializer", "node"))
    _hide_tokens(model, tensors_of(frame.functions))
    body = bytearray()
    _append(body, 1, (_encoded(model, node) for node in graph.node))
    _append(body, 5, _named_alone(graph.initializer))
    # A field given twice is one, merged.
    return b"".join((frame.SerializeToString(), wire.length_prefix(7, len(body)), body))


_REMARKS = ("doc_string", "producer_name", "producer_version")
"""Texts that nobody judges: old exporters wrote them in encodings other than UTF-8, and they stay as they are."""


def _append(body: bytearray, field: int, contents: Iterable[bytes]) -> None:
    for content in contents:
        body += wire.length_prefix(field, len(content))
        body += content


def _named_alone(tensors: Iterable[onnx.TensorProto]) -> Iterator[bytes]:
    """Each tensor with its name and type, and without elements."""
    empty = onnx.TensorProto(dims=(0,))
    for tensor in tensors:
        empty.name, empty.data_type = tensor.name, tensor.data_type
        yield empty.SerializeToString()


def _encoded(model: ir.Model, node: onnx.NodeProto) -> bytes:
    encoded = bytes(node.SerializeToString())
    if model.payloads.nonce not in encoded:
        return encoded
    alone = onnx.GraphProto(node=[node])
    _hide_tokens(model, tensors_of([alone]))
    return bytes(alone.node[0].SerializeToString())


def _copy_fields(source: Any, target: Any, *, but: tuple[str, ...]) -> None:
    for field in source.DESCRIPTOR.fields:
        if field.name in (*but, *_REMARKS):
            continue
        content = getattr(source, field.name)
        if hasattr(content, "MergeFrom"):  # a message, or a repeated field
            getattr(target, field.name).MergeFrom(content)
        elif source.HasField(field.name):
            setattr(target, field.name, content)


def _hide_tokens(model: ir.Model, tensors: Iterable[onnx.TensorProto]) -> None:
    """Empty the tensors that lie elsewhere: the length of a token says nothing."""
    for tensor in tensors:
        if model.payloads.get(tensor.raw_data) is not None:
            tensor.raw_data = b""
            tensor.dims[:] = [0]
