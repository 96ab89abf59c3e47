"""Control flow in one form, so that what a rewrite left of it is found again in the original.

The branch of an If that is taken in every run is written where the If stands. A node with bodies makes the outputs of
its graph itself, without a copy behind it: the paths of the bodies begin with what the node makes.

Whether a condition is known is found out here by evaluating the few nodes that compute it. A size that is not the same
in every run makes everything unknown that is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import Array
from bnfold.ir.shapes.proven import proven_types
from bnfold.ir.traits import BROADCASTING, CHOOSING, DRAWING, KEEPS_SHAPE, REARRANGING
from bnfold.ir.value import shape_of
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.changes.flattened import Flattened, only_output

_FEW = 64
"""Nodes that a condition may be computed by."""
_MOVING = REARRANGING | CHOOSING | {"Cast", "Concat", "Identity"}
"""Operators whose results are elements of their inputs, one for each."""
_ROUNDS = 8
"""Times that Ifs are decided: what stood in a branch may show which one another If takes."""
_PLACEHOLDER = 5
"""Stands for a size that is not known."""


class _Partly(NamedTuple):
    """Elements, and a mask of those that are not the same in every run."""

    elements: Array
    unknown: Array


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
    return {name for node in _Conditions(model).taken() for name in node.proto.output if name}


def _with_less(model: ir.Model, left: Callable[[], set[str]] | None) -> ir.Model:
    """Return a copy without the Ifs whose conditions are known, and without copied ends; the model if it has none.

    The Ifs that make what is ``left`` stay; without it, all of them.
    """
    if model.proto.training_info or not any(node.subgraphs for node in model.nodes()):
        return model
    with suppress(BnfoldError, ValueError):
        taken = {} if left is None else _Conditions(model).taken()
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


class _Conditions:
    """The conditions of one model's Ifs, as far as they are known."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._types: Mapping[ir.Value, onnx.TypeProto] | None = None

    def taken(self) -> dict[ir.Node, ir.Graph]:
        """Return the branch that each If takes in every run, where that is known."""
        found: dict[ir.Node, ir.Graph] = {}
        with ir.evaluated_once(self._model):
            for node in self._model.nodes():
                truth = self._truth(node.input(0)) if node.is_op("If") and not node.is_call else None
                branches = node.subgraphs.get("then_branch" if truth else "else_branch", ())
                if truth is not None and len(branches) == 1 and _may_move(node, branches[0]):
                    found[node] = branches[0]
        return found

    def _truth(self, condition: ir.Value | None) -> bool | None:
        if condition is None or (order := self._computing(condition)) is None:
            return None
        known: dict[ir.Value, _Partly] = {}
        try:
            for node in order:
                known[only_output(node)] = self._evaluated(node, known)
            found = self._operand(condition, known)
        except (BnfoldError, ValueError):
            return None
        if found.unknown.any() or found.elements.dtype != np.bool_ or found.elements.size != 1:
            return None
        return bool(found.elements.reshape(-1)[0])

    def _computing(self, condition: ir.Value) -> list[ir.Node] | None:
        """Return the nodes that compute a condition from constants and shapes, in order; None for others."""
        order: dict[ir.Node, None] = {}
        entered: set[ir.Node] = set()
        stack: list[tuple[ir.Value | None, ir.Node | None]] = [(condition, None)]
        while stack:
            value, done = stack.pop()
            if done is not None:
                order[done] = None
            if value is None or ir.constant(value) is not None:
                continue
            node = value.producer
            if node is None or len(entered) > _FEW or not _is_plain(node):
                return None
            if node not in entered:
                entered.add(node)
                stack.append((None, node))
                stack.extend((read, None) for read in node.inputs if not node.is_op("Shape"))
        return list(order)

    def _evaluated(self, node: ir.Node, known: Mapping[ir.Value, _Partly]) -> _Partly:
        if node.is_op("Shape"):
            return self._shape(node)
        operands = {value: self._operand(value, known) for value in node.inputs if value is not None}
        if node.is_op("Size") and (shape := node.inputs[0]) is not None and shape.producer in _shapes(known):
            return _fully(np.array(operands[shape].elements.size, np.int64))  # a rank, whatever the sizes are
        elements = _run(node, {value: operand.elements for value, operand in operands.items()})
        partly = [value for value, operand in operands.items() if operand.unknown.any()]
        if not partly:
            return _fully(elements)
        if node.has_trait((KEEPS_SHAPE | BROADCASTING) - _MOVING):
            return _Partly(elements, np.ones(elements.shape, np.bool_))
        data = node.inputs if node.is_op("Concat") else node.inputs[:1]
        if not node.has_trait(_MOVING) or any(value not in data for value in partly):
            raise ValueError("not even the shape of the result is known")
        masks = {
            value: operand.unknown.astype(operand.elements.dtype) if value in data else operand.elements
            for value, operand in operands.items()
        }
        return _Partly(elements, _run(node, masks).astype(np.bool_))

    def _shape(self, node: ir.Node) -> _Partly:
        source = node.inputs[0]
        if self._types is None:
            self._types = proven_types(self._model)
        dims = None if source is None else shape_of(self._types.get(source))
        if dims is None:
            raise ValueError("not even the rank is known")
        dims = dims[slice(node.attr("start", 0), node.attr("end", None))]
        sizes = [dim if isinstance(dim, int) else _PLACEHOLDER for dim in dims]
        return _Partly(np.array(sizes, np.int64), np.array([not isinstance(dim, int) for dim in dims], np.bool_))

    @staticmethod
    def _operand(value: ir.Value, known: Mapping[ir.Value, _Partly]) -> _Partly:
        if value in known:
            return known[value]
        held = ir.constant(value)
        if held is None:
            raise ValueError("no constant")
        return _fully(held.numpy())


def _fully(elements: Array) -> _Partly:
    return _Partly(elements, np.zeros(elements.shape, np.bool_))


def _shapes(known: Mapping[ir.Value, _Partly]) -> set[ir.Node | None]:
    return {value.producer for value in known if value.producer is not None and value.producer.is_op("Shape")}


def _is_plain(node: ir.Node) -> bool:
    draws = node.has_trait(DRAWING) or node.is_op("Dropout")
    has_one = sum(value is not None for value in node.outputs) == 1 and bool(node.inputs)
    return has_one and not (node.domain or node.subgraphs or node.has_references or node.is_call or draws)


def _run(node: ir.Node, fed: Mapping[ir.Value, Array]) -> Array:
    made = only_output(node)
    subgraph = Subgraph([made], list(fed))
    arrays = {value.name: array for value, array in fed.items()}
    result: object = reference.evaluate(subgraph.model, arrays, [made.name], precision="stored")[made.name]
    if not isinstance(result, np.ndarray):
        raise Unsupported("no tensor")
    return result


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
