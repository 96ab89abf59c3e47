"""Propagate an affine through the graph: each node beside a value that changes says what it needs.

A plan relabels values. A consumer that asked for it reads the affine of the value; the others get the inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.traits import COMBINING
from bnfold.edits.edit import Bypass, SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine, every, vector
from bnfold.folding.chains import AffineChain
from bnfold.folding.ops import record
from bnfold.folding.ops.registry import ask
from bnfold.folding.plan import PlanBuilder
from bnfold.folding.step import Step
from bnfold.ir.tensor import FLOATS, Exact, Scaled
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import batchnorm

FARTHEST = 16.0
"""How many deviations from zero the mean of a value may be that has to be shifted back: so many digits it costs."""
MAX_DEPTH = 64
"""Nodes on one path; real paths are shorter than ten."""
MAX_NODES = 256
"""Nodes in one plan, over all its operands."""
_NAMED = 4
"""How many consumers a refusal names."""


def inverse(value: ir.Value, affine: Affine, builder: PlanBuilder) -> Affine:
    """Return the affine that other consumers of ``value`` have to absorb after it becomes ``affine`` of itself.

    A channel is NaN if that would lose digits.
    """
    undone = affine.inverse(half=facts.is_half(value))
    # A value lies where the one does that the chain normalises; a summand need not.
    is_alike = value is builder.chain.source or not any(node.has_trait(COMBINING) for node in builder.nodes)
    if affine.is_scale_only or (is_alike and _is_near_zero(builder.chain)):
        return undone
    return Affine(undone.s, np.where(undone.t == 0, 0.0, np.nan))


def _is_near_zero(chain: AffineChain) -> bool:
    """Whether the result of the chain is near zero in every channel, according to its own statistics."""
    node = chain.links[0].node
    if not node.is_op("BatchNormalization"):
        return False
    mean, var = (facts.weight(node, slot).float64().reshape(-1) for slot in (3, 4))
    axis = min(1, chain.affine.rank - 1)
    try:
        s, t = (vector(block, axis, mean.size) for block in (chain.affine.s, chain.affine.t))
    except ValueError:  # parameters for every activation
        return False
    room = FARTHEST * np.abs(s) * (np.sqrt(var + batchnorm.epsilon(node)) + np.abs(mean))
    return every(np.abs(s * mean + t) <= room)


def is_untouched(value: ir.Value, use: tuple[ir.Node, int], affine: Affine) -> bool:
    """Whether a consumer reads only elements of the value that ``affine`` does not change."""
    node, slot = use
    if node.graph is not value.graph or not record(node).reads_parts:
        return False
    try:
        step = ask(node, "down", {slot: affine})
    except Declined:
        return False
    return not step.edits and not step.requested and all(pending.is_identity for _, pending in step.pending)


def consumers(value: ir.Value) -> str:
    """Name the nodes that read ``value``, for a refusal."""
    nodes = [facts.where(node) for node in dict.fromkeys(node for node, _ in value.uses)]
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    return f"value {value.name!r} is read by {', '.join(nodes[:_NAMED])}{more}"


def note(builder: PlanBuilder, requested: Affine, edge: tuple[ir.Node, int], depth: int) -> None:
    """Note a partial request. Every output of a Split requests its own slice and leaves the others' alone."""
    requests = builder.partial_reads.setdefault(facts.operand(*edge), {})
    before = requests.get(edge)
    requests[edge] = (requested if before is None else requested.after(before[0]), depth)


def reads_same_elements(edge: tuple[ir.Node, int], requested: Affine, whole: Affine) -> bool:
    """Whether a partial read gets the same from ``whole`` as from its own request."""
    node, slot = edge
    try:
        ours, theirs = (ask(node, "down", {slot: affine}).pending for affine in (requested, whole))
    except Declined:
        return False
    return all(mine.same(other) for (_, mine), (_, other) in zip(ours, theirs, strict=True))


def absorb(builder: PlanBuilder, requests: Iterable[tuple[Affine, tuple[ir.Node, int]]]) -> None:
    """Plan that the value at each edge becomes an affine of itself, all in one plan. Raises Declined.

    Other consumers of the value get the inverse.
    """
    for affine, edge in requests:
        _up(builder, affine, edge, 0)
    _complete(builder)


