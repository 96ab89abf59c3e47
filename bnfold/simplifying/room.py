"""Whether results of constants may be stored: how many bytes that takes, and how many it frees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from bnfold import ir
from bnfold.ir.traits import WEIGHTED
from bnfold.simplifying.plan import Store

SMALL = 1024
"""Bytes that a result may have, whatever it is computed from."""
_MEDIUM = 1 << 16
"""Bytes of a result that the model may grow by, if all that it would grow by is little."""
_LITTLE = 1 << 17
"""Bytes that any model may grow by: the tables of a Fourier transform of 1,024 samples, for instance."""
_FILLED = 1 << 25
"""Bytes that a model may grow by weights that it computes from next to nothing, such as one number in every place.

A runtime holds them anyway, and many take only stored weights.
"""
_SHARE = 16
"""The part of its weights that a model may grow by."""
_FAR = 64
"""Nodes that a result may be computed by."""


class Room:
    """Which results may be stored: those that are small, or free as much room as they take, and together a few others.

    The others are stored all or not at all: what there is no room for, there is none for in a second run either.
    """

    def __init__(self, model: ir.Model) -> None:
        self.is_open = False
        """Whether the model may grow already: equal nodes are to be united before room is spent on each of them."""
        self.is_short = False
        """Whether there was no room for some result."""
        self._most = max(_LITTLE, model.parameter_bytes() // _SHARE)

    def stored(self, plans: Mapping[ir.Node, Store]) -> list[Store]:
        """Return the plans for which there is room; weights that several results share count once."""
        kept = [plan for plan in plans.values() if plan.tensor.nbytes <= SMALL]
        large = {node: plan for node, plan in plans.items() if plan.tensor.nbytes > SMALL}
        medium: dict[ir.Node, int] = {}
        filled: dict[ir.Node, int] = {}
        for group in _sharing([*large]):
            taken = sum(large[node].tensor.nbytes for node in group)
            growth = taken - sum(value.stored_bytes for value in _freed(group))
            if growth <= 0:
                kept += [large[node] for node in group]
            elif self.is_open and all(map(_is_filled_weight, group)):
                filled |= dict.fromkeys(group, 0) | {group[0]: growth}
            elif self.is_open and taken <= _MEDIUM:
                medium |= dict.fromkeys(group, 0) | {group[0]: growth}
            else:
                self.is_short = True
        for growths, most in ((medium, self._most), (filled, _FILLED)):
            if sum(growths.values()) <= most:
                kept += [large[node] for node in growths]
            else:
                self.is_short = True
        return kept


def _sharing(nodes: Collection[ir.Node]) -> list[list[ir.Node]]:
    """Return groups of nodes that are computed from the same weights."""
    groups: list[tuple[set[ir.Value], list[ir.Node]]] = []
    for node in nodes:
        weights, members = _weights(node), [node]
        for group in [group for group in groups if group[0] & weights]:
            groups.remove(group)
            weights, members = weights | group[0], group[1] + members
        groups.append((weights, members))
    return [members for _, members in groups]


def _weights(node: ir.Node) -> set[ir.Value]:
    """Return the weights that a node is computed from; small ones are no room that is worth sharing."""
    weights: set[ir.Value] = set()
    stack, seen = [node], {node}
    while stack and len(seen) <= _FAR:
        for value in stack.pop().inputs:
            if value is not None and value.tensor_proto is not None:
                weights |= {value} if value.stored_bytes > SMALL else set()
            elif value is not None and value.producer is not None and value.producer not in seen:
                seen.add(value.producer)
                stack.append(value.producer)
    return weights


def _is_filled_weight(node: ir.Node) -> bool:
    """Whether a result is read only as the weight of products, and no stored weight is behind it."""
    uses = [use for value in node.outputs if value is not None for use in value.uses]
    return all(consumer.has_trait(WEIGHTED) and slot == 1 for consumer, slot in uses) and not _weights(node)


def _freed(nodes: Collection[ir.Node]) -> list[ir.Value]:
    """Return the weights that nothing reads any more, once these nodes are gone, and what only they read."""
    freed: list[ir.Value] = []
    uses: Counter[ir.Value] = Counter()
    gone, stack = set(nodes), [*nodes]
    while stack:
        for value in stack.pop().inputs:
            if value is None:
                continue
            uses[value] += 1
            if value.is_output or value.is_input or uses[value] < len(value.uses):
                continue
            if value.tensor_proto is not None:
                freed.append(value)
            elif value.producer is not None and value.producer not in gone and len(value.producer.outputs) == 1:
                gone.add(value.producer)
                stack.append(value.producer)
    return freed
