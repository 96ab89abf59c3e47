"""What both regions compute from constants alone: where it is the same, how it is made is no matter."""

from __future__ import annotations

from bnfold import ir
from bnfold.verification.changes.extract import Subgraph, computed, constant_of
from bnfold.verification.changes.from_constants import fixed
from bnfold.verification.changes.unchanged import identity
from bnfold.verification.tolerance.bits import same


def settled(old: Subgraph, new: Subgraph) -> set[ir.Node]:
    """Return the nodes that make nothing but what whoever reads it is given on the other side as well."""
    sides = _Computed(old), _Computed(new)
    return {node for side, other in (sides, sides[::-1]) for node in side.settled(other)}


class _Computed:
    """The nodes of a region, and those of them, in order, that read nothing but constants that no caller overrides."""

    def __init__(self, subgraph: Subgraph) -> None:
        self._nodes = {identity(node): node for node in subgraph.nodes}
        nodes = computed(subgraph.nodes, lambda value: ir.constant(value) is not None)
        self._computed = [node for node in nodes if constant_of(node.output(0)) is None]

    def settled(self, other: _Computed) -> set[ir.Node]:
        found: set[ir.Node] = set()
        for node in reversed(self._computed):
            values = [value for value in node.outputs if value is not None]
            uses = [(value, *use) for value in values for use in value.uses]
            is_read_by_callers = any(value.is_output for value in values)
            if not is_read_by_callers and all(use[1] in found or self._agrees(other, *use) for use in uses):
                found.add(node)
        return found

    def _agrees(self, other: _Computed, value: ir.Value, consumer: ir.Node, slot: int) -> bool:
        """Whether the reader's twin is given the same."""
        twin = other._nodes.get(identity(consumer)) if self._nodes.get(identity(consumer)) is consumer else None
        mine, theirs = fixed(value), fixed(twin.input(slot)) if twin is not None else None
        return mine is not None and theirs is not None and same(mine, theirs)