def pass_down(builder: PlanBuilder, value: ir.Value, affine: Affine) -> None:
    """Plan that all consumers of a value absorb its affine. Raises Declined."""
    _down(builder, value, affine, 0)
    _complete(builder)


def _complete(builder: PlanBuilder) -> None:
    """Settle what had to wait until all else was asked. Raises Declined."""
    try:
        while builder.partial_reads or builder.shared or builder.joined:
            _deal_with_one(builder)
    except Declined as refusal:
        if not builder.undone:
            raise
        value, depth = next(iter(builder.undone.items()))
        detail = f"{consumers(value)}; the others cannot undo the fold: {refusal.detail} [{refusal.reason.code}]"
        raise Declined(Reason.SHARED_VALUE, detail, depth, refusal.at, refusal.operator) from refusal


def _deal_with_one(builder: PlanBuilder) -> None:
    if builder.partial_reads:
        value = next(iter(builder.partial_reads))
        _up_together(builder, value, builder.partial_reads.pop(value))
    elif builder.shared:
        _undo(builder, *builder.shared.popitem())
    else:
        consumer = next(iter(builder.joined))
        pending, depth = builder.joined.pop(consumer)
        _pass_on(builder, consumer, pending, depth)


def _undo(builder: PlanBuilder, value: ir.Value, depth: int) -> None:
    """Plan that consumers which did not request the change of ``value`` get the inverse, if they need it."""
    affine = builder.relabelled[value]
    assert affine is not None, "it was asked for"
    if all(use in builder.edges or is_untouched(value, use, affine) for use in value.uses):
        return
    if builder.limits.simple:
        raise Declined(Reason.SHARED_VALUE, consumers(value), depth)
    builder.undone[value] = depth
    _down(builder, value, inverse(value, affine, builder), depth)


def _up(builder: PlanBuilder, affine: Affine, edge: tuple[ir.Node, int], depth: int) -> None:
    """Plan that the value becomes ``affine`` of itself that is read at ``edge``."""
    value = facts.operand(*edge)
    if affine.is_identity:
        return  # it needs the value as it is, so it does not agree with one that needs a change
    builder.edges[edge] = None
    if value in builder.relabelled:
        known = builder.relabelled[value]
        if known is None or not known.same(affine):
            raise Declined(Reason.SHARED_VALUE, f"value {value.name!r}", depth)
        return
    tensor = analysis.constant(value)
    if tensor is not None and not facts.is_quantized(value):
        builder.edits.append(SetConstant(*edge, mapped(tensor, affine, depth)))
        builder.absorbers[edge[0]] = None
        return
    if value.graph is not edge[0].graph:
        raise Declined(Reason.BARRIER, f"value {value.name!r}", depth)
    if value.is_output:
        raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}", depth)
    if value.only_use is None:
        builder.shared[value] = depth
    node = value.producer
    if node is None:
        raise Declined(Reason.GRAPH_INPUT, f"value {value.name!r}", depth - 1)  # no node was asked
    step = _ask(builder, node, "up", {value.slot: affine}, depth)
    builder.relabelled[value] = affine
    _take(builder, node, step, depth)


def _up_together(
    builder: PlanBuilder, value: ir.Value, requests: dict[tuple[ir.Node, int], tuple[Affine, int]]
) -> None:
    """Plan for all partial reads: their elements are disjoint, or their requests are equal."""
    (whole, _), *rest = requests.values()
    for requested, _ in rest:
        whole = whole if requested.same(whole) else requested.after(whole)
    for edge, (requested, depth) in requests.items():
        if not requested.same(whole) and not reads_same_elements(edge, requested, whole):
            raise Declined(Reason.SHARED_VALUE, consumers(value), depth)
        _up(builder, whole, edge, depth)


