"""The ranks that a value may have in a run that ends well, by the operators that read it.

An LSTM takes three axes only. So it says which branch of an If is taken in every run, where the other one makes two.
"""

from __future__ import annotations

from bnfold import ir
from bnfold.reference.constants import constant
from bnfold.reference.operators import KEEPS_SHAPE

_DEEPEST = 8
"""Nodes in a row that are followed to one that takes a single rank."""
_RANKS = {name: {0: 3, 5: 3} for name in ("RNN", "GRU", "LSTM")}
"""The rank of inputs of operators that take no other."""

RanksTaken = frozenset[int] | None
"""None stands for any rank."""


def nodes_run(model: ir.Model) -> set[ir.Node]:
    """Return the nodes that outputs of the model depend on: runtimes leave out the others."""
    found: set[ir.Node] = set()
    waiting = [*model.graph.outputs]
    while waiting:
        node = waiting.pop().producer
        if node is not None and node not in found:
            found.add(node)
            waiting += [value for value in node.inputs if value is not None]
            waiting += [end for body in node.bodies for end in body.outputs]
    return found


def ranks_taken(value: ir.Value, run: set[ir.Node], graph: ir.Graph | None = None, depth: int = 0) -> RanksTaken:
    """Return the ranks of a value that all nodes take which are ``run`` wherever a graph is, by default its own one."""
    graph = value.graph if graph is None else graph
    if depth > _DEEPEST:
        return None
    found = [_taken(node, slot, run, depth) for node, slot in value.uses if node.graph is graph]
    holders = {holder: None for node, _ in value.uses if (holder := _holder(node.graph, graph)) in run}
    found += [_behind(holder, value, run, depth) for holder in holders]
    parent = graph.parent
    if parent is not None and _is_choice(parent):
        ends = zip(graph.outputs, parent.outputs, strict=False)
        found += [ranks_taken(made, run, None, depth + 1) for end, made in ends if end is value and made is not None]
    return _all_of(found)


def _behind(holder: ir.Node, value: ir.Value, run: set[ir.Node], depth: int) -> RanksTaken:
    """Return the ranks of a value that some branch of an If takes."""
    found = [ranks_taken(value, run, body, depth + 1) for body in holder.bodies]
    known = [ranks for ranks in found if ranks is not None]
    return frozenset().union(*known) if known and len(known) == len(found) else None


def _taken(node: ir.Node, slot: int, run: set[ir.Node], depth: int) -> RanksTaken:
    """Return the ranks that a node takes of an input."""
    made = node.output(0)
    if node not in run or node.domain or node.subgraphs or node.is_call or node.has_references:
        return None
    if (rank := _RANKS.get(node.op_type, {}).get(slot)) is not None:
        return frozenset((rank,))
    if made is None or slot != 0 or not node.has_trait(KEEPS_SHAPE | {"Squeeze", "Unsqueeze"}):
        return None
    more = 0 if node.has_trait(KEEPS_SHAPE) else _axes_added(node)
    behind = None if more is None else ranks_taken(made, run, None, depth + 1)
    return None if behind is None or more is None else frozenset(rank - more for rank in behind)


def _axes_added(node: ir.Node) -> int | None:
    """Return how many axes an Unsqueeze adds or, negative, a Squeeze takes away; None if that is not known."""
    held = constant(node.input(1))
    axes = node.attr("axes") if held is None else held.numpy().reshape(-1)
    if axes is None:
        return None
    return len(axes) if node.is_op("Unsqueeze") else -len(axes)


def _holder(graph: ir.Graph, outer: ir.Graph) -> ir.Node | None:
    """Return the If of the outer graph in which a graph is, at any depth."""
    parent = graph.parent
    while parent is not None and parent.graph is not outer:
        parent = parent.graph.parent
    return parent if parent is not None and _is_choice(parent) else None


def _is_choice(node: ir.Node) -> bool:
    return node.is_op("If") and not node.is_call and not node.has_references


def _all_of(found: list[RanksTaken]) -> RanksTaken:
    known = [ranks for ranks in found if ranks is not None]
    return frozenset.intersection(*known) if known else None
