"""Control flow in one form, so that what a rewrite left of it is found again in the original.

The branch of an If that is taken in every run is written where the If stands. A node with bodies makes the outputs of
its graph itself, without a copy behind it: the paths of the bodies begin with what the node makes.

Whether a condition is known is found out by evaluating the few nodes that compute it (`PartlyKnown`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.index import graphs_of
from bnfold.verification.changes.partly import PartlyKnown, known_of, only_output

_ROUNDS = 8
"""Times that Ifs are decided: what stood in a branch may show which one another If takes."""


def in_one_form(model: ir.Model, rewritten: ir.Model | None = None) -> ir.Model:
    """Return a copy of a model in that form; the model itself if it is, or if it is damaged.

    An If that could be decided in the ``rewritten`` model as well stays: both of its branches are to be compared.
    """
    left = None if rewritten is None else cache(partial(_taken, rewritten))
    for _ in range(_ROUNDS):
        found = _with_less(model, left)
        if found is model:
            break
        model = found
    return model


def _taken(model: ir.Model) -> set[str]:
    """Return the names of what the Ifs make whose conditions are known."""
    return {name for node in _decided(model) for name in node.proto.output if name}


def _with_less(model: ir.Model, left: Callable[[], set[str]] | None) -> ir.Model:
    """Return a copy without the Ifs whose conditions are known, and without copied ends; the model if it has none.

    The Ifs that make what is ``left`` stay; without it, all of them.
    """
    if model.proto.training_info or not any(node.subgraphs for node in model.nodes()):
        return model
    with suppress(BnfoldError, ValueError):
        taken = {} if left is None else _decided(model)
        kept = left() if taken and left is not None else set()
        taken = {node: branch for node, branch in taken.items() if kept.isdisjoint(node.proto.output)}
        copied = _copied_ends(model)
        return Flattened(model, taken, copied).copy() if taken or copied else model
    return model


def _copied_ends(model: ir.Model) -> dict[ir.Node, ir.Value]:
    """Return each Identity that makes an output of its graph from a result of control flow, with this result."""
    found: dict[ir.Node, ir.Value] = {}
    for graph in model.graphs():
        for node in graph.nodes if isinstance(graph.proto, onnx.GraphProto) else ():
            source = node.input(0) if node.is_op("Identity") and not node.is_call else None
            producer = source.producer if source is not None else None
            if producer is None or source is None or not producer.subgraphs or source.only_consumer is not node:
                continue
            if len(node.outputs) == 1 and (end := node.outputs[0]) is not None and end.is_output:
                found[node] = source
    return found


def _decided(model: ir.Model) -> dict[ir.Node, ir.Graph]:
    """Return the branch that each If takes in every run, where that is known."""
    found: dict[ir.Node, ir.Graph] = {}
    with reference.keeping_constants(model):
        known = known_of(model)
        for node in model.nodes():
            truth = _truth(known, node.input(0)) if node.is_op("If") and not node.is_call else None
            branches = node.subgraphs.get("then_branch" if truth else "else_branch", ())
            if truth is not None and len(branches) == 1 and _may_move(node, branches[0]):
                found[node] = branches[0]
    return found


def _truth(known: PartlyKnown, condition: ir.Value | None) -> bool | None:
    found = known.of(condition) if condition is not None else None
    if found is None or not found.is_certain or found.elements.dtype != np.bool_ or found.elements.size != 1:
        return None
    return bool(found.elements.reshape(-1)[0])


def _may_move(node: ir.Node, branch: ir.Graph) -> bool:
    """Whether the nodes of a branch mean the same where the If stands."""
    proto = branch.proto
    return (
        isinstance(proto, onnx.GraphProto)
        and isinstance(node.graph.proto, onnx.GraphProto)
        and not (branch.inputs or proto.sparse_initializer or proto.quantization_annotation)
        and len(node.outputs) == len(branch.outputs)
        and all(value.producer is not None or value.is_initializer for value in branch.values.values())
    )


class Flattened:
    """A model being written anew, without some of its Ifs."""

    def __init__(self, model: ir.Model, taken: Mapping[ir.Node, ir.Graph], copied: Mapping[ir.Node, ir.Value]) -> None:
        self._model, self._taken, self._copied = model, taken, copied
        self._used = [name for graph in model.graphs() for name in graph.values]
        self._fresh: set[str] = set()

    def copy(self) -> ir.Model:
        """Return a copy of the model in which the branches stand."""
        self._model.sync()
        proto = onnx.ModelProto()
        proto.CopyFrom(self._model.proto)
        self._fill(self._model.graph, proto.graph, {})
        return self._model.with_proto(proto)

    def _fill(self, graph: ir.Graph, message: onnx.GraphProto, names: Mapping[str, str]) -> None:
        """Write the nodes of a graph into its message; ``names`` are those that outer values have now."""
        nodes = list(self._nodes(graph, message, names))
        del message.node[:]
        message.node.extend(nodes)
        for info in message.output:
            info.name = names.get(info.name, info.name)

    def _nodes(self, graph: ir.Graph, into: onnx.GraphProto, names: Mapping[str, str]) -> Iterator[onnx.NodeProto]:
        ends = {self._copied[node].name: only_output(node).name for node in graph.nodes if node in self._copied}
        names = {**names, **{name: names.get(end, end) for name, end in ends.items()}}
        for node in graph.nodes:
            if node in self._copied:
                continue
            if node in self._taken:
                yield from self._branch(node, self._taken[node], into, names)
                continue
            copy = onnx.NodeProto()
            copy.CopyFrom(node.proto)
            copy.input[:] = [names.get(name, name) for name in copy.input]
            copy.output[:] = [names.get(name, name) for name in copy.output]
            held = graphs_of(copy) if node.subgraphs else {}
            for key, bodies in node.subgraphs.items():
                for body, inner in zip(bodies, held[key], strict=True):
                    self._fill(body, inner, {old: new for old, new in names.items() if old not in body.values})
            yield copy

    def _branch(
        self, node: ir.Node, branch: ir.Graph, into: onnx.GraphProto, names: Mapping[str, str]
    ) -> Iterator[onnx.NodeProto]:
        """Yield the nodes of a branch, in which each result has the name of the If's output."""
        ends = [names.get(value.name, value.name) if value is not None else "" for value in node.outputs]
        own: dict[str, str] = {}
        for result, end in zip(branch.outputs, ends, strict=True):
            if end and result.graph is branch and result.producer is not None:
                own.setdefault(result.name, end)
        for name in branch.values:
            own.setdefault(name, self._name(name))
        inner = {**names, **own}
        assert isinstance(branch.proto, onnx.GraphProto), "as was looked at"
        for tensor in branch.proto.initializer:
            stored = into.initializer.add()
            stored.CopyFrom(tensor)
            stored.name = own[tensor.name]
        yield from self._nodes(branch, into, inner)
        for result, end in zip(branch.outputs, ends, strict=True):
            source = inner.get(result.name, result.name)
            if end and source != end:
                yield onnx.NodeProto(op_type="Identity", input=[source], output=[end])

    def _name(self, name: str) -> str:
        """Return the name of a value that moves out of its branch; another one if several graphs have it."""
        if self._used.count(name) == 1:
            return name
        number = 1
        while f"{name}_{number}" in self._fresh or self._model.has_name(f"{name}_{number}"):
            number += 1
        self._fresh.add(f"{name}_{number}")
        return f"{name}_{number}"
