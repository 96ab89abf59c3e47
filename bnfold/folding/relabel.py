"""Propagate an affine through the graph: each node beside a value that changes says what it needs to compute the same.

A plan relabels values: each becomes an affine of itself, for the readers that asked for it; the others get the inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from bnfold import ir
from bnfold.folding import facts, sharing
from bnfold.folding.affine import Affine
from bnfold.folding.ask import ask
from bnfold.folding.draft import Draft
from bnfold.folding.ops import record
from bnfold.folding.step import Bypass, SetConstant, Step
from bnfold.ir.tensor import FLOATS, Exact, Scaled
from bnfold.report.reasons import Declined, Reason

MAX_DEPTH = 64
"""Nodes on one path; real paths are shorter than ten."""
MAX_NODES = 256
"""Nodes in one plan, over all its arms."""


def absorb(draft: Draft, wishes: Iterable[tuple[Affine, tuple[ir.Node, int]]]) -> None:
    """Plan that what is read at each edge becomes an affine of itself there, all in one draft. Raises Declined.

    Its other readers get the inverse.
    """
    for affine, edge in wishes:
        _up(draft, affine, edge, 0)
    _complete(draft)


def pass_down(draft: Draft, value: ir.Value, affine: Affine) -> None:
    """Plan that all readers of a value take over what stands on it. Raises Declined."""
    _down(draft, value, affine, 0)
    _complete(draft)


def _complete(draft: Draft) -> None:
    """Deal with what had to wait until all else was asked. Raises Declined."""
    try:
        while draft.picked or draft.shared or draft.joined:
            _deal_with_one(draft)
    except Declined as refusal:
        if not draft.undone:
            raise
        value, depth = next(iter(draft.undone.items()))
        detail = f"{sharing.readers(value)}; the others cannot undo the fold: {refusal.detail} [{refusal.reason.code}]"
        raise Declined(Reason.SHARED_VALUE, detail, depth, refusal.at, refusal.operator) from refusal


def _deal_with_one(draft: Draft) -> None:
    if draft.picked:
        value = next(iter(draft.picked))
        _up_together(draft, value, draft.picked.pop(value))
    elif draft.shared:
        _undo(draft, *draft.shared.popitem())
    else:
        reader = next(iter(draft.joined))
        standing, depth = draft.joined.pop(reader)
        _pass_on(draft, reader, standing, depth)


def _undo(draft: Draft, value: ir.Value, depth: int) -> None:
    """Plan that readers which did not ask for what ``value`` becomes get the inverse, if they could tell."""
    affine = draft.relabelled[value]
    assert affine is not None, "it was asked for"
    if all(use in draft.edges or sharing.untouched(value, use, affine) for use in value.uses):
        return
    if draft.limits.simple:
        raise Declined(Reason.SHARED_VALUE, sharing.readers(value), depth)
    draft.undone[value] = depth
    _down(draft, value, sharing.inverse(value, affine, draft), depth)


def _up(draft: Draft, affine: Affine, edge: tuple[ir.Node, int], depth: int) -> None:
    """Plan that the value becomes ``affine`` of itself that is read at ``edge``."""
    value = facts.operand(*edge)
    if affine.is_identity:
        return  # this reader wants the value as it is: another one that does not is not in agreement
    draft.edges[edge] = None
    if value in draft.relabelled:
        known = draft.relabelled[value]
        if known is None or not known.same(affine):
            raise Declined(Reason.SHARED_VALUE, f"value {value.name!r}", depth)
        return
    tensor = ir.constant(value)
    if tensor is not None and not facts.is_quantized(value):
        draft.edits.append(SetConstant(*edge, mapped(tensor, affine, depth)))
        draft.absorbers[edge[0]] = None
        return
    if value.graph is not edge[0].graph:
        raise Declined(Reason.BARRIER, f"value {value.name!r}", depth)
    if value.is_output:
        raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}", depth)
    if value.only_use is None:
        draft.shared[value] = depth
    node = value.producer
    if node is None:
        raise Declined(Reason.GRAPH_INPUT, f"value {value.name!r}", depth - 1)  # nobody was asked
    step = _ask(draft, node, "up", {value.slot: affine}, depth)
    draft.relabelled[value] = affine
    _take(draft, node, step, depth)


def _up_together(draft: Draft, value: ir.Value, wishes: dict[tuple[ir.Node, int], tuple[Affine, int]]) -> None:
    """Plan for all readers of parts: each takes only such elements as the others leave alone, or all wish the same."""
    (whole, _), *rest = wishes.values()
    for wanted, _ in rest:
        whole = whole if wanted.same(whole) else wanted.after(whole)
    for edge, (wanted, depth) in wishes.items():
        if not wanted.same(whole) and not sharing.reads_same_elements(edge, wanted, whole):
            raise Declined(Reason.SHARED_VALUE, sharing.readers(value), depth)
        _up(draft, whole, edge, depth)


def _down(draft: Draft, value: ir.Value, affine: Affine, depth: int) -> None:
    """Plan that readers of ``value``, but those that asked for it so, get what ``affine`` turns into what they read."""
    if value.is_output:
        raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}", depth - 1)
    if not value.uses:
        raise Declined(Reason.NO_GAIN, f"value {value.name!r} has no reader", depth - 1)
    for reader, slot in value.uses:
        if (reader, slot) in draft.edges:
            continue  # it asked for what this undoes
        if reader.graph is not value.graph:
            raise Declined(Reason.BARRIER, f"value {value.name!r}", depth)
        if record(reader).joint:  # the affine may yet stand on its other operands
            draft.joined.setdefault(reader, ({}, depth))[0][slot] = affine
        else:
            _pass_on(draft, reader, {slot: affine}, depth)


def _pass_on(draft: Draft, reader: ir.Node, standing: dict[int, Affine], depth: int) -> None:
    """Plan that a node reads its operands without what stands on them."""
    step = _ask(draft, reader, "down", standing, depth)
    if draft.limits.simple and step.wanted and record(reader).joint:
        raise Declined(Reason.NO_HANDLER, f"the other operands of {facts.where(reader)} are not scaled", depth)
    _take(draft, reader, step, depth)


def _take(draft: Draft, node: ir.Node, step: Step, depth: int) -> None:
    """Plan a node's part, and what it demands of the values around it. Raises Declined where there is no such value."""
    draft.nodes[node] = None
    draft.edits.extend(step.edits)
    if not step.wanted and not step.standing:
        draft.absorbers[node] = None
    for slot, affine in step.wanted:
        if record(node).picks:  # other parts of the operand may yet be asked for
            sharing.note(draft, affine, (node, slot), depth + 1)
        else:
            _up(draft, affine, (node, slot), depth + 1)
    for slot, affine in step.standing:
        target = node.output(slot)
        if target is None:
            raise Declined(Reason.UNREADABLE, f"{facts.where(node)} has no output {slot}", depth)
        if target.is_output and any(isinstance(edit, Bypass) for edit in step.edits):
            raise Declined(Reason.GRAPH_OUTPUT, f"value {target.name!r}", depth)
        if not affine.is_identity:
            draft.relabelled[target] = None
            _down(draft, target, affine, depth + 1)


