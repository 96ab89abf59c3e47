"""Types of values, from onnx's shape inference over the weight-free skeleton."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial

import onnx

from bnfold.analysis.constants import evaluated_once
from bnfold.analysis.shapes.disputed import may_be_unsure, unsure_axes
from bnfold.analysis.shapes.learned import state_learned
from bnfold.analysis.shapes.propagation import infer_by_onnx, needs_propagation, shown_constant
from bnfold.analysis.shapes.slices import infer_with_slices
from bnfold.analysis.shapes.weights import contradicts_weights
from bnfold.analysis.traits import READS_VALUES
from bnfold.errors import Unsupported
from bnfold.ir.index import graphs_of
from bnfold.ir.inferable import (
    ELSEWHERE,
    GIVES_UP,
    graph_pairs,
    inference_input,
    is_damaged,
    refusal,
    state_stored,
)
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.tensor import Tensor
from bnfold.ir.types import filled, forget_shapes, without_sizes
from bnfold.ir.value import Value, shape_of


def infer_shapes(
    model: Model, *, strict: bool = False, known: Mapping[Value, Tensor] | None = None
) -> frozenset[Value]:
    """Give every value that has no type, or one without a rank, what onnx's inference says; return disputed values.

    Of those, runtimes may infer other sizes than they compute. Only the index learns types, the file's own annotations
    stay as they are. Failing inference leaves them unknown, or raises Unsupported if it is ``strict``. The numbers of
    computed values may be ``known``.
    """
    proto = _copied(model)
    if proto is None:
        if strict and any(map(is_damaged, model.graph.values.values())):
            raise Unsupported("shape inference fails: the dims of a tensor do not fit its bytes")
        return frozenset()
    try:
        with evaluated_once(model):
            _show_constants(model, proto, known or {})
            run = partial(infer_by_onnx, strict=strict, propagate=needs_propagation(model))
        plain = inferred = infer_with_slices(proto, run)
        unsure = _unsure(model, inferred)
        is_wrong = contradicts_weights(model)
        if unsure or is_wrong:
            _hide(model, proto, unsure)
            state_stored(model, proto)
            inferred = infer_with_slices(proto, run)
    except GIVES_UP as error:
        if strict:
            raise refusal(error) from error
        return frozenset()  # onnx gives up on models that run all the same; what is not known stays unknown
    disputed = _sized_values(model, plain) - _sized_values(model, inferred) if unsure else ()
    _learn(model, inferred, annotated=not (unsure or is_wrong))
    return frozenset(disputed)


def _copied(model: Model) -> onnx.ModelProto | None:
    """Return the skeleton for inference, with what follows of operators that onnx has no inference for."""
    proto = inference_input(model)
    for graph, message in graph_pairs(model, proto.graph) if proto is not None else ():
        state_learned(graph, message)
    return proto


def _sized_values(model: Model, inferred: onnx.ModelProto) -> set[Value]:
    """Return the values whose sizes are all declared."""
    return {
        graph.values[info.name]
        for graph, message in graph_pairs(model, inferred.graph)
        for info in (*message.value_info, *message.output)
        if info.name in graph.values and all(isinstance(dim, int) for dim in shape_of(info.type) or [None])
    }


def _learn(model: Model, inferred: onnx.ModelProto, *, annotated: bool) -> None:
    """Take over the types; of what is ``annotated``, only what the annotation leaves open."""
    shared: dict[bytes, onnx.TypeProto] = {}  # most values of a network are of few types
    for target, source in graph_pairs(model, inferred.graph):
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


Unsure = dict[Node, onnx.TypeProto]
"""Nodes that make an uncertain size, and the type of their first output without it."""


def _unsure(model: Model, inferred: onnx.ModelProto) -> Unsure:
    asked = {node for node in model.nodes() if may_be_unsure(node) or _merges_branches(node)}
    if not asked:
        return {}
    found: Unsure = {}
    infos: dict[str, onnx.ValueInfoProto] = {}
    for graph, message in graph_pairs(model, inferred.graph):
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
    for graph, message in graph_pairs(model, proto.graph):
        del message.value_info[:]
        forget_shapes(message.output)
        for node, inner in zip(graph.nodes, message.node, strict=True):
            if node in unsure:
                inner.domain = ELSEWHERE
                message.value_info.add(name=inner.output[0], type=unsure[node])


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
