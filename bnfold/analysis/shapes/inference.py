"""Types of values, from onnx's shape inference over the weight-free skeleton."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from graphlib import CycleError, TopologicalSorter

import onnx

from bnfold.analysis.constants import evaluated_once
from bnfold.analysis.shapes.disputed import may_be_unsure, unsure_axes
from bnfold.analysis.shapes.learned import hide_trees, state_learned
from bnfold.analysis.shapes.propagation import ELSEWHERE, SMALL, infer_by_onnx, needs_propagation, shown_constant
from bnfold.analysis.shapes.slices import infer_with_slices
from bnfold.analysis.shapes.weights import contradicts_weights
from bnfold.analysis.traits import READS_VALUES
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import to_raw
from bnfold.ir.graph import Graph, state_opset
from bnfold.ir.index import graphs_of
from bnfold.ir.messages import FunctionKey, function_key, nested_nodes, tensors_of
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.tensor import Inline, Tensor
from bnfold.ir.types import filled, forget_shapes, without_sizes, without_zeros
from bnfold.ir.value import Value, shape_of

MAX_NODES = 1_000_000
MAX_DEPTH = 100


def is_bounded(proto: onnx.ModelProto) -> bool:
    """Whether the model stays within reason, and no function calls itself."""
    if not proto.functions:
        return True
    functions = {function_key(one): one for one in proto.functions}
    calls = {key: _called(function.node, functions) for key, function in functions.items()}
    sizes: dict[FunctionKey, tuple[int, int]] = {}
    try:
        for key in TopologicalSorter({key: called for key, (_, called) in calls.items()}).static_order():
            sizes[key] = _total(*calls[key], sizes)
            if sizes[key][0] > MAX_NODES or sizes[key][1] > MAX_DEPTH:
                return False
    except CycleError:
        return False
    own, called = _called(proto.graph.node, functions)
    return _total(own, called, sizes)[0] <= MAX_NODES


def _total(own: int, called: Iterable[FunctionKey], sizes: dict[FunctionKey, tuple[int, int]]) -> tuple[int, int]:
    inner = [sizes[key] for key in called]
    return own + sum(nodes for nodes, _ in inner), 1 + max((depth for _, depth in inner), default=0)


def _called(
    nodes: Iterable[onnx.NodeProto], functions: dict[FunctionKey, onnx.FunctionProto]
) -> tuple[int, list[FunctionKey]]:
    """Return how many nodes there are, at any depth, and which functions they call, as often as they do."""
    count, called = 0, []
    for node in nested_nodes(nodes):
        count += 1
        key = function_key(node)
        if key in functions:
            called.append(key)
    return count, called


_INTEGERS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
_SMALL_BYTES = SMALL * 8
"""No shape takes more, and neither do the factors of a Resize."""


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


def infer_shapes(
    model: Model, *, strict: bool = False, known: Mapping[Value, Tensor] | None = None
) -> frozenset[Value]:
    """Give every value that has no type, or one without a rank, what onnx's inference says; return disputed values.

    Of those, runtimes may infer other sizes than they compute. Only the index learns types, the file's own annotations
    stay as they are. Failing inference leaves them unknown, or raises Unsupported if it is ``strict``. The numbers of
    computed values may be ``known``.
    """
    model.sync()
    if not is_bounded(model.proto):
        return frozenset()  # inference would follow the calls for ever, or until the stack ends
    if any(map(is_damaged, model.graph.values.values())):  # inference would make room for all that it claims to hold
        if strict:
            raise Unsupported("shape inference fails: the dims of a tensor do not fit its bytes")
        return frozenset()
    try:
        proto = _copied(model)
        with evaluated_once(model):
            _show_constants(model, proto, known or {})
            run = partial(infer_by_onnx, strict=strict, propagate=needs_propagation(model))
        plain = inferred = infer_with_slices(proto, run)
        unsure = _unsure(model, inferred)
        is_wrong = contradicts_weights(model)
        if unsure or is_wrong:
            _hide(model, proto, unsure)
            _state_stored(model, proto)
            inferred = infer_with_slices(proto, run)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        if strict:
            first = str(error).split("\n", 1)[0].removeprefix("[ShapeInferenceError] Inference error(s): ")
            raise Unsupported(f"shape inference fails: {first}") from error
        return frozenset()  # onnx gives up on models that run all the same; what is not known stays unknown
    disputed = _sized_values(model, plain) - _sized_values(model, inferred) if unsure else ()
    _learn(model, inferred, annotated=not (unsure or is_wrong))
    return frozenset(disputed)


def inference_input(model: Model) -> onnx.ModelProto | None:
    """Return a copy of the skeleton that onnx's inference can read; None for a model that it must not be given."""
    model.sync()
    if not is_bounded(model.proto) or any(map(is_damaged, model.graph.values.values())):
        return None
    return _copied(model)


def _copied(model: Model) -> onnx.ModelProto:
    proto = deepcopy(model.proto)
    state_opset(proto)  # onnx infers nothing without
    for info in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        info.type.CopyFrom(without_zeros(info.type))
    hide_trees(proto)
    for graph, message in _pairs(model, proto.graph):
        state_learned(graph, message)
    _state_stored(model, proto)
    _show_numbers(model, proto)
    return proto


def _sized_values(model: Model, inferred: onnx.ModelProto) -> set[Value]:
    """Return the values whose sizes are all declared."""
    return {
        graph.values[info.name]
        for graph, message in _pairs(model, inferred.graph)
        for info in (*message.value_info, *message.output)
        if info.name in graph.values and all(isinstance(dim, int) for dim in shape_of(info.type) or [None])
    }


