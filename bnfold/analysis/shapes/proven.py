"""Types that follow from the inputs of a graph and its weights alone, whatever annotations say.

People open the batch of an input and leave the annotations as they were; a rewrite that believes these fixes a size
that is open. Each dynamic size of an input has a name of its own here: two sizes of one name are equal in every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy

import onnx

from bnfold.analysis.shapes.branching import known_by_branches
from bnfold.analysis.shapes.inference import infer_shapes
from bnfold.analysis.traits import LIKE
from bnfold.ir.graph import Graph
from bnfold.ir.index import graphs_of
from bnfold.ir.messages import nested_nodes
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.types import forget_shapes
from bnfold.ir.value import Dims, Value

_OPAQUE = "bnfold.opaque"
_ROUNDS = 4
"""Inferences that see more of what stands behind an If."""


def proven_types(model: Model) -> Mapping[Value, onnx.TypeProto]:
    """Return the types of values of the main graph, of the branches of If and of the bodies of Loop, as inferred.

    Results of Loop and Scan have an unknown type: sizes may differ between iterations. So may those of what a Loop
    carries: equal names in its body are equal sizes in every single iteration. Results of If have what its branches
    have in common, as far as they can be taken.
    """
    known: dict[Value, Dims] = {}
    types = _inferred(model, known)
    for _ in range(_ROUNDS):
        more = known_by_branches(model, types)
        if more.keys() <= known.keys():
            break
        known |= more
        types = _inferred(model, known)
    return types


def _inferred(model: Model, known: Mapping[Value, Dims]) -> Mapping[Value, onnx.TypeProto]:
    """Infer types, where some dims are ``known`` already."""
    model.sync()
    proto = deepcopy(model.proto)
    graph = proto.graph
    _drop_defaults(model, graph)
    for place, info in enumerate(graph.input):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_value <= 0:  # some exporters write 0 for a size that they do not know
                dim.dim_param = f"{place}:{axis}"
        elements = info.type.sequence_type.elem_type.tensor_type
        if any(dim.dim_value <= 0 for dim in elements.shape.dim):  # each element may have another size
            elements.ClearField("shape")
    proto.opset_import.add(domain=_OPAQUE, version=1)
    _forget(model.graph, graph, known)
    _rename(graph)
    counterpart = model.with_proto(proto)
    infer_shapes(counterpart)
    return dict(_paired(model.graph, counterpart.graph))


def _rename(graph: onnx.GraphProto) -> None:
    """Give nodes of onnxruntime's the names of operators whose results inference knows."""
    for node in nested_nodes(graph.node):
        if node.domain == "com.microsoft" and node.op_type in LIKE:
            node.domain, node.op_type = "", LIKE[node.op_type]


def _forget(graph: Graph, message: onnx.GraphProto, known: Mapping[Value, Dims]) -> None:
    """Forget what is declared for inner values, and what results of control flow are inferred to be, but for ``known``.

    A node of an unknown domain makes these results. The If or Loop in front of it makes values that nothing reads.
    """
    del message.value_info[:]
    forget_shapes(message.output)
    changed = False
    messages: list[onnx.NodeProto] = []
    for node, source in zip(graph.nodes, message.node, strict=True):
        messages.append(source)
        if not node.subgraphs:
            continue
        opaque, changed = onnx.NodeProto(op_type=source.op_type, domain=_OPAQUE, output=source.output), True
        if not _is_followed(node):
            messages[-1] = opaque
            continue
        source.output[:] = [f"{_OPAQUE}:{name}" for name in source.output]
        messages.append(opaque)
        bodies = [*_bodies(node, source)]
        for inner, copy in bodies:
            forget_shapes(copy.input)
            _forget(inner, copy, known)
        if node.is_op("If"):
            message.value_info.extend(_elements(opaque.output, [copy for _, copy in bodies]))
    _state(graph, message, known)
    if changed:
        copies = [deepcopy(source) for source in messages]
        del message.node[:]
        message.node.extend(copies)


def _elements(names: Sequence[str], branches: Sequence[onnx.GraphProto]) -> Iterator[onnx.ValueInfoProto]:
    """Yield the element types of an If's results, which its branches have in common, without their shapes."""
    for name, *ends in zip(names, *(branch.output for branch in branches), strict=False):
        found = {end.type.tensor_type.elem_type for end in ends}
        if name and len(found) == 1 and all(found):
            yield onnx.helper.make_tensor_value_info(name, found.pop(), None)


def _state(graph: Graph, message: onnx.GraphProto, known: Mapping[Value, Dims]) -> None:
    """Declare the known dims of values of a graph."""
    stated = {info.name: info for info in message.value_info}
    for value in (value for value in graph.values.values() if value in known):
        info = stated[value.name] if value.name in stated else message.value_info.add(name=value.name)
        kind = info.type.tensor_type
        info.type.CopyFrom(onnx.helper.make_tensor_type_proto(kind.elem_type, known[value]))


def _is_followed(node: Node) -> bool:
    return node.is_op("If", "Loop") and not node.is_call


def _bodies(node: Node, message: onnx.NodeProto) -> Iterator[tuple[Graph, onnx.GraphProto]]:
    held = graphs_of(message)
    for name, graphs in node.subgraphs.items():
        yield from zip(graphs, held[name], strict=True)


def _paired(graph: Graph, counterpart: Graph) -> Iterator[tuple[Value, onnx.TypeProto]]:
    """Yield values with the types that their counterparts have, through the bodies that are followed."""
    for name, kind in counterpart.types.items():
        if name in graph.values:
            yield graph.values[name], kind
    shown = [node for node in counterpart.nodes if node.domain != _OPAQUE]
    hidden = (node for node in graph.nodes if _is_followed(node) or not node.subgraphs)
    for node, other in zip(hidden, shown, strict=True):
        for name, graphs in node.subgraphs.items():
            for inner, copy in zip(graphs, other.subgraphs[name], strict=True):
                yield from _paired(inner, copy)


def _drop_defaults(model: Model, graph: onnx.GraphProto) -> None:
    """Drop stored tensors that callers or a training graph may replace: inference would believe their numbers."""
    values = model.graph.values
    if all(model.is_constant_initializer(values[tensor.name]) for tensor in graph.initializer):
        return
    kept = [tensor for tensor in graph.initializer if model.is_constant_initializer(values[tensor.name])]
    copies = [deepcopy(tensor) for tensor in kept]
    del graph.initializer[:]
    graph.initializer.extend(copies)
