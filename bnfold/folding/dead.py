"""Remove biases, and constants that are added, whose only effect an InstanceNormalization subtracts again.

``InstanceNormalization(x + t) = InstanceNormalization(x)`` for every ``t`` that is constant over the spatial axes: the
mean takes it along. So what only leads there needs no bias, with or without a BatchNormalization about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.folding import chains, facts, shapes
from bnfold.folding.affine import Affine, on_axis
from bnfold.folding.ask import decline_excluded
from bnfold.folding.chains import AffineChain
from bnfold.folding.facts import guarded
from bnfold.folding.ops import record
from bnfold.folding.plan import PlanBuilder
from bnfold.folding.propagate import pass_down
from bnfold.folding.size_budget import Limits, SizeBudget
from bnfold.ir.tensor import TP
from bnfold.ir.traits import ARITHMETIC
from bnfold.report.reasons import Declined, Reason

FARTHEST = 32
"""Values above that may have a shift in them, over all branches."""


class DeadShift(NamedTuple):
    """``node`` is a convolution with a bias, or an Add or Sub of a constant whose other operand is at ``slot``.

    ``moved`` are the values that will no longer have the shift in them, ``passed`` the nodes that these lead through.
    """

    node: ir.Node
    slot: int | None
    moved: tuple[ir.Value, ...]
    passed: tuple[ir.Node, ...]


def find_dead_shifts(model: ir.Model, limits: Limits) -> Iterator[DeadShift]:
    """Find one after the other, the nearest to its end first.

    Each has to be dealt with before the next is asked for.
    """
    for end in [node for node in model.nodes() if record(node).shift == "vanishes"]:
        for node in _sources(end):
            try:
                yield guarded(node, _dead, node, limits)
            except Declined:
                continue


def _sources(end: ir.Node) -> list[ir.Node]:
    """Return nodes above that add a constant, as far up as a shift could come from."""
    found: list[ir.Node] = []
    waiting, seen = [end.input(0)], 0
    while waiting and seen < FARTHEST:
        value, seen = waiting.pop(), seen + 1
        node = value.producer if value is not None and value.graph is end.graph else None
        if node is None or node.domain:
            continue
        known = record(node)
        adds = node.input(known.bias) if known.bias else _is_arithmetic(node)
        if adds and node not in found:
            found.append(node)
        if known.shift == "passes":
            waiting.extend(node.inputs)
    return found


def _dead(node: ir.Node, limits: Limits) -> DeadShift:
    """Return the proof that what ``node`` adds changes nothing. Raises Declined where there is none."""
    made = node.output(0)
    if made is None:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    slot, shift = _constant(node) if _is_arithmetic(node) else _bias(node, made)
    if not shift.is_finite:
        raise Declined(Reason.NON_FINITE, facts.where(node))
    decline_excluded(node, limits)
    builder = PlanBuilder(AffineChain((), shift), limits, SizeBudget(0), form="in place")
    pass_down(builder, made, shift)
    if builder.edits or builder.edges:
        raise Declined(Reason.SHIFT_NO_ROOM, facts.where(node))
    if not any(record(consumer).shift == "vanishes" for consumer in builder.nodes):
        raise Declined(Reason.NO_GAIN, facts.where(node))
    return DeadShift(node, slot, (made, *builder.relabelled), tuple(builder.nodes))


def _bias(node: ir.Node, made: ir.Value) -> tuple[None, Affine]:
    """Return the bias: a convolution makes the value without the shift itself, at no slot."""
    bias, kernel = facts.weight(node, record(node).bias), ir.constant(node.input(1))
    _decline_narrow(node, bias)
    rank = len(kernel.dims) if kernel is not None else shapes.rank(made)
    return None, on_axis(np.ones(1), bias.float64().reshape(-1), 1, rank)


def _constant(node: ir.Node) -> tuple[int, Affine]:
    """Return at which slot the value without the shift comes in, and the shift."""
    link = chains.arithmetic(node)
    if (link.affine.s != 1).any():
        raise Declined(Reason.NEGATIVE_SCALE, f"{facts.where(node)} scales the value or subtracts it")
    _decline_narrow(node, ir.constant(node.inputs[1 - link.slot]))
    return link.slot, link.affine


def _decline_narrow(node: ir.Node, constant: ir.Tensor | None) -> None:
    """Decline in 16 bits, where a bias that centres keeps bits that the mean could not bring back."""
    if constant is None or constant.dtype in (TP.FLOAT16, TP.BFLOAT16):
        raise Declined(Reason.RANGE, facts.where(node))


def _is_arithmetic(node: ir.Node) -> bool:
    return node.has_trait(ARITHMETIC) and chains.has_constant(node)


def remove(dead: DeadShift) -> list[str]:
    """Edit the graph; the names of values that no longer mean what they did, or are gone."""
    node, graph = dead.node, dead.node.graph
    gone = [value.name for value in dead.moved]
    if dead.slot is None:
        node.set_inputs(node.inputs[: record(node).bias])
    else:
        source, made = node.inputs[dead.slot], node.outputs[0]
        assert source is not None, "it was read"
        assert made is not None, "it was moved"
        made.replace_uses(source)
        graph.remove(node)
    for value in dead.moved:
        if value.producer is not None:
            graph.rename(value, graph.model.fresh_name(f"{value.name}_unbiased"))
    return gone