def _learn(model: Model, inferred: onnx.ModelProto, *, annotated: bool) -> None:
    """Take over the types; of what is ``annotated``, only what the annotation leaves open."""
    shared: dict[bytes, onnx.TypeProto] = {}  # most values of a network are of few types
    for target, source in _pairs(model, inferred.graph):
        for info in (info for info in (*source.value_info, *source.output) if info.HasField("type")):
            known = target.types.get(info.name)
            if known is not None and known == info.type:
                continue
            fresh = filled(known if annotated else None, info.type)
            if fresh is known:
                continue
            content = fresh.SerializeToString(deterministic=True)
            if content not in shared:
                shared[content] = deepcopy(fresh)  # which does not keep the whole inferred model in memory
            target.types[info.name] = shared[content]


def _pairs(model: Model, message: onnx.GraphProto) -> Iterator[tuple[Graph, onnx.GraphProto]]:
    """Yield the main graph and all that are nested in it, each with its message in a copy of the model."""
    stack = [(model.graph, message)]
    while stack:
        graph, source = stack.pop()
        yield graph, source
        for node, inner in zip(graph.nodes, source.node, strict=True):
            held = graphs_of(inner) if node.subgraphs else {}
            for name, children in node.subgraphs.items():
                stack.extend(zip(children, held[name], strict=True))


Unsure = dict[Node, onnx.TypeProto]
"""Nodes that make an uncertain size, and the type of their first output without it."""


def _unsure(model: Model, inferred: onnx.ModelProto) -> Unsure:
    asked = {node for node in model.nodes() if may_be_unsure(node) or _merges_branches(node)}
    if not asked:
        return {}
    found: Unsure = {}
    infos: dict[str, onnx.ValueInfoProto] = {}
    for graph, message in _pairs(model, inferred.graph):
        infos.update((info.name, info) for info in (*message.input, *message.value_info, *message.output))
        for node, inner in zip(graph.nodes, message.node, strict=True):
            x, made = node.input(0), node.output(0)
            if node not in asked or made is None or made.name not in infos:
                continue
            kind = infos[made.name].type
            told = shape_of(infos[x.name].type) if x is not None and x.name in infos else None
            dims = [None] * len(shape_of(kind) or ()) if told is None else told
            if axes := unsure_axes(node, dims):
                found[node] = without_sizes(kind, axes)
            elif _merges_branches(node) and (unlike := _unlike_axes(inner, kind)):
                found[node] = without_sizes(kind, unlike)
    return found


def may_be_misstated(model: Model) -> bool:
    """Whether inference may find that annotations of the model are wrong, or that runtimes disagree about a size."""
    return any(may_be_unsure(node) or _merges_branches(node) for node in model.nodes()) or contradicts_weights(model)


def _merges_branches(node: Node) -> bool:
    """Whether onnx infers a size of an If from one branch, even if the other branch may have another one."""
    return node.is_op("If") and node.graph.opset() < 11


def _unlike_axes(node: onnx.NodeProto, kind: onnx.TypeProto) -> set[int]:
    """Return the axes of the first output whose size is not the same number in all branches, as these were inferred."""
    ends = [branch.output[0].type for (branch, *_) in graphs_of(node).values() if branch.output]
    shapes = [tuple(shape_of(end) or ()) for end in ends]
    sizes = ((axis, size) for axis, size in enumerate(shape_of(kind) or ()) if isinstance(size, int))
    return {axis for axis, size in sizes if any(shape[axis : axis + 1] != (size,) for shape in shapes)}


def _hide(model: Model, proto: onnx.ModelProto, unsure: Unsure) -> None:
    """Put such nodes into another domain, and drop all annotations: those may follow from the sizes."""
    proto.opset_import.add(domain=ELSEWHERE, version=1)
    for graph, message in _pairs(model, proto.graph):
        del message.value_info[:]
        forget_shapes(message.output)
        for node, inner in zip(graph.nodes, message.node, strict=True):
            if node in unsure:
                inner.domain = ELSEWHERE
                message.value_info.add(name=inner.output[0], type=unsure[node])


def _state_stored(model: Model, proto: onnx.ModelProto) -> None:
    """State the shapes of outputs that are stored: where one is the axes of a Slice, onnx does not find its numbers."""
    for graph, message in _pairs(model, proto.graph):
        for info in message.output:
            value = graph.values.get(info.name)
            if value is not None and value.tensor_proto is not None and not info.type.tensor_type.HasField("shape"):
                info.type.tensor_type.shape.SetInParent()
                for size in value.tensor_proto.dims:
                    info.type.tensor_type.shape.dim.add(dim_value=size)


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


def _show_constants(model: Model, proto: onnx.ModelProto, numbers: Mapping[Value, Tensor]) -> None:
    """Store what is computed from constants, and what is given, where the main graph's operators read its values."""
    consumers = [
        (index, slot, value)
        for index, node in enumerate(model.graph.nodes)
        if node.op_type in READS_VALUES and not node.domain
        for slot, value in enumerate(node.inputs)
        if value is not None and value.producer is not None and not value.producer.is_op("Constant")
    ]
    known = {value: numbers.get(value) or shown_constant(value) for _, _, value in consumers}
    for index, slot, value in consumers:
        held, name = known[value], f"{value.name}:{index}:{slot}"
        if held is not None and not model.has_name(name):
            proto.graph.node[index].input[slot] = name
            proto.graph.initializer.append(onnx.numpy_helper.from_array(held.numpy(), name))


def _may_be_read(model: Model, proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield tensors whose numbers inference may want; only models with external data have tokens of small ones."""
    if not model.origin.has_external_data:
        yield from (tensor for tensor in proto.graph.initializer if tensor.data_type in _INTEGERS)
        return
    yield from tensors_of((proto.graph, *proto.functions))
