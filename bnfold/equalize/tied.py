"""Which values have to be scaled together, channel by channel, so that no output of the graph changes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.traits import ARITHMETIC
from bnfold.edits.edit import Edit, SetAttr, SetConstant
from bnfold.folding import chains, facts, shapes
from bnfold.folding.affine import Affine, make
from bnfold.folding.facts import guarded
from bnfold.folding.limits import Limits
from bnfold.folding.ops import elementwise_nary
from bnfold.folding.ops.registry import ask, decline_excluded
from bnfold.folding.step import Step
from bnfold.report.reasons import Declined, Reason

MAX_NODES = 1024
"""Nodes that one scale concerns; those around a residual stream are a few hundred."""


@dataclass(slots=True, eq=False)
class Tied:
    """What has to change where one value is multiplied by a positive factor for each channel.

    ``values`` are those that are scaled then, ``nodes`` those around them, ``edits`` what these take.
    """

    limits: Limits
    values: dict[ir.Value, Affine] = field(default_factory=dict)
    nodes: dict[ir.Node, None] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    _edges: set[tuple[ir.Node, int]] = field(default_factory=set)
    _made: set[ir.Value] = field(default_factory=set)
    _waiting: list[tuple[ir.Value, Affine]] = field(default_factory=list)

    def scale(self, value: ir.Value, affine: Affine) -> None:
        """Follow the scale from ``value`` to everything that absorbs it. Raises Declined where something cannot."""
        self._waiting.append((value, affine))
        while self._waiting:
            self._relabel(*self._waiting.pop())

    def _relabel(self, value: ir.Value, affine: Affine) -> None:
        """Ask each neighbour of a value to live with what it becomes."""
        known = self.values.get(value)
        if known is not None and not _agree(known, affine):
            raise Declined(Reason.SHARED_VALUE, f"value {value.name!r} would be scaled in two ways")
        if known is not None or affine.is_identity:
            return
        self.values[value] = affine
        if value.is_output:
            raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}")
        if value.producer is None:
            raise Declined(Reason.GRAPH_INPUT, f"value {value.name!r}")
        if value not in self._made:
            self._take(value.producer, _upward(value.producer, value.slot, affine, self.limits))
        for consumer, slot in value.uses:
            if consumer.graph is not value.graph:
                raise Declined(Reason.BARRIER, f"value {value.name!r}")
            if (consumer, slot) not in self._edges:
                self._read(consumer, slot, affine)

    def _read(self, consumer: ir.Node, slot: int, affine: Affine) -> None:
        """Relabel a consumer: it undoes what is scaled, or its outputs are scaled too.

        What is linear scales all operands.
        """
        made = consumer.output(0)
        if _is_linear(consumer) and made is not None:
            self._waiting.append((made, affine.lifted(shapes.rank(made))))
        else:
            self._take(consumer, ask(consumer, "down", {slot: inverse(affine)}, self.limits))

    def _take(self, node: ir.Node, step: Step) -> None:
        if node in self.nodes:
            raise Declined(Reason.SHARED_VALUE, f"{facts.where(node)} reads the scaled value twice")
        if len(self.nodes) >= MAX_NODES:
            raise Declined(Reason.TOO_FAR, f"{MAX_NODES} nodes")
        _check(step)
        self.nodes[node] = None
        self.edits += step.edits
        for slot, affine in step.requested:
            operand = node.input(slot)
            if operand is None or analysis.constant(operand) is not None:
                known = Reason.QUANTIZED_WEIGHT if facts.is_quantized(operand) else Reason.NO_HANDLER
                raise Declined(known, f"input {slot} of {facts.where(node)}")
            if not affine.is_identity:
                self._edges.add((node, slot))
                self._waiting.append((operand, affine))
        for slot, affine in step.pending:
            made = node.output(slot)
            if made is not None and not affine.is_identity:
                self._made.add(made)
                self._waiting.append((made, inverse(affine)))


def _check(step: Step) -> None:
    """Decline what would be more than other numbers in the same places."""
    for edit in step.edits:
        if not isinstance(edit, SetConstant | SetAttr):
            raise Declined(Reason.NO_GAIN, facts.where(edit.node))
        if isinstance(edit, SetConstant) and facts.is_quantized(edit.node.input(edit.slot)):
            raise Declined(Reason.QUANTIZED_WEIGHT, f"input {edit.slot} of {facts.where(edit.node)}")


def inverse(affine: Affine) -> Affine:
    """Invert a scale without a shift."""
    return make(1.0 / affine.s, affine.t)


def _agree(one: Affine, other: Affine) -> bool:
    """Compare up to what inverting twice rounds."""
    return one.shape == other.shape and np.allclose(one.s, other.s, rtol=1e-14, atol=0)


def _is_linear(node: ir.Node) -> bool:
    """Whether it only adds what it reads, and constants, or multiplies it by one."""
    return node.is_op(*elementwise_nary.SUMS) or (node.has_trait(ARITHMETIC) and chains.has_constant(node))


def _upward(node: ir.Node, slot: int, affine: Affine, limits: Limits) -> Step:
    """Do as `ask`; but arithmetic with constants, which folding takes out, stays."""
    if not _is_linear(node):
        return ask(node, "up", {slot: affine}, limits)
    decline_excluded(node, limits)
    if node.is_op(*elementwise_nary.SUMS):
        return guarded(node, elementwise_nary.up, node, slot, affine)
    return Step(requested=((guarded(node, chains.arithmetic, node).slot, affine),))
