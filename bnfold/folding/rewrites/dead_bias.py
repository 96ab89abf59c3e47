"""Remove biases, and constants that are added, whose only effect an InstanceNormalization subtracts again.

``InstanceNormalization(x + t) = InstanceNormalization(x)`` for every ``t`` that is constant over the spatial axes: the
mean takes it along. So what only leads there needs no bias, with or without a BatchNormalization about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.traits import ARITHMETIC
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import Bypass, Edit, Replace
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding import chains, facts, shapes
from bnfold.folding.affine import Affine, on_axis
from bnfold.folding.chains import AffineChain
from bnfold.folding.context import Change, FoldContext
from bnfold.folding.ops import record
from bnfold.folding.ops.registry import decline_excluded
from bnfold.folding.plan import PlanBuilder
from bnfold.folding.propagate import pass_down
from bnfold.ir.tensor import TP
from bnfold.report.reasons import Declined, Reason
from bnfold.report.rewrites import DEAD_SHIFT

FARTHEST = 32
"""Values above that may have a shift in them, over all branches."""


def find_dead_shifts(run: FoldContext) -> Iterator[Change]:
    """Find one after the other, the nearest to its end first."""
    for end in [node for node in run.model.nodes() if record(node).shift == "vanishes"]:
        for node in _sources(end):
            with suppress(Declined):
                yield run.planned(DEAD_SHIFT, node, _plan, run, node)


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


def _plan(run: FoldContext, node: ir.Node) -> Change:
    """Return the change after the proof that what ``node`` adds changes nothing. Raises Declined where there is none.

    It is a convolution with a bias, or an Add or Sub of a constant.
    """
    made = node.output(0)
    if made is None:
        raise Declined(Reason.UNREADABLE, facts.where(node))
    edit, shift = _constant(node) if _is_arithmetic(node) else _bias(node, made)
    if not shift.is_finite:
        raise Declined(Reason.NON_FINITE, facts.where(node))
    decline_excluded(node, run.limits)
    budget = SizeBudget(0)
    builder = PlanBuilder(AffineChain((), shift), run.limits, budget, form="in place")
    pass_down(builder, made, shift)
    if builder.edits or builder.edges:
        raise Declined(Reason.SHIFT_NO_ROOM, facts.where(node))
    if not any(record(consumer).shift == "vanishes" for consumer in builder.nodes):
        raise Declined(Reason.NO_GAIN, facts.where(node))
    moved = (made, *builder.relabelled)

    def tell(_: list[ir.Node]) -> None:
        run.report.notes.append(f"removed a bias that the next InstanceNormalization cancels: {node.label}")

    cut = run.cut_around([node, *builder.nodes], f"dead shift of {node.label}")
    return Change(DEAD_SHIFT, cut, partial(_apply, edit, moved, budget), tell, moved)


def _bias(node: ir.Node, made: ir.Value) -> tuple[Edit, Affine]:
    """Return the edit that leaves out the bias of a convolution, and the bias."""
    bias, kernel = facts.weight(node, record(node).bias), analysis.constant(node.input(1))
    _decline_narrow(node, bias)
    rank = len(kernel.dims) if kernel is not None else shapes.rank(made)
    without = Replace(node, node.op_type, node.inputs[: record(node).bias])
    return without, on_axis(np.ones(1), bias.float64().reshape(-1), 1, rank)


def _constant(node: ir.Node) -> tuple[Edit, Affine]:
    """Return the edit that takes out an Add or Sub of a constant, and the shift."""
    link = chains.arithmetic(node)
    if (link.affine.s != 1).any():
        raise Declined(Reason.NEGATIVE_SCALE, f"{facts.where(node)} scales the value or subtracts it")
    _decline_narrow(node, analysis.constant(node.inputs[1 - link.slot]))
    return Bypass(node, (node.inputs[link.slot],)), link.affine


def _decline_narrow(node: ir.Node, constant: ir.Tensor | None) -> None:
    """Decline in 16 bits, where a bias that centres keeps bits that the mean could not bring back."""
    if constant is None or constant.dtype in (TP.FLOAT16, TP.BFLOAT16):
        raise Declined(Reason.RANGE, facts.where(node))


def _is_arithmetic(node: ir.Node) -> bool:
    return node.has_trait(ARITHMETIC) and chains.has_constant(node)


def _apply(edit: Edit, moved: Sequence[ir.Value], budget: SizeBudget) -> tuple[list[str], list[ir.Node]]:
    """Edit the graph. Returns the names of the values that had the shift in them, and no nodes."""
    gone = [value.name for value in moved]
    apply_edits([edit], budget)
    for value in moved:
        if value.producer is not None:
            value.graph.rename(value, value.graph.model.fresh_name(f"{value.name}_unbiased"))
    return gone, []
