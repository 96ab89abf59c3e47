"""The part of a graph around one BatchNormalization, before and after its rewrite: what a drawing is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bnfold import analysis, ir
from bnfold.ir.ordering import producers_first
from bnfold.report.events import BatchNormEvent

MAX_NODES = 18
"""More than this is illegible in a small drawing; the rest is counted."""
REACH = 2
"""Nodes up and down from a BatchNormalization that was not rewritten."""


@dataclass(slots=True, eq=False)
class Neighbourhood:
    """Nodes to be drawn, each with its role; ``left_out`` counts neighbours for which there was no room."""

    roles: dict[ir.Node, str] = field(default_factory=dict)
    left_out: int = 0

    def add(self, nodes: Iterable[ir.Node], role: str) -> None:
        for node in dict.fromkeys(nodes):
            if node in self.roles:
                continue
            if len(self.roles) >= MAX_NODES:
                self.left_out += 1
            else:
                self.roles[node] = role


class Views:
    """Both models, with a way from a BatchNormalization to the rewrite that took it."""

    def __init__(
        self, before: ir.Model, after: ir.Model, cuts: Sequence[ir.Cut], renamed: Mapping[str, str] | None = None
    ) -> None:
        self._before = {graph.path: graph for graph in before.graphs()}
        self._after = {graph.path: graph for graph in after.graphs()}
        self._renamed = renamed or {}
        self._cuts: dict[ir.Node, ir.Cut] = {}
        for cut in cuts:  # a later rewrite of the same node is the one that matters
            for node in between(self._before.get(cut.graph), cut):
                self._cuts[node] = cut

    def node_of(self, event: BatchNormEvent) -> ir.Node | None:
        """Return the node of the model before that an event is about; None where an earlier rewrite made it."""
        graph = self._before.get(event.graph)
        value = graph.values.get(event.value) if graph is not None else None
        node = value.producer if value is not None else None
        is_it = node is not None and (node.is_op("BatchNormalization") or event.is_affine)
        return node if is_it else None

    def drawing(self, event: BatchNormEvent, node: ir.Node) -> dict[str, Any]:
        """Return ``before`` and, where something was rewritten there, ``after``.

        Nodes with roles, and edges between them.
        """
        cut = self._cuts.get(node)
        if cut is None:
            return {"before": to_json(_around(node, event)), "after": None}
        after = self._after.get(cut.graph)
        before = Neighbourhood({node: "batchnorm"})
        before.add(between(node.graph, cut), "rewritten")
        add_context(before)
        changed = Neighbourhood()
        inside = between(after, cut)
        changed.add((inner for inner in inside if self._took_over(inner, event, cut)), "home")
        changed.add(
            (inner for inner in inside if inner.is_op("BatchNormalization") and _makes(inner, event)), "batchnorm"
        )
        changed.add(inside, "rewritten")
        if after is not None:
            _add_boundary(changed, after, cut)
        add_context(changed)
        return {"before": to_json(before), "after": to_json(changed)}

    def _took_over(self, node: ir.Node, event: BatchNormEvent, cut: ir.Cut) -> bool:
        """Whether a node of the model after took the affine.

        One without a name is called after its output, which a fold upward may have renamed, or made that of the row.
        """
        if node.label in event.into or node.label in [self._renamed.get(name) for name in event.into]:
            return True
        is_nameless = not node.name and event.direction == "up"
        return is_nameless and node.op_type in event.operators and node.label in cut.outputs


def between(graph: ir.Graph | None, cut: ir.Cut) -> list[ir.Node]:
    """Return the nodes of ``graph`` from the cut's inputs to its outputs, nearest to the outputs first."""
    if graph is None:
        return []
    stops = set(cut.inputs)
    found: dict[ir.Node, None] = {}
    waiting = [graph.values[name] for name in cut.outputs if name in graph.values]
    while waiting:
        producer = waiting.pop(0).producer
        if producer is None or producer in found or producer.graph is not graph:
            continue
        found[producer] = None
        waiting += [value for value in producer.inputs if value is not None and value.name not in stops]
    return [node for node in found if not _is_weight(node)]


