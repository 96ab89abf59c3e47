"""The order of nodes: some files are unsorted, and run anyway."""

from __future__ import annotations

from collections.abc import Iterable

from bnfold.ir.graph import Graph
from bnfold.ir.node import Node
from bnfold.ir.value import Value


def producers_first(nodes: Iterable[Node]) -> list[Node]:
    """Sort nodes topologically, and keep their order where possible. A node also reads what its bodies capture."""
    if _are_in_order(nodes := list(nodes)):
        return nodes  # as nearly always
    place = set(nodes)
    ordered: dict[Node, None] = {}
    entered: set[Node] = set()
    for node in nodes:
        stack = [node]
        while stack:
            top = stack[-1]
            producers = [value.producer for value in _reads(top) if value is not None and value.producer not in entered]
            waiting = [producer for producer in producers if producer is not None and producer in place]
            entered.add(top)
            if waiting:
                stack.extend(reversed(waiting))
            else:
                ordered[stack.pop()] = None
    return list(ordered)


def _are_in_order(nodes: list[Node]) -> bool:
    unmet = set(nodes)
    for node in nodes:
        if not unmet.isdisjoint([value.producer for value in _reads(node) if value is not None]):
            return False
        unmet.remove(node)
    return True


def sort_nodes(graph: Graph) -> bool:
    """Sort the nodes of a graph and of what is nested in it; whether any were not in order."""
    orders = [(inner, producers_first(inner.nodes)) for inner in graph.subgraphs()]
    unsorted = [(inner, order) for inner, order in orders if order != inner.nodes]
    for inner, order in unsorted:
        inner.reorder(order)
    return bool(unsorted)


def _reads(node: Node) -> list[Value | None]:
    if not node.subgraphs:
        return node.inputs  # as nearly always
    read = [*node.inputs]
    for body in node.bodies:
        read += body.outputs
        for inner in body.nodes:
            read += _reads(inner)
    return read
