"""An If whose condition is the same in every run is replaced by the nodes of the branch that it takes."""

from __future__ import annotations

from typing import NamedTuple

import onnx

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.errors import BnfoldError
from bnfold.ir.tensor import TP


class Decide(NamedTuple):
    """The nodes of ``branch`` take the place of ``node``, the If that holds it."""

    node: ir.Node
    branch: ir.Graph


def find_decided(model: ir.Model, known: Proven) -> list[Decide]:
    """Plan to decide every If whose condition is known, innermost first: a branch is then complete when it moves."""
    found = [plan for graph in model.graphs() for node in graph.nodes if (plan := _decided(node, known)) is not None]
    return sorted(found, key=lambda plan: -_depth(plan.branch))


def _depth(graph: ir.Graph) -> int:
    depth, node = 0, graph.parent
    while node is not None:
        depth, node = depth + 1, node.graph.parent
    return depth


def _decided(node: ir.Node, known: Proven) -> Decide | None:
    if not node.is_op("If") or len(node.inputs) != 1 or node.has_references or known.calls(node):
        return None
    try:
        truth = _truth(node.inputs[0], known)
    except BnfoldError:  # a damaged constant
        return None
    branches = node.subgraphs.get("then_branch" if truth else "else_branch", ())
    if truth is None or len(branches) != 1 or not can_inline(node, branches[0]):
        return None
    return Decide(node, branches[0])


def _truth(condition: ir.Value | None, known: Proven) -> bool | None:
    """Return the value of a condition, or None if it is not the same in every run."""
    held = analysis.constant(condition)
    if held is not None:
        return bool(held.numpy().reshape(-1)[0]) if held.dtype == TP.BOOL and held.size == 1 else None
    proven = known.integers(condition)
    if proven is None or proven.dtype != TP.BOOL or proven.size != 1 or (numbers := proven.numbers) is None:
        return None
    return bool(numbers[0])


def can_inline(node: ir.Node, branch: ir.Graph) -> bool:
    """Whether the branch is in order, and no name in it is another value's outside; runtimes disagree on what it means.

    Each result of the branch may have the name of the If's output.
    """
    proto = branch.proto
    if not isinstance(proto, onnx.GraphProto) or branch.inputs or len(node.outputs) > len(branch.outputs):
        return False
    if proto.sparse_initializer or proto.quantization_annotation:
        return False
    is_function = not hasattr(node.graph.proto, "initializer")
    if is_function and proto.initializer:
        return False
    ends = {value.name for value in node.outputs if value is not None}
    inner = {name for graph in branch.subgraphs() if graph is not branch for name in graph.values}
    if not ends.isdisjoint(inner):  # the results get these names
        return False
    if any(_is_hidden(name, node) for name in branch.values):
        return False
    return all(value.producer is not None or value.tensor_proto is not None for value in branch.values.values())


def _is_hidden(name: str, node: ir.Node) -> bool:
    """Whether a value that is there before the node runs has this name."""
    graph: ir.Graph | None = node.graph
    while graph is not None:
        value = graph.values.get(name)
        if value is not None and value.producer is not node:
            return True
        graph = graph.parent.graph if graph.parent is not None else None
    return False