def _ask(
    draft: Draft, node: ir.Node, direction: Literal["up", "down"], affines: Mapping[int, Affine], depth: int
) -> Step:
    if depth > MAX_DEPTH or len(draft.nodes) > MAX_NODES:
        raise Declined(Reason.TOO_FAR, f"{depth} nodes", depth)
    picks, where = record(node).picks, facts.where(node)
    if not picks and (node in draft.nodes or draft.moves(node)):
        raise Declined(Reason.SHARED_VALUE, f"{where} would be rescaled twice", depth, node.label, node.op_type)
    if not picks and direction == "down" and not all(affine.is_finite for affine in affines.values()):
        raise Declined(Reason.ZERO_SCALE, where, depth, node.label, node.op_type)
    try:
        return ask(node, direction, affines, draft.limits, draft.form)
    except Declined as refusal:
        detail = refusal.detail if where in refusal.detail else ": ".join(filter(None, (where, refusal.detail)))
        raise Declined(refusal.reason, detail, depth, node.label, node.op_type) from refusal


def mapped(constant: ir.Tensor, affine: Affine, depth: int = 0) -> ir.Tensor:
    """Raises Declined for a damaged model, whose constant does not fit what reads it."""
    if constant.dtype not in FLOATS:
        raise Declined(Reason.TYPE, "a constant that is no float", depth)
    try:
        axis = int(np.argmax(affine.s.shape))
        if affine.is_scale_only and affine.s.size == affine.s.shape[axis] and affine.rank == len(constant.dims):
            return Scaled(constant, [(axis, affine.s.reshape(-1))])  # judged slice by slice
        return Exact(constant.dtype, affine.s * constant.float64() + affine.t)
    except ValueError as error:
        raise Declined(Reason.UNREADABLE, f"a constant of dims {list(constant.dims)}", depth) from error
