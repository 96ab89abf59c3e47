"""In which order the nodes of a graph run, and when each value may be forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from bnfold import ir
from bnfold.errors import MalformedModel


class Schedule(NamedTuple):
    """``last_reads[i]`` are the values of this graph that are unused once ``nodes[i]`` has run."""

    nodes: tuple[ir.Node, ...]
    last_reads: tuple[tuple[ir.Value, ...], ...]


def schedule(graph: ir.Graph, wanted: Collection[ir.Value], given: Collection[ir.Value]) -> Schedule:
    """Return what has to run to know ``wanted`` where ``given`` is known already; linear in nodes and edges.

    Raises:
        MalformedModel: A value depends on itself.
    """
    reads = {node: [value for value in read_by(node) if value.graph is graph] for node in graph.nodes}
    needed = _needed(wanted, given, reads)
    nodes = [node for node in graph.nodes if node in needed]
    if not _is_sorted(nodes, reads, given):
        nodes = _sorted(nodes, needed, reads, given, graph)
    return Schedule(tuple(nodes), _last_reads(nodes, reads, wanted))


def read_by(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values a node reads, with those that its subgraphs capture from outside."""
    yield from (value for value in node.inputs if value is not None)
    for body in node.bodies:
        yield from captured(body)


def captured(subgraph: ir.Graph) -> Iterator[ir.Value]:
    """Yield what a subgraph, and those inside it, read of the graphs around it."""
    for inner in subgraph.nodes:
        yield from (value for value in read_by(inner) if value.graph is not subgraph)
    yield from (value for value in subgraph.outputs if value.graph is not subgraph)


Reads = dict[ir.Node, list[ir.Value]]


def _needed(wanted: Collection[ir.Value], given: Collection[ir.Value], reads: Reads) -> set[ir.Node]:
    known, nodes = set(given), set[ir.Node]()
    stack = [value for value in wanted if value not in known]
    while stack:
        node = stack.pop().producer
        if node is None or node in nodes or node not in reads:
            continue
        nodes.add(node)
        stack.extend(value for value in reads[node] if value not in known)
    return nodes


def _is_sorted(nodes: list[ir.Node], reads: Reads, given: Collection[ir.Value]) -> bool:
    known, done = set(given), set[ir.Node]()
    for node in nodes:
        for value in reads[node]:
            if value.producer is not None and value.producer not in done and value not in known:
                return False
        done.add(node)
    return True


def _sorted(
    nodes: list[ir.Node], needed: set[ir.Node], reads: Reads, given: Collection[ir.Value], graph: ir.Graph
) -> list[ir.Node]:
    known = set(given)
    sorter = TopologicalSorter[ir.Node]()
    for node in nodes:
        sources = (value.producer for value in reads[node] if value not in known)
        sorter.add(node, *(source for source in sources if source in needed))
    try:
        return list(sorter.static_order())
    except CycleError as error:
        labels = [node.label for node in error.args[1]]
        raise MalformedModel(f"nodes of graph {graph.path or 'main'!r} depend on themselves: {labels}") from error


def _last_reads(nodes: list[ir.Node], reads: Reads, wanted: Collection[ir.Value]) -> tuple[tuple[ir.Value, ...], ...]:
    seen = set(wanted)
    lasts: list[tuple[ir.Value, ...]] = []
    for node in reversed(nodes):
        made = (value for value in node.outputs if value is not None)
        last = tuple(dict.fromkeys(value for value in (*made, *reads[node]) if value not in seen))
        seen.update(last)
        lasts.append(last)
    return tuple(reversed(lasts))