def _down(builder: PlanBuilder, value: ir.Value, affine: Affine, depth: int) -> None:
    """Plan that all consumers of ``value``, except those that requested the change, absorb ``affine``."""
    if value.is_output:
        raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}", depth - 1)
    if not value.uses:
        raise Declined(Reason.NO_GAIN, f"value {value.name!r} has no reader", depth - 1)
    for consumer, slot in value.uses:
        if (consumer, slot) in builder.edges:
            continue  # it asked for what this undoes
        if consumer.graph is not value.graph:
            raise Declined(Reason.BARRIER, f"value {value.name!r}", depth)
        if record(consumer).joint:  # its other operands may still have the affine
            builder.joined.setdefault(consumer, ({}, depth))[0][slot] = affine
        else:
            _pass_on(builder, consumer, {slot: affine}, depth)


def _pass_on(builder: PlanBuilder, consumer: ir.Node, pending: dict[int, Affine], depth: int) -> None:
    """Plan that a node reads its operands without their affines."""
    step = _ask(builder, consumer, "down", pending, depth)
    if builder.limits.simple and step.requested and record(consumer).joint:
        raise Declined(Reason.NO_HANDLER, f"the other operands of {facts.where(consumer)} are not scaled", depth)
    _take(builder, consumer, step, depth)


def _take(builder: PlanBuilder, node: ir.Node, step: Step, depth: int) -> None:
    """Plan a node's part, and what it demands of the values around it. Raises Declined where there is no such value."""
    builder.nodes[node] = None
    builder.edits.extend(step.edits)
    if not step.requested and not step.pending:
        builder.absorbers[node] = None
    for slot, affine in step.requested:
        if record(node).reads_parts:  # other parts of the operand may yet be asked for
            note(builder, affine, (node, slot), depth + 1)
        else:
            _up(builder, affine, (node, slot), depth + 1)
    for slot, affine in step.pending:
        target = node.output(slot)
        if target is None:
            raise Declined(Reason.UNREADABLE, f"{facts.where(node)} has no output {slot}", depth)
        if target.is_output and any(isinstance(edit, Bypass) for edit in step.edits):
            raise Declined(Reason.GRAPH_OUTPUT, f"value {target.name!r}", depth)
        if not affine.is_identity:
            builder.relabelled[target] = None
            _down(builder, target, affine, depth + 1)


def _ask(
    builder: PlanBuilder, node: ir.Node, direction: Literal["up", "down"], affines: Mapping[int, Affine], depth: int
) -> Step:
    if depth > MAX_DEPTH or len(builder.nodes) > MAX_NODES:
        raise Declined(Reason.TOO_FAR, f"{depth} nodes", depth)
    reads_parts = record(node).reads_parts
    if not reads_parts and (node in builder.nodes or builder.moves(node)):
        text = f"{facts.where(node)} would be rescaled twice"
        raise Declined(Reason.SHARED_VALUE, text, depth, node.label, node.op_type)
    if not reads_parts and direction == "down" and not all(affine.is_finite for affine in affines.values()):
        raise Declined(Reason.ZERO_SCALE, facts.where(node), depth, node.label, node.op_type)
    try:
        return ask(node, direction, affines, builder.limits, builder.form)
    except Declined as refusal:
        where = facts.where(node)
        detail = refusal.detail if where in refusal.detail else ": ".join(filter(None, (where, refusal.detail)))
        raise Declined(refusal.reason, detail, depth, node.label, node.op_type) from refusal


def mapped(constant: ir.Tensor, affine: Affine, depth: int = 0) -> ir.Tensor:
    """Apply the affine to a constant. Raises Declined where a damaged model's does not fit what reads it."""
    if constant.dtype not in FLOATS:
        raise Declined(Reason.TYPE, "a constant that is no float", depth)
    try:
        axis = int(np.argmax(affine.s.shape))
        if affine.is_scale_only and affine.s.size == affine.s.shape[axis] and affine.rank == len(constant.dims):
            return Scaled(constant, [(axis, affine.s.reshape(-1))])  # judged slice by slice
        return Exact(constant.dtype, affine.s * constant.float64() + affine.t)
    except ValueError as error:
        raise Declined(Reason.UNREADABLE, f"a constant of dims {list(constant.dims)}", depth) from error
