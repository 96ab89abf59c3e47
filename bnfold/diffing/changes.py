"""Differences between two models whose nodes were matched, in groups of neighbouring nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from bnfold import analysis, ir
from bnfold.converting.steps import is_compatible
from bnfold.diffing.constants import compared, described
from bnfold.diffing.identity import Identities
from bnfold.diffing.matching import Matching
from bnfold.ir.schemas import version_at
from bnfold.pipeline.explain.neighbourhood import feeding, reading

Texts = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MatchedChange:
    """How two matched nodes differ. ``outputs`` lists the output slots that each of them has."""

    old: ir.Node
    new: ir.Node
    attributes: Mapping[str, Texts]
    inputs: Mapping[str, Texts]
    constants: tuple[Mapping[str, Any], ...]
    outputs: Texts | None

    def __bool__(self) -> bool:
        return bool(self.attributes or self.inputs or self.constants or self.outputs)


@dataclass(slots=True)
class GraphDifference:
    """A group of differences: nodes that only one model has, and the changed nodes that produce their inputs."""

    graph: str
    changes: list[MatchedChange] = field(default_factory=list)
    old: list[ir.Node] = field(default_factory=list)
    new: list[ir.Node] = field(default_factory=list)
    place: float = 0.0


class GraphComparison:
    """The differences between all pairs of matched graphs."""

    def __init__(self, known: Identities, match: Matching) -> None:
        self._known, self._match = known, match
        self._measured: dict[tuple[ir.Tensor, ir.Tensor], dict[str, Any]] = {}
        self.same = 0
        self.differences = [found for pair in match.graphs for found in self._between(*pair)]

    def outputs(self) -> Iterator[tuple[str, Texts]]:
        """Yield the graph outputs that have different producers in the two models."""
        for old, new in self._match.graphs:
            for one, other in zip(old.outputs, new.outputs, strict=False):
                if not self._is_same(one, other) and not self._is_made_by_unmatched(one, other):
                    yield (
                        f"{f'{old.path}: ' if old.path else ''}output {one.name}",
                        (_producer_text(one), _producer_text(other)),
                    )

    def versions(self) -> Iterator[tuple[str, Texts]]:
        """Yield operators that the models use in different versions, unless both versions mean the same."""
        pairs = {
            (old.op_type, old.graph.opset(), new.graph.opset())
            for old, new in self._match.pairs.items()
            if not old.domain
        }
        for op_type, *opsets in sorted(pairs):
            old, new = (version_at(op_type, opset) for opset in opsets)
            if old and new and old != new and not is_compatible(op_type, min(old, new), max(opsets)):
                yield op_type, (f"version {old}", f"version {new}")

    def _is_same(self, old: ir.Value | None, new: ir.Value | None) -> bool:
        return self._match.are_same(old, new)

    def _is_made_by_unmatched(self, old: ir.Value | None, new: ir.Value | None) -> bool:
        """Whether an unmatched node produces one of the values.

        The difference is then reported for that node.
        """
        producers = [value.producer if value is not None else None for value in (old, new)]
        nodes, pairs, partners = self._known.node, self._match.pairs, self._match.partners
        return any(
            producer in nodes and producer not in taken
            for producer, taken in zip(producers, (pairs, partners), strict=True)
        )

    def _between(self, old: ir.Graph, new: ir.Graph) -> list[GraphDifference]:
        """Return the differences between two graphs, in the order of the old one."""
        pairs, partners, nodes = self._match.pairs, self._match.partners, self._known.nodes
        places: dict[ir.Node, float] = {node: place for place, node in enumerate(nodes[old])}
        last = -1.0
        for node in nodes[new]:
            last = places[partners[node]] if node in partners else last
            places[node] = last
        matched = [node for node in nodes[old] if node in pairs]
        changes = {node: change for node in matched if (change := self._change(node, pairs[node]))}
        only = [node for node in nodes[old] if node not in pairs]
        only += [node for node in nodes[new] if node not in partners]
        joined = _Joined()
        for node in only:
            for role, beside in (("reads", feeding(node)), ("is read by", reading(node))):
                for other in (each for each in beside if each in self._known.node):
                    met = partners.get(other, other)
                    joined.join(node, (role, met) if met in pairs else other)
            for place, value in enumerate(node.graph.outputs):
                if value.producer is node:
                    joined.join(node, place)
        found: dict[Hashable, GraphDifference] = {}
        for node in (*changes, *only):
            key = joined.root(("reads", node) if node in changes else node)
            difference = found.setdefault(key, GraphDifference(old.path, place=places[node]))
            difference.place = min(difference.place, places[node])
            if node in changes:
                difference.changes.append(changes[node])
            else:
                (difference.old if node.graph is old else difference.new).append(node)
        self.same += len(matched) - len(changes)
        return sorted(found.values(), key=lambda each: each.place)

    def _change(self, old: ir.Node, new: ir.Node) -> MatchedChange | None:
        known = self._known
        if known.node[old] == known.node[new]:
            return None
        mine, theirs = known.attributes[old], known.attributes[new]
        attributes = {
            name: (known.attribute_text(old, name), known.attribute_text(new, name))
            for name in {**mine, **theirs}
            if mine.get(name) != theirs.get(name)
        }
        inputs, constants = {}, []
        for slot, (first, second) in enumerate(zip_longest(old.inputs, new.inputs)):
            if self._is_same(first, second):
                continue
            old_constant, new_constant = known.constant(first), known.constant(second)
            is_one_kind = (analysis.constant(first) is None) == (
                analysis.constant(second) is None
            )  # both fixed, or both replaceable
            if old_constant is not None and new_constant is not None and is_one_kind:
                names = [each.name for each in (first, second) if each is not None]
                constants.append({"input": slot, "names": names, **self._constants(old_constant, new_constant)})
            elif not self._is_made_by_unmatched(first, second):
                inputs[str(slot)] = _producer_text(first), _producer_text(second)
        return MatchedChange(old, new, attributes, inputs, tuple(constants), _outputs(old, new))

    def _constants(self, old: ir.Tensor, new: ir.Tensor) -> dict[str, Any]:
        if (old, new) not in self._measured:
            types = {"types": [described(old), described(new)]}
            self._measured[old, new] = {**types, **(compared(old, new) or {})}
        return self._measured[old, new]


class _Joined:
    """Disjoint sets of things that belong to one difference."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        while (above := self._above.get(thing, thing)) != thing:
            self._above[thing] = self._above.get(above, above)
            thing = above
        return thing

    def join(self, one: Hashable, other: Hashable) -> None:
        self._above[self.root(one)] = self.root(other)


def _outputs(*nodes: ir.Node) -> Texts | None:
    """Return the output slots of two nodes, or None if both have the same ones."""
    old, new = ([slot for slot, value in enumerate(node.outputs) if value is not None] for node in nodes)
    return None if old == new else (str(old), str(new))


def _producer_text(value: ir.Value | None) -> str:
    """Describe a value's producer in words."""
    if value is None:
        return "nothing"
    tensor = analysis.constant(value)
    if tensor is not None:
        return f"constant {described(tensor)}"
    made = f"{value.producer.op_type} {value.producer.label}" if value.producer is not None else "input"
    return f"{value.name} ({made})" if made != f"{value.name}" else made
