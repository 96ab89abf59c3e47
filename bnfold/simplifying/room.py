"""Whether results of constants may be stored: how many bytes that takes, and how many it frees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.analysis.traits import WEIGHTED
from bnfold.report import totals
from bnfold.report.growth import WORTH
from bnfold.simplifying.plan import Replace, StoreConstant

_SMALL = 1024
"""Bytes of a result that is stored at once; larger ones wait until equal nodes are united."""
_FILLED = 1 << 25
"""Bytes that a model may grow by weights that it computes from next to nothing, such as one number in every place.

A runtime holds them anyway, and many take only stored weights.
"""
_FAR = 64
"""Nodes that a result may be computed by."""


class _Group(NamedTuple):
    """Results that are computed from the same weights, the bytes that they add, and the nodes that go with them."""

    plans: list[StoreConstant]
    growth: int
    saved: int
    is_filled: bool

    @property
    def price(self) -> float:
        """Bytes for each operator that is saved."""
        return self.growth / self.saved


class Room:
    """Which results may be stored: those that cost no more bytes than the operators that they save are worth.

    If a number is given, it takes the place of that rule: the weights grow by at most ``most`` bytes. Results that cost
    least for each operator come first.
    """

    def __init__(self, model: ir.Model, most: int | None = None) -> None:
        self.is_open = False
        """Whether the model may grow already: equal nodes are to be united before room is spent on each of them."""
        self.is_short = False
        """Whether there was no room for some result."""
        self._model, self._most, self._left = model, most, 0
        self._before = 0 if most is None else totals.weights(model)

    def measure(self) -> None:
        """Count what is left of the number that was given. What became free since counts as well."""
        if self._most is not None:
            self._left = self._most + self._before - totals.weights(self._model)

    def takes(self, plan: Replace) -> bool:
        """Whether there is room for the constants that a node is going to read; without a number there always is."""
        if self._most is None:
            return True
        added = sum(operand.nbytes for operand in plan.inputs if isinstance(operand, np.ndarray))
        kept = {operand for operand in plan.inputs if isinstance(operand, ir.Value)}
        own = {value for value in plan.node.inputs if value is not None and value.only_use is not None} - kept
        return self._spend(added - sum(value.stored_bytes for value in own))

    def stored(self, plans: Mapping[ir.Node, StoreConstant]) -> list[StoreConstant]:
        """Return the plans for which there is room; weights that several results share count once."""
        small = {node: plan for node, plan in plans.items() if self._most is None and plan.tensor.nbytes <= _SMALL}
        at_once = [_group([node], plans) for node in small]
        groups = [_group(nodes, plans) for nodes in _sharing([node for node in plans if node not in small])]
        kept = [group for group in groups if group.growth <= 0]
        if self.is_open:
            growing = [group for group in groups if group.growth > 0]
            kept += self._worthwhile(growing) if self._most is None else self._cheapest(growing)
        self.is_short = self.is_short or len(kept) < len(groups)
        return [plan for group in (*at_once, *kept) for plan in group.plans]

    @staticmethod
    def _worthwhile(groups: list[_Group]) -> list[_Group]:
        """Return groups that are worth their bytes; filled weights all or none, so that a second run adds none."""
        kept = [group for group in groups if group.price <= WORTH]
        filled = [group for group in groups if group.price > WORTH and group.is_filled]
        return kept + (filled if sum(group.growth for group in filled) <= _FILLED else [])

    def _cheapest(self, groups: list[_Group]) -> list[_Group]:
        return [group for group in sorted(groups, key=lambda group: group.price) if self._spend(group.growth)]

    def _spend(self, growth: int) -> bool:
        """Take bytes of what is left; return whether there were enough. `measure` counts what becomes free."""
        if growth > max(self._left, 0):
            return False
        self._left -= max(growth, 0)
        return True


def _group(nodes: Collection[ir.Node], plans: Mapping[ir.Node, StoreConstant]) -> _Group:
    freed, saved = _freed(nodes)
    growth = sum(plans[node].tensor.nbytes for node in nodes) - sum(value.stored_bytes for value in freed)
    first, *others = (plans[node] for node in nodes)
    priced = [first._replace(growth=growth, saved=saved), *others]
    return _Group(priced, growth, saved, all(map(_is_filled_weight, nodes)))


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
                weights |= {value} if value.stored_bytes > _SMALL else set()
            elif value is not None and value.producer is not None and value.producer not in seen:
                seen.add(value.producer)
                stack.append(value.producer)
    return weights


def _is_filled_weight(node: ir.Node) -> bool:
    """Whether a result is read only as the weight of products, and no stored weight is behind it."""
    uses = [use for value in node.outputs if value is not None for use in value.uses]
    return all(consumer.has_trait(WEIGHTED) and slot == 1 for consumer, slot in uses) and not _weights(node)


def _freed(nodes: Collection[ir.Node]) -> tuple[list[ir.Value], int]:
    """Return the weights that nothing reads without these nodes and what only they read, and how many nodes go."""
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
    return freed, sum(not node.is_op("Constant") for node in gone)
