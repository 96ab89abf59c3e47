"""Match the nodes of two models by meaning, by neighbourhood and by name.

`Identities` gives nodes a number for how their results are computed, and one for how they are used. Nodes with equal
numbers match, whatever their names are. From there the match spreads to neighbours: first to equal nodes, then to nodes
with other constants, then to any node with the same operator. The last round steps over nodes that only one model has.
An equal name counts only if the names of neighbours agree too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from itertools import islice, zip_longest

from bnfold import ir
from bnfold.diffing.identity import Identities, ends, is_weight

_FAR = 12
"""How many unmatched nodes the search for the next common node may step over."""

MatchKey = Callable[[ir.Node], Hashable]


class Matching:
    """Pairs of matching nodes, and pairs of matching graph inputs, of two models.

    Attributes:
        pairs: From nodes of the first model to nodes of the second.
        partners: From nodes of the second model to nodes of the first.
        inputs: From graph inputs of the first model to graph inputs of the second.
        graphs: The pairs of graphs that were matched.
    """

    def __init__(self, known: Identities) -> None:
        self._known = known
        self.pairs: dict[ir.Node, ir.Node] = {}
        self.partners: dict[ir.Node, ir.Node] = {}
        self.graphs: list[tuple[ir.Graph, ir.Graph]] = []
        self.inputs: dict[ir.Value, ir.Value] = {}
        self._queues: list[deque[tuple[ir.Node | ir.Graph, ir.Node | ir.Graph]]] = [deque() for _ in range(4)]

    def add(self, old: ir.Graph, new: ir.Graph, common: set[str]) -> None:
        """Match two graphs, and then the bodies of nodes that were matched."""
        waiting = [(old, new, common)]
        while waiting:
            one, other, names = waiting.pop()
            self.graphs.append((one, other))
            self._match(one, other, names)
            for node in self._known.nodes[one]:
                for name, bodies in node.subgraphs.items() if node in self.pairs else ():
                    others = self.pairs[node].subgraphs.get(name, ())
                    waiting += [(*pair, set()) for pair in zip(bodies, others, strict=False)]

    def are_same(self, old: ir.Value | None, new: ir.Value | None) -> bool:
        """Whether two values are computed in the same way, or are the same output of matched nodes."""
        if old is None or new is None:
            return old is new
        number = self._known.value.get(old)
        if number is not None and number == self._known.value.get(new):
            return True
        if old.producer is None or new.producer is None:
            return self.inputs.get(old) is new
        return self.pairs.get(old.producer) is new.producer and old.slot == new.slot

    def _match(self, old: ir.Graph, new: ir.Graph, common: set[str]) -> None:
        known = self._known
        inputs = {key: value for value, key in ends(new.inputs, common)}
        pairs = ((value, inputs[key]) for value, key in ends(old.inputs, common) if key in inputs)
        # Constants are matched by their content instead.
        self.inputs.update(pair for pair in pairs if not any(map(known.constant, pair)))
        self._queues[0].append((old, new))

        def pair_up(key: MatchKey, **how: bool) -> None:
            self._pair_up(self._free(old, self.pairs), self._free(new, self.partners), key, **how)

        pair_up(lambda node: (known.node[node], known.below[node]))
        pair_up(lambda node: known.node[node])
        pair_up(lambda node: known.below[node], only=True)
        pair_up(
            lambda node: known.local[node] if any(map(is_weight, map(known.constant, node.inputs))) else None, only=True
        )
        self._spread(1)
        pair_up(lambda node: (name_of(node), known.shaped[node]), agree=True)
        self._spread(2)
        pair_up(lambda node: (name_of(node), known.operator[node]), agree=True)
        self._spread(3)
        self._spread(4)

    def _free(self, graph: ir.Graph, taken: Container[ir.Node]) -> list[ir.Node]:
        return [node for node in self._known.nodes[graph] if node not in taken]

    def _pair_up(
        self, old: Sequence[ir.Node], new: Sequence[ir.Node], key: MatchKey, *, only: bool = False, agree: bool = False
    ) -> bool:
        """Match nodes with equal keys: those with equal names first, then the others in order.

        With ``only``, a key counts only if one node on each side has it. With ``agree``, `_agree` has to confirm each
        pair.
        """
        if not (old and new):
            return False
        sides: tuple[dict[Hashable, list[ir.Node]], dict[Hashable, list[ir.Node]]] = ({}, {})
        for side, nodes in zip(sides, (old, new), strict=True):
            for node in nodes:
                side.setdefault(key(node), []).append(node)
        found = False
        for value, ours in sides[0].items():
            theirs = sides[1].get(value, [])
            if value is None or not theirs or (only and (len(ours) > 1 or len(theirs) > 1)):
                continue
            for one, other in _by_name(ours, theirs):
                if not agree or self._agree(one, other):
                    found = True
                    self.pairs[one], self.partners[other] = other, one
                    self._queues[0].append((one, other))
        return found

    def _agree(self, old: ir.Node, new: ir.Node) -> bool:
        """Whether the first inputs, or a common consumer, confirm that nodes with one name are the same.

        The name alone proves little: inserting a node shifts all later numbers in generated names.
        """
        one, other = old.input(0), new.input(0)
        if one is None or other is None or self.are_same(one, other):
            return (one is None) == (other is None)
        for value, taken in ((one, self.pairs), (other, self.partners)):
            if value.producer in taken:
                return False
        consumers = [{name_of(consumer) for consumer in _consumers(node)} for node in (old, new)]
        return one.name == other.name or bool(consumers[0] & consumers[1])

    def _spread(self, levels: int) -> None:
        """Match neighbours of matched nodes until no more are found.

        ``levels`` is how many criteria are used. Pairs that meet a stricter criterion are matched first.
        """
        ways: list[MatchKey] = [
            each.__getitem__ for each in (self._known.local, self._known.shaped, self._known.operator)
        ]
        queues = self._queues[:levels]
        while any(queues):
            level = next(level for level, queue in enumerate(queues) if queue)
            old, new = queues[level].popleft()
            producers, consumers = (_producers(old), _producers(new)), (_consumers(old), _consumers(new))
            if not any(self._open(one, old) and self._open(other, new) for one, other in (producers, consumers)):
                continue
            if level == len(ways):
                if self._step_over(old, new):
                    queues[level].append((old, new))
                continue
            for one, other in zip(*producers, strict=False):
                self._pair_up(self._open([one], old), self._open([other], new), ways[level])
            self._pair_up(self._open(consumers[0], old), self._open(consumers[1], new), ways[level])
            self._queues[level + 1].append((old, new))

    def _open(self, nodes: Sequence[ir.Node | None], beside: ir.Node | ir.Graph) -> list[ir.Node]:
        """Return those of the nodes that may still be matched and are in the same graph as ``beside``."""
        graph = beside if isinstance(beside, ir.Graph) else beside.graph
        return [
            node
            for node in dict.fromkeys(nodes)
            if node is not None
            and node not in self.pairs
            and node not in self.partners
            and node.graph is graph
            and node in self._known.node
        ]

    def _step_over(self, old: ir.Node | ir.Graph, new: ir.Node | ir.Graph) -> bool:
        """Match the nearest similar nodes after, or before, nodes that only one model has."""
        found = False
        for down in (True, False):
            pair = self._nearest(self._beyond(old, down=down), self._beyond(new, down=down))
            if pair is not None:
                found |= self._pair_up([pair[0]], [pair[1]], self._known.similar.__getitem__)
        return found

    def _nearest(self, old: Iterator[ir.Node], new: Iterator[ir.Node]) -> tuple[ir.Node, ir.Node] | None:
        """Return the first pair of similar nodes, searching equally far on both sides."""
        similar, ours, theirs = self._known.similar, dict[int, ir.Node](), dict[int, ir.Node]()
        for one, other in zip_longest(islice(old, _FAR), islice(new, _FAR)):
            if one is not None:
                ours.setdefault(similar[one], one)
            if other is not None:
                theirs.setdefault(similar[other], other)
            for kind in (similar[node] for node in (one, other) if node is not None):
                if kind in ours and kind in theirs:
                    return ours[kind], theirs[kind]
            if not ours or not theirs:
                break
        return None

    def _beyond(self, start: ir.Node | ir.Graph, *, down: bool) -> Iterator[ir.Node]:
        """Yield unmatched nodes that are reached through unmatched nodes only, the nearest first."""
        seen: set[ir.Node] = set()
        ring: deque[ir.Node | ir.Graph] = deque([start])
        while ring:
            place = ring.popleft()
            for node in self._open(_consumers(place) if down else _producers(place), start):
                if node not in seen:
                    seen.add(node)
                    ring.append(node)
                    yield node


def _producers(place: ir.Node | ir.Graph) -> list[ir.Node | None]:
    """Return the producer of each input of a node, or of each output of a graph."""
    values = place.outputs if isinstance(place, ir.Graph) else place.inputs
    return [value.producer if value is not None else None for value in values]


def _consumers(place: ir.Node | ir.Graph) -> list[ir.Node]:
    values = place.inputs if isinstance(place, ir.Graph) else place.outputs
    return [consumer for value in values if value is not None for consumer in value.consumers]


def _by_name(old: Sequence[ir.Node], new: Sequence[ir.Node]) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Yield pairs with equal names, then the remaining nodes in order."""
    if len(old) == len(new) == 1:
        yield old[0], new[0]
        return
    named = {name_of(node): node for node in new}
    same = {node: named.pop(name_of(node)) for node in old if name_of(node) in named}
    yield from same.items()
    taken = set(same.values())
    yield from zip(
        (node for node in old if node not in same), (node for node in new if node not in taken), strict=False
    )


def name_of(node: ir.Node) -> str:
    """Return the name of a node's first output."""
    return next((value.name for value in node.outputs if value is not None), "")
