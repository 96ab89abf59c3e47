"""Runs of a part with one value changed, in which only what depends on that value is computed anew.

All else is the same as without the change, and is computed once for all mutants of a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.schedule import read_by
from bnfold.verification.changes.extract import draws

NearbyResults = Mapping[str, Array]
"""Values by name."""

_FEWEST = 4
"""Mutants for which computing the values once is worth it."""

_MOST = 1 << 24
"""Elements that may be kept, as far as their number follows from what the part is fed."""


class Run(Protocol):
    """A model and what it is fed; called, it gives values by their names, or those of a changed copy.

    What is ``known`` of its values is not computed.
    """

    @property
    def model(self) -> ir.Model: ...

    @property
    def feeds(self) -> Mapping[str, Any]: ...

    @property
    def names(self) -> Sequence[str]: ...

    def __call__(
        self, names: Sequence[str] | None = None, *, model: ir.Model | None = None, **options: Any
    ) -> NearbyResults: ...


class Nearby:
    """One model of a comparison, run with changes to single values. What few ``values`` need is not kept."""

    def __init__(self, side: Run, values: Iterable[ir.Value]) -> None:
        self._side = side
        self._behind = {value: found for value in values if (found := _behind(value, side.model)) is not None}
        known = {read.name: None for nodes in self._behind.values() for read in _read(nodes)}
        size = sum(getattr(array, "size", 0) for array in side.feeds.values())
        if any(map(draws, side.model.nodes())) or len(self._behind) < _FEWEST or size * len(known) > _MOST:
            self._behind = {}
        self._known = side([*known], known={}) if self._behind and known else {}

    def __call__(self, changes: Mapping[ir.Value, Callable[[Any], Any]]) -> NearbyResults:
        """Return the results that the changes may have an effect on."""
        value = next(iter(changes), None)
        nodes = self._behind.get(value) if value is not None and len(changes) == 1 else None
        if nodes is None or value is None:
            return self._side(altered=changes)
        made = {result.name for node in nodes for result in node.outputs if result is not None}
        names = [name for name in self._side.names if name in made or name == value.name]
        if not names:
            return {}
        known = {read.name: self._known[read.name] for read in _read(nodes)}
        return self._side(names, altered=changes, known=known)


def _behind(value: ir.Value, model: ir.Model) -> Collection[ir.Node] | None:
    """Return the nodes of the main graph that compute a value, and that depend on it; None if it is of a body."""
    if value.graph is not model.graph:
        return None
    found = {value.producer: None} if value.producer is not None else {}
    waiting = [value]
    while waiting:
        for reader in waiting.pop().consumers:
            node = _in_main_graph(reader, model)
            if node is None:
                return None
            if node not in found:
                found[node] = None
                waiting += [made for made in node.outputs if made is not None]
    return found


def _in_main_graph(node: ir.Node | None, model: ir.Model) -> ir.Node | None:
    while node is not None and node.graph is not model.graph:
        node = node.graph.parent
    return node


def _read(nodes: Collection[ir.Node]) -> Iterator[ir.Value]:
    """Yield the computed values that these nodes read, and do not compute."""
    for node in nodes:
        for value in read_by(node):
            if value.producer is not None and value.producer not in nodes:
                yield value
