"""What is known of the results of If: what its branches have in common, and the rank that is read of them.

An operator that takes one rank only says which branch is taken in every run that ends well: `x.dim() != 3` before an
LSTM, for instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from bnfold.analysis.constants import constant
from bnfold.analysis.shapes.weights import dims_by_weights
from bnfold.analysis.traits import KEEPS_SHAPE
from bnfold.ir.graph import Graph
from bnfold.ir.model import Model
from bnfold.ir.node import Node
from bnfold.ir.value import Dim, Dims, Value, shape_of

_DEEP = 8
"""Nodes in a row that are followed to one that takes a single rank."""
_RANKS: Mapping[str, Mapping[int, int]] = {name: {0: 3, 5: 3} for name in ("RNN", "GRU", "LSTM")}
"""The rank of inputs of operators that take no other."""
Ranks = frozenset[int] | None
"""The ranks that a value may have in a run that ends well; None if it may have any."""


def known_by_branches(model: Model, types: Mapping[Value, onnx.TypeProto]) -> dict[Value, Dims]:
    """Return dims of results of Ifs, and of what has a rank by its weight, that ``types`` leave open."""
    nodes = [*model.nodes()]
    if not any(_is_choice(node) for node in nodes):
        return {}
    wanted, found = _Wanted(model), dict[Value, Dims]()
    for node in nodes:
        for slot, made in enumerate(node.outputs):
            if made is None or shape_of(types.get(made)) is not None:
                continue
            dims = _chosen(node, slot, made, types, wanted) if _is_choice(node) else _by_weights(node, slot)
            if dims is not None:
                found[made] = dims
    return found


def _is_choice(node: Node) -> bool:
    return node.is_op("If") and not node.is_call and not node.has_references and len(node.bodies) == 2


def _by_weights(node: Node, slot: int) -> Dims | None:
    """Return dims by a stored weight: an annotation of one that nodes compute is not believed."""
    weight = node.input(1)
    if slot or node.subgraphs or node.is_call or weight is None or not weight.holds_constant:
        return None
    dims = dims_by_weights(node)
    return None if dims is None else tuple(dims)


def _chosen(node: Node, slot: int, made: Value, types: Mapping[Value, onnx.TypeProto], wanted: _Wanted) -> Dims | None:
    """Return what the branches of an If have in common, but for those whose result has a rank that is not taken."""
    ends = [body.outputs[slot] for body in node.bodies if slot < len(body.outputs)]
    shapes = [shape_of(types.get(end)) for end in ends]
    ranks = wanted.of(made)
    fitting = [shape for shape in shapes if shape is None or ranks is None or len(shape) in ranks]
    known = [shape for shape in fitting if shape is not None]
    if known and len(known) == len(fitting) and len({len(shape) for shape in known}) == 1:
        return tuple(_common(sizes) for sizes in zip(*known, strict=True))
    return (None,) * next(iter(ranks)) if ranks is not None and len(ranks) == 1 else None


def _common(sizes: tuple[Dim, ...]) -> Dim:
    """Return the size that branches agree on; names that inference makes up are others each time."""
    first = sizes[0] if len(set(sizes)) == 1 else None
    return first if isinstance(first, int) or ":" in (first or "") else None


class _Wanted:
    """The ranks that consumers of values take, as far as every run comes to these consumers."""

    def __init__(self, model: Model) -> None:
        self._live = _live(model)

    def of(self, value: Value, depth: int = 0) -> Ranks:
        """Return the ranks that all consumers in the value's own graph take, and those behind this graph."""
        if depth > _DEEP:
            return None
        found = [self._taken(node, slot, depth) for node, slot in value.uses if node.graph is value.graph]
        holders = {holder: None for node, _ in value.uses if (holder := _holder(node.graph, value.graph)) is not None}
        found += [self._behind(holder, value, depth) for holder in holders]
        parent = value.graph.parent
        if parent is not None and _is_choice(parent):
            found += [self.of(made, depth + 1) for made in _results(parent, value.graph, value)]
        return _all_of(found)

    def _taken(self, node: Node, slot: int, depth: int) -> Ranks:
        made = node.output(0)
        if node not in self._live or node.is_call or node.domain or node.has_references:
            return None
        if (rank := _RANKS.get(node.op_type, {}).get(slot)) is not None:
            return frozenset((rank,))
        if made is None or slot != 0:
            return None
        if node.has_trait(KEEPS_SHAPE):
            return self.of(made, depth + 1)
        more = _added(node)
        behind = self.of(made, depth + 1) if more else None
        return None if behind is None else frozenset(rank - more for rank in behind)

    def _behind(self, holder: Node, value: Value, depth: int) -> Ranks:
        """Return the ranks that any of an If's branches takes of a value outside."""
        found: set[int] = set()
        for body in holder.bodies:
            inside = [self._taken(node, slot, depth) for node, slot in value.uses if node.graph is body]
            inside += [self.of(made, depth + 1) for made in _results(holder, body, value)]
            ranks = _all_of(inside)
            if ranks is None:
                return None
            found |= ranks
        return frozenset(found)


def _results(holder: Node, body: Graph, value: Value) -> Iterator[Value]:
    """Yield the results of an If that are ``value`` where this branch is taken."""
    for end, made in zip(body.outputs, holder.outputs, strict=False):
        if end is value and made is not None:
            yield made


def _holder(graph: Graph, outer: Graph) -> Node | None:
    """Return the If in the outer graph that has this graph as a branch."""
    parent = graph.parent
    return parent if parent is not None and parent.graph is outer and _is_choice(parent) else None


def _added(node: Node) -> int:
    """Return how many axes an Unsqueeze adds, or a Squeeze takes away; 0 if that is not known."""
    if not node.is_op("Squeeze", "Unsqueeze"):
        return 0
    held = constant(node.input(1)) if node.graph.opset() >= 13 else None
    axes = node.attr("axes", []) if node.graph.opset() < 13 else [] if held is None else held.numpy().reshape(-1)
    return len(axes) if node.is_op("Unsqueeze") else -len(axes)


def _all_of(found: list[Ranks]) -> Ranks:
    known = [ranks for ranks in found if ranks is not None]
    return frozenset.intersection(*known) if known else None


def _live(model: Model) -> set[Node]:
    """Return the nodes that outputs of the model depend on: runtimes leave out the others."""
    found: set[Node] = set()
    stack = [*model.graph.outputs]
    while stack:
        node = stack.pop().producer
        if node is None or node in found:
            continue
        found.add(node)
        stack += [value for value in node.inputs if value is not None]
        stack += [end for body in node.bodies for end in body.outputs]
    return found
