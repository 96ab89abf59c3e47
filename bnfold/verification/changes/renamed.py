"""Find out whether two models differ in names only. Then they are equivalent, and nothing has to be run.

Nodes are matched one to one, from the outputs back, and each node of the rewritten model has to be matched. Attributes
and stored tensors are compared byte by byte, opsets by number. The rewritten model may store a constant that the
original computes, but may not compute one that the original stores. Anything that is not understood here counts as a
difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.reference.shapes import ShapeWalk
from bnfold.verification.changes.unchanged import meaningful_attributes
from bnfold.verification.codes import Code
from bnfold.verification.tolerance.bits import same
from bnfold.verification.verdict import Verdict

_Thing = TypeVar("_Thing", ir.Graph, ir.Node, ir.Value)

REASON = "nothing but names differs: the same nodes, attributes and constants"


def verdict_on_names(before: ir.Model, after: ir.Model) -> Verdict | None:
    """Return the verdict if the models differ in names only; else None, and they have to be compared."""
    try:
        with reference.keeping_constants(before), reference.keeping_constants(after):
            is_same = _Matched(before, after).are_same()
    except (BnfoldError, ValueError, TypeError):  # a damaged model; comparing it will report that
        return None
    return Verdict("verified", REASON, "structure", code=Code.SAME) if is_same else None


class _Matched:
    """Graphs, nodes and graph inputs of one model, each matched with one of the other model."""

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self._models = before, after
        self._graphs: dict[ir.Graph, ir.Graph] = {}
        self._nodes: dict[ir.Node, ir.Node] = {}
        self._fed: dict[ir.Value, ir.Value] = {}
        self._taken: set[ir.Graph | ir.Node | ir.Value] = set()
        self._waiting: list[tuple[ir.Node, ir.Node]] = []
        self._declared: list[tuple[ir.Value, ir.Value]] = []

    def are_same(self) -> bool:
        before, after = self._models
        functions = [{function.path: function for function in model.functions} for model in self._models]
        return (
            before.proto.ir_version == after.proto.ir_version
            and _opsets(after.proto) <= _opsets(before.proto)
            and all(_is_plain(graph) for model in self._models for graph in model.graphs())
            and not _hides_a_name(after)
            and _interface(before) == _interface(after)
            and functions[0].keys() == functions[1].keys()
            and all(self._is_function(functions[0][path], function) for path, function in functions[1].items())
            and self._is_graph(before.graph, after.graph)
            and self._are_nodes()
            and all(node in self._taken or _is_literal(node) for node in after.nodes())
            and self._declares_nothing_new()
        )

    def _is_function(self, old: ir.Graph, new: ir.Graph) -> bool:
        one, other = old.proto, new.proto
        return (
            _opsets(other) <= _opsets(one)
            and list(one.attribute) == list(other.attribute)
            and _texts(one.attribute_proto) == _texts(other.attribute_proto)
            and self._is_graph(old, new)
        )

    def _are_graphs(self, old: Sequence[ir.Graph], new: Sequence[ir.Graph]) -> bool:
        return len(old) == len(new) and all(self._is_graph(*pair) for pair in zip(old, new, strict=True))

    def _is_graph(self, old: ir.Graph, new: ir.Graph) -> bool:
        return (
            self._match(self._graphs, old, new)
            and len(old.inputs) == len(new.inputs)
            and all(self._is_fed(*pair) for pair in zip(old.inputs, new.inputs, strict=True))
            and self._are_values(old.outputs, new.outputs)
        )

    def _match(self, found: dict[_Thing, _Thing], old: _Thing, new: _Thing) -> bool:
        """Match two objects, unless one of them is already matched with another one."""
        if old not in found and new not in self._taken:
            found[old] = new
            self._taken.add(new)
        return found.get(old) is new

    def _is_fed(self, old: ir.Value, new: ir.Value) -> bool:
        """Whether two inputs at the same position match: both have equal defaults, or none."""
        self._declared.append((old, new))
        stored = new.tensor
        is_same = old.tensor is None if stored is None else same(old.tensor, stored)
        return is_same and self._match(self._fed, old, new)

    def _are_values(self, old: Sequence[ir.Value | None], new: Sequence[ir.Value | None]) -> bool:
        return len(old) == len(new) and all(self._is_value(*pair) for pair in zip(old, new, strict=True))

    def _is_value(self, old: ir.Value | None, new: ir.Value | None) -> bool:
        if old is None or new is None:
            return old is new
        if (held := _stored(new)) is not None:
            self._declared.append((old, new))
            return (was := reference.constant(old)) is not None and same(was, held)
        if old.producer is None or new.producer is None:
            return self._fed.get(old) is new
        self._waiting.append((old.producer, new.producer))
        return old.slot == new.slot

    def _are_nodes(self) -> bool:
        """Whether all pairs of producers that were met match, and the producers of their inputs too."""
        while self._waiting:
            if not self._is_node(*self._waiting.pop()):
                return False
        return True

    def _is_node(self, old: ir.Node, new: ir.Node) -> bool:
        if self._nodes.get(old) is new:
            return True
        made = zip(old.outputs, new.outputs, strict=False)
        self._declared += [(one, other) for one, other in made if one is not None and other is not None]
        return (
            new.op_type != "Gradient"  # its attributes refer to values by name
            and self._graphs.get(old.graph) is new.graph
            and self._match(self._nodes, old, new)
            and _operator(old) == _operator(new)
            and [value is None for value in old.outputs] == [value is None for value in new.outputs]
            and self._are_values(old.inputs, new.inputs)
            and old.subgraphs.keys() == new.subgraphs.keys()
            and all(self._are_graphs(bodies, new.subgraphs[name]) for name, bodies in old.subgraphs.items())
        )

    def _declares_nothing_new(self) -> bool:
        """Whether each type that the rewritten model declares is declared by the original, or follows from it."""
        undeclared = [
            (old, kind)
            for old, new in self._declared
            if (kind := new.type) is not None and not _is_declared(old, new, kind)
        ]
        if not undeclared:
            return True
        shapes = ShapeWalk(self._models[0])
        return all(_follows(kind, shapes.type_of(old)) for old, kind in undeclared)


def _is_declared(old: ir.Value, new: ir.Value, declared: onnx.TypeProto) -> bool:
    """Whether the original declares the same type, or it is the type of the stored tensor."""
    held, kind = _stored(new), _bare(declared)
    if held is not None and kind == _bare(onnx.helper.make_tensor_type_proto(held.dtype, held.dims)):
        return True
    return old.type is not None and kind == _bare(old.type)


def _follows(kind: onnx.TypeProto, known: onnx.TypeProto | None) -> bool:
    """Whether a declared type says no more than the known one; a declared dim may be dynamic."""
    if known is None or not (kind.HasField("tensor_type") and known.HasField("tensor_type")):
        return False
    declared, mine = _bare(kind).tensor_type, _bare(known).tensor_type
    return declared.elem_type == mine.elem_type and (
        not declared.HasField("shape")
        or (
            mine.HasField("shape")
            and len(declared.shape.dim) == len(mine.shape.dim)
            and all(
                dim.WhichOneof("value") is None or dim == there
                for dim, there in zip(declared.shape.dim, mine.shape.dim, strict=True)
            )
        )
    )


def _stored(value: ir.Value) -> ir.Tensor | None:
    """Return the tensor of a constant that needs no evaluation."""
    return reference.constant(value) if value.tensor_proto is not None or _is_literal(value.producer) else None


def _is_literal(node: ir.Node | None) -> bool:
    """Whether a node is a well-formed Constant: no input, one attribute."""
    return node is not None and node.is_op("Constant") and (len(node.inputs), len(node.proto.attribute)) == (0, 1)


def _operator(node: ir.Node) -> object:
    own = [each for each in meaningful_attributes(node) if each.name not in node.subgraphs]
    version = node.graph.opset(node.domain)
    return node.domain, node.op_type, getattr(node.proto, "overload", ""), version, _texts(own)


def _texts(attributes: Iterable[onnx.AttributeProto]) -> list[bytes]:
    """Return attributes byte by byte, in any order.

    A tensor that is too large for its message is represented by a token. So it differs in any other model.
    """
    return sorted(attribute.SerializeToString(deterministic=True) for attribute in attributes)


def _opsets(proto: onnx.ModelProto | onnx.FunctionProto) -> set[tuple[str, int]]:
    return {("" if entry.domain == "ai.onnx" else entry.domain, entry.version) for entry in proto.opset_import}


def _interface(model: ir.Model) -> object:
    """Return inputs and outputs in their order, with their types."""
    graph = model.proto.graph
    return [[(info.name, _bare(info.type)) for info in ends] for ends in (graph.input, graph.output)]


def _bare(kind: onnx.TypeProto) -> onnx.TypeProto:
    """Return a type without its denotations, which have no effect."""
    bare = onnx.TypeProto()
    bare.CopyFrom(kind)
    bare.ClearField("denotation")
    for dim in bare.tensor_type.shape.dim if bare.HasField("tensor_type") else ():
        dim.ClearField("denotation")
    return bare


def _is_plain(graph: ir.Graph) -> bool:
    return not getattr(graph.proto, "sparse_initializer", ())


def _hides_a_name(model: ir.Model) -> bool:
    """Whether a subgraph redefines a name of a graph around it: runtimes disagree about its meaning."""
    for graph in model.graphs():
        around = graph.parent
        while around is not None:
            if not graph.values.keys().isdisjoint(around.graph.values):
                return True
            around = around.graph.parent
    return False
