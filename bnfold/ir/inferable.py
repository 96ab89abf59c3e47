"""A model as onnx's shape inference can read it: the skeleton with the small numbers that the file stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import chain

import onnx

from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import to_raw
from bnfold.ir.expansion import is_bounded
from bnfold.ir.graph import Graph, state_opset
from bnfold.ir.index import graphs_of
from bnfold.ir.messages import nested_nodes, tensors_of
from bnfold.ir.model import Model
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.ir.tensor import Inline
from bnfold.ir.types import without_zeros
from bnfold.ir.value import Value

GIVES_UP = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError)
"""What onnx's inference raises for models that it does not take; some of them run all the same."""
ELSEWHERE = "bnfold.unsure"
"""A domain whose operators inference does not know."""
_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
_SMALL_BYTES = 512
"""No shape takes more, and neither do the factors of a Resize."""


def inference_input(model: Model) -> onnx.ModelProto | None:
    """Return a copy of the skeleton that onnx's inference can read; None for a model that it must not be given."""
    model.sync()
    if not is_bounded(model.proto):  # inference would follow the calls for ever, or until the stack ends
        return None
    if any(map(is_damaged, model.graph.values.values())):  # it would make room for all that a tensor claims to hold
        return None
    proto = deepcopy(model.proto)
    state_opset(proto)  # onnx infers nothing without
    for info in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        info.type.CopyFrom(without_zeros(info.type))
    nodes = list(nested_nodes(chain(proto.graph.node, *(function.node for function in proto.functions))))
    _hide_trees(proto, nodes)
    _state_onesided(nodes)
    state_stored(model, proto)
    _show_numbers(model, proto)
    return proto


def refusal(error: Exception) -> Unsupported:
    """Return one line about why onnx's strict inference gave up (`GIVES_UP`)."""
    first = str(error).split("\n", 1)[0].removeprefix("[ShapeInferenceError] Inference error(s): ")
    return Unsupported(f"shape inference fails: {first}")


def is_damaged(value: Value) -> bool:
    """Whether a small weight's dims do not fit its bytes; those of large ones are checked when they are loaded."""
    tensor = value.tensor if value.tensor_proto is not None else None
    if not isinstance(tensor, Inline) or (
        0 < tensor.nbytes == len(tensor.proto.raw_data) and min(tensor.dims, default=0) >= 0
    ):
        return False
    try:
        tensor.numpy()
    except BnfoldError:
        return True
    return False


def graph_pairs(model: Model, message: onnx.GraphProto) -> Iterator[tuple[Graph, onnx.GraphProto]]:
    """Yield the main graph and all that are nested in it, each with its message in a copy of the model."""
    stack = [(model.graph, message)]
    while stack:
        graph, source = stack.pop()
        yield graph, source
        for node, inner in zip(graph.nodes, source.node, strict=True):
            held = graphs_of(inner) if node.subgraphs else {}
            for name, children in node.subgraphs.items():
                stack.extend(zip(children, held[name], strict=True))


def state_stored(model: Model, proto: onnx.ModelProto) -> None:
    """State the shapes of outputs that are stored: where one is the axes of a Slice, onnx does not find its numbers."""
    for graph, message in graph_pairs(model, proto.graph):
        for info in message.output:
            value = graph.values.get(info.name)
            if value is not None and value.tensor_proto is not None and not info.type.tensor_type.HasField("shape"):
                info.type.tensor_type.shape.SetInParent()
                for size in value.tensor_proto.dims:
                    info.type.tensor_type.shape.dim.add(dim_value=size)


def _hide_trees(proto: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Put each TreeEnsemble into a domain that onnx does not know: it crashes where the type of an input is unknown."""
    trees = [node for node in nodes if node.domain == MACHINE_LEARNING and node.op_type == "TreeEnsemble"]
    for node in trees:
        node.domain = ELSEWHERE
    if trees:
        proto.opset_import.add(domain=ELSEWHERE, version=1)


def _state_onesided(nodes: Iterable[onnx.NodeProto]) -> None:
    """State the default of each STFT, which is 1: onnx's inference takes a missing one for 0."""
    for node in nodes:
        if node.op_type == "STFT" and not node.domain and all(each.name != "onesided" for each in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("onesided", 1))


def _show_numbers(model: Model, proto: onnx.ModelProto) -> None:
    """Put in the small tensors whose bytes are not there, and a mark that they are elsewhere on long integers.

    Their tokens would be read as numbers: as shapes, say, with unpredictable results.
    """
    for tensor in _may_be_read(model, proto):
        held = model.payloads.get(tensor.raw_data)
        if held is not None and held.nbytes <= _SMALL_BYTES:
            tensor.raw_data = bytes(to_raw(held.numpy(), held.dtype))
        elif held is not None and tensor.data_type in _INTEGERS:
            tensor.data_location = onnx.TensorProto.EXTERNAL  # inference then leaves them alone


def _may_be_read(model: Model, proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield tensors whose numbers inference may want; only models with external data have tokens of small ones."""
    if not model.origin.has_external_data:
        yield from (tensor for tensor in proto.graph.initializer if tensor.data_type in _INTEGERS)
        return
    yield from tensors_of((proto.graph, *proto.functions))