def _makes(node: ir.Node, event: BatchNormEvent) -> bool:
    return node.label == event.name or any(made is not None and made.name == event.value for made in node.outputs)


def _around(node: ir.Node, event: BatchNormEvent) -> Neighbourhood:
    """Return a BatchNormalization that stayed, the nodes that a search passed or stopped at, and the nearest others."""
    passed = {label for attempt in event.attempts for label in attempt.passed}
    stops = {attempt.stopped_at for attempt in event.attempts} - {""}
    region, seen, ring = Neighbourhood({node: "batchnorm"}), {node}, [node]
    for step in range(REACH + MAX_NODES):
        nearby = [other for inner in ring for other in (*feeding(inner), *reading(inner)) if other not in seen]
        if step >= REACH:
            nearby = [other for other in nearby if other.label in passed or other.label in stops]
        for role, chosen in (("stopped", stops), ("passed", passed)):
            region.add((other for other in nearby if other.label in chosen), role)
        region.add(nearby, "context")
        ring = list(dict.fromkeys(nearby))
        seen.update(ring)
    return region


def add_context(region: Neighbourhood) -> None:
    """Add the neighbours of what is to be drawn."""
    core = list(region.roles)
    for inner in core:
        region.add(feeding(inner), "context")
        region.add(reading(inner), "context")


def _add_boundary(region: Neighbourhood, graph: ir.Graph, cut: ir.Cut) -> None:
    """Add the boundary: where nothing is left between its values, the nodes on either side still show the place."""
    ends = [graph.values[name] for name in (*cut.inputs, *cut.outputs) if name in graph.values]
    if not region.roles:
        region.add((value.producer for value in ends if value.producer is not None), "context")
        region.add((consumer for value in ends for consumer in value.consumers if consumer.graph is graph), "context")


def feeding(node: ir.Node) -> list[ir.Node]:
    """Return the nodes of the same graph that make what a node reads, but for weights."""
    producers = (value.producer for value in node.inputs if value is not None)
    return [
        producer
        for producer in producers
        if producer is not None and producer.graph is node.graph and not _is_weight(producer)
    ]


def reading(node: ir.Node) -> list[ir.Node]:
    """Return the nodes of the same graph that read what a node makes."""
    consumers = (consumer for value in node.outputs if value is not None for consumer in value.consumers)
    return [consumer for consumer in dict.fromkeys(consumers) if consumer.graph is node.graph]


def _is_weight(node: ir.Node) -> bool:
    made = node.output(0)
    return made is not None and analysis.constant(made) is not None


def to_json(region: Neighbourhood) -> dict[str, Any]:
    """Return nodes in the graph's order, edges by position in that list; -1 stands for the outside of the graph."""
    graph = next(iter(region.roles)).graph if region.roles else None
    order = {node: position for position, node in enumerate(producers_first(region.roles))}
    edges: dict[tuple[int, int, str], None] = {}
    for node, position in order.items():
        for value in node.inputs:
            if value is None or value.is_initializer:
                continue
            if value.producer in order:
                edges[order[value.producer], position, value.name] = None
            elif value.producer is None and value.is_input and value.graph is graph:
                edges[-1, position, value.name] = None
        for value in node.outputs:
            if value is not None and value in node.graph.outputs:
                edges[position, -1, value.name] = None
    return {
        "nodes": [
            {"op": node.op_type, "name": node.label, "role": region.roles[node], "weights": _weights(node)}
            for node in order
        ],
        "edges": [{"from": start, "to": end, "value": name} for start, end, name in edges],
        "left_out": region.left_out,
    }


def _weights(node: ir.Node) -> list[str]:
    """Return the constants a node reads, by their dims."""
    held = [analysis.constant(value) for value in node.inputs if value is not None]
    return ["x".join(map(str, tensor.dims)) or "scalar" for tensor in held if tensor is not None]
