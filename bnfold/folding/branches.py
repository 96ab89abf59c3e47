"""Where branches of one value meet in a sum: convolutions of it, and the value itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from bnfold import ir
from bnfold.folding import chains
from bnfold.folding.ops.elementwise_nary import SUMS
from bnfold.folding.replacement import key_of
from bnfold.folding.size_budget import Limits
from bnfold.ir.traits import ARITHMETIC

MOST = 64
"""Branches of one sum, and affine nodes on one of them."""


class Branch(NamedTuple):
    """A summand: affine nodes, the first one first, behind a convolution of ``source`` or ``source`` itself."""

    source: ir.Value | None
    conv: ir.Node | None
    affines: tuple[ir.Node, ...]
    sign: int


class Meeting(NamedTuple):
    """Sums, the outermost first, all of whose summands are branches of one value."""

    sums: tuple[ir.Node, ...]
    branches: tuple[Branch, ...]

    @property
    def total(self) -> ir.Node:
        return self.sums[0]

    @property
    def affines(self) -> list[ir.Node]:
        return [node for branch in self.branches for node in branch.affines]

    @property
    def convs(self) -> list[ir.Node]:
        return [branch.conv for branch in self.branches if branch.conv is not None]

    @property
    def nodes(self) -> list[ir.Node]:
        return [*self.sums, *self.affines, *self.convs]


def find_meetings(model: ir.Model, normalisations: Collection[ir.Node], limits: Limits) -> Iterator[Meeting]:
    """Yield where branches meet, the outermost sum first. Each has to be dealt with before the next is asked for.

    Without ``merge_branches`` only such that one of the ``normalisations`` stands in, or right behind; none with
    another BatchNormalization.
    """
    totals = [node for node in model.nodes() if node.is_op(*SUMS)]
    while totals:
        with ir.evaluated_once(model):  # until one is dealt with
            found = _next_meeting(totals, normalisations, limits)
        if found is not None:
            yield found


def _next_meeting(totals: list[ir.Node], normalisations: Collection[ir.Node], limits: Limits) -> Meeting | None:
    """Return where branches meet, at the last of the sums that has such; it and those behind it leave the list."""
    while totals:
        total = totals.pop()
        meeting = None if total.removed else _meeting(total)
        if meeting is None or key_of(total) in limits.banned:
            continue
        if any(node.is_op("BatchNormalization") and node not in normalisations for node in meeting.affines):
            continue
        made = total.outputs[0]
        behind = made.only_consumer if made is not None else None
        if limits.merge_branches or any(node in normalisations for node in (*meeting.affines, behind)):
            return meeting
    return None


def _meeting(total: ir.Node) -> Meeting | None:
    """Return where two branches meet, None where something else is added as well."""
    sums: list[ir.Node] = []
    branches: list[Branch] = []
    waiting = [(total, 1)]
    while waiting:
        node, sign = waiting.pop()
        sums.append(node)
        if len(node.outputs) != 1 or None in (*node.inputs, *node.outputs) or len(sums) + len(branches) > MOST:
            return None
        for slot, value in enumerate(node.inputs):
            assert value is not None, "it was looked at"
            own = -sign if node.op_type == "Sub" and slot == 1 else sign
            producer = value.producer if value.only_consumer is not None and value.graph is total.graph else None
            if producer is not None and producer.is_op(*SUMS) and not chains.has_constant(producer):
                waiting.append((producer, own))
            else:
                branches.append(_branch(value, own, total.graph))
    met = {branch.source for branch in branches}
    meeting = Meeting(tuple(sums), tuple(branches))
    return meeting if len(branches) > 1 and len(met) == 1 and None not in met and meeting.convs else None


def _branch(value: ir.Value, sign: int, graph: ir.Graph) -> Branch:
    affines: list[ir.Node] = []
    at: ir.Value | None = value
    while at is not None and at.only_consumer is not None and at.graph is graph and (node := at.producer) is not None:
        if node.is_op("Conv"):
            return Branch(node.input(0), node, tuple(affines[::-1]), sign)
        slots = [0] if node.is_op("BatchNormalization") else _computed(node)
        if len(slots) != 1 or len(affines) == MOST:
            break
        affines.append(node)
        at = node.input(slots[0])
    return Branch(at, None, tuple(affines[::-1]), sign)


def _computed(node: ir.Node) -> list[int]:
    """Return which operands of arithmetic are no constants; none of other operators."""
    if not node.has_trait(ARITHMETIC):
        return []
    return [slot for slot, operand in enumerate(node.inputs) if ir.constant(operand) is None]
