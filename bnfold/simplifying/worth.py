"""Which results of constants are worth the bytes that storing them adds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from bnfold import ir
from bnfold.analysis.traits import WEIGHTED
from bnfold.edits.size_budget import SizeBudget, freed, stored_bytes

_SMALL = 1024
"""Bytes of a result that is stored at once; larger ones wait until equal nodes are united."""
_FILLED = 1 << 25
"""Bytes that a model may grow by weights that it computes from next to nothing, such as one number in every place.

A runtime holds them anyway, and many take only stored weights.
"""
_FAR = 64
"""Nodes that a result may be computed by."""


class ResultGroup(NamedTuple):
    """Nodes whose results are computed from the same weights, the bytes that these add, and how many nodes go."""

    nodes: Sequence[ir.Node]
    growth: int
    saved: int
    is_filled: bool

    @property
    def price(self) -> float:
        """Bytes for each operator that is saved."""
        return self.growth / self.saved


def worth_storing(
    tensors: Mapping[ir.Node, ir.Tensor], budget: SizeBudget, *, can_grow: bool
) -> tuple[list[ResultGroup], bool]:
    """Return the results that the budget allows, and whether these are all.

    Weights that several results share count once. Groups that add bytes have to wait until the model ``can_grow``.
    With a limit, those that cost least for each operator come first.
    """
    is_limited = budget.limit is not None
    small = [node for node, tensor in tensors.items() if not is_limited and tensor.nbytes <= _SMALL]
    at_once = [_group([node], tensors) for node in small]
    groups = [_group(nodes, tensors) for nodes in _sharing([node for node in tensors if node not in small])]
    kept = [group for group in groups if group.growth <= 0]
    if can_grow:
        growing = [group for group in groups if group.growth > 0]
        kept += _cheapest(growing, budget) if is_limited else _worthwhile(growing, budget)
    return [*at_once, *kept], len(kept) == len(groups)


def _cheapest(groups: Sequence[ResultGroup], budget: SizeBudget) -> list[ResultGroup]:
    return [group for group in sorted(groups, key=lambda group: group.price) if budget.spend(group.growth)]


def _worthwhile(groups: Sequence[ResultGroup], budget: SizeBudget) -> list[ResultGroup]:
    """Return groups that are worth their bytes; filled weights all or none, so that a second run adds none."""
    worth = [group for group in groups if group.growth <= budget.left(group.saved)]
    filled = [group for group in groups if group.growth > budget.left(group.saved) and group.is_filled]
    return worth + (filled if sum(group.growth for group in filled) <= _FILLED else [])


def _group(nodes: Sequence[ir.Node], tensors: Mapping[ir.Node, ir.Tensor]) -> ResultGroup:
    constants, gone = freed([value for node in nodes for value in node.outputs if value is not None])
    growth = sum(tensors[node].nbytes for node in nodes) - sum(map(stored_bytes, constants))
    return ResultGroup(nodes, growth, len(gone), all(map(_is_filled_weight, nodes)))


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
