"""Control flow in one form, so that what a rewrite left of it is found again in the original.

The branch of an If that is taken in every run is written where the If stands. A node with bodies makes the outputs of
its graph itself, without a copy behind it: the paths of the bodies begin with what the node makes.

Whether a condition is known is found out by evaluating the few nodes that compute it (`PartlyKnown`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.verification.changes.flattened import Flattened
from bnfold.verification.changes.partly import PartlyKnown, known_of

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
