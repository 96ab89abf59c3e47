"""The nodes before others and after them, in all graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bnfold import ir


def before(nodes: Iterable[ir.Node]) -> set[ir.Node]:
    """Return these nodes and all that they depend on."""
    return _reached(nodes, _producers)


def after(nodes: Iterable[ir.Node]) -> set[ir.Node]:
    """Return these nodes and all that depend on them."""
    return _reached(nodes, _consumers)


def _reached(nodes: Iterable[ir.Node], step: Callable[[ir.Node], Iterator[ir.Node]]) -> set[ir.Node]:
    reached: set[ir.Node] = set()
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += step(node)
    return reached


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    read = (value for inner in _with_inner(node) for value in inner.inputs if value is not None)
    yield from (value.producer for value in read if value.producer is not None)


def _consumers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.outputs:
        yield from value.consumers if value is not None else ()
    if node.graph.parent is not None:  # what a body makes, the node around it may return
        yield node.graph.parent


def _with_inner(node: ir.Node) -> Iterator[ir.Node]:
    yield node
    for body in node.bodies:
        for graph in body.subgraphs():
            yield from graph.nodes
