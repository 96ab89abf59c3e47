"""What lies before and behind nodes and values, in all graphs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from bnfold import ir

GraphPart = TypeVar("GraphPart", bound=Hashable)


def before(nodes: Iterable[ir.Node]) -> set[ir.Node]:
    """Return these nodes and all that they depend on."""
    return reached(nodes, _producers)


def after(nodes: Iterable[ir.Node]) -> set[ir.Node]:
    """Return these nodes and all that depend on them."""
    return reached(nodes, _consumers)


def reached(starts: Iterable[GraphPart], step: Callable[[GraphPart], Iterable[GraphPart]]) -> set[GraphPart]:
    """Return the starts, and all that steps from them lead to."""
    found: set[GraphPart] = set()
    waiting = [*starts]
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += step(place)
    return found


def with_inner(node: ir.Node) -> Iterator[ir.Node]:
    """Yield a node, and those in its bodies."""
    yield node
    for body in node.bodies:
        for graph in body.subgraphs():
            yield from graph.nodes


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    read = (value for inner in with_inner(node) for value in inner.inputs if value is not None)
    yield from (value.producer for value in read if value.producer is not None)


def _consumers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.outputs:
        yield from value.consumers if value is not None else ()
    if node.graph.parent is not None:  # what a body makes, the node around it may return
        yield node.graph.parent
