"""The search: an affine looking for a home, first up towards what feeds it, then down towards what reads it.

Searching is pure. It ends in a frozen `Plan`, which `apply` executes and cannot decline, or in the furthest refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bnfold import ir
from bnfold.errors import ReferenceAttribute
from bnfold.fold import guard
from bnfold.fold.affine import Affine
from bnfold.fold.ops import handler
from bnfold.fold.recognise import Chain
from bnfold.fold.step import Bypass, Draft, Edit, Residual, SetConstant, Step
from bnfold.ir.tensor import Exact
from bnfold.reasons import Declined, Reason

MAX_DEPTH = 64
"""Nodes on one path; real paths are shorter than ten."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to do with one chain; bound to the graph as it was when the plan was made."""

    chain: Chain
    direction: Literal["up", "down"]
    edits: tuple[Edit, ...]
    relabelled: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...]
    absorbers: tuple[ir.Node, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan may cost. ``growth`` is the bytes that copies of shared weights may add."""

    growth: int = 0
    only: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


def search(chain: Chain, limits: Limits) -> Plan:
    """A plan that takes the chain out of the graph. Raises Declined with the refusal that was furthest on its way."""
    if chain.affine.is_identity:
        return _identity(chain)
    refusals = []
    for direction in (upward, downward):
        try:
            return direction(chain, limits)
        except Declined as refusal:
            refusals.append(refusal)
    raise max(refusals, key=lambda refusal: refusal.depth)


def _identity(chain: Chain) -> Plan:
    if chain.target.is_output:
        return _finish(chain, "up", Draft(), Limits()) if _may_take_name(chain) else _declined_output()
    return Plan(chain, "down", (), (), (), ())


def _may_take_name(chain: Chain) -> bool:
    source = chain.source
    return not source.is_output and source.producer is not None and len(source.uses) == 1


def _declined_output() -> Plan:
    raise Declined(Reason.GRAPH_OUTPUT)


def upward(chain: Chain, limits: Limits) -> Plan:
    """Let what makes the chain's input make its output instead."""
    draft = Draft()
    first = chain.links[0]
    _up(draft, chain.source, chain.affine, (first.node, first.slot), 0, limits)
    return _finish(chain, "up", draft, limits)


def downward(chain: Chain, limits: Limits) -> Plan:
    """Let everything that reads the chain's output read its input instead."""
    draft = Draft()
    _down(draft, chain.target, chain.affine, 0, limits)
    return _finish(chain, "down", draft, limits)


def _up(draft: Draft, value: ir.Value, affine: Affine, edge: tuple[ir.Node, int], depth: int, limits: Limits) -> None:
    """Plan that ``value`` becomes ``affine`` of itself, for the reader at ``edge``."""
    reader, slot = edge
    draft.edges.add(edge)
    if value in draft.relabelled:
        if not draft.relabelled[value].same(affine):
            raise Declined(Reason.SHARED_VALUE, f"value {value.name!r}", depth)
        return
    if value.graph is not reader.graph:
        raise Declined(Reason.BARRIER, f"value {value.name!r}", depth)
    tensor = ir.constant(value)
    if tensor is not None and depth:
        draft.edits.append(SetConstant(reader, slot, Exact(tensor.dtype, affine.s * tensor.float64() + affine.t)))
        return
    if value.is_output:
        raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}", depth)
    if any(node is not reader for node, _ in value.uses):
        raise Declined(Reason.SHARED_VALUE, f"value {value.name!r} is read by {len(value.uses)} nodes", depth)
    node = value.producer
    if node is None:
        raise Declined(Reason.GRAPH_INPUT, f"value {value.name!r}", depth)
    step = _ask(node, value.slot, affine, "up", depth, limits)
    draft.relabelled[value] = affine
    _record(draft, node, step)
    for source, wanted in step.demands:
        operand = node.inputs[source]
        if operand is None:
            raise Declined(Reason.UNREADABLE, f"{node.op_type} {node.label!r}", depth)
        _up(draft, operand, wanted, (node, source), depth + 1, limits)


def _down(draft: Draft, value: ir.Value, affine: Affine, depth: int, limits: Limits) -> None:
    """Plan that every reader of ``value`` gets, in its place, what ``affine`` turns into it."""
    if value.is_output:
        raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}", depth)
    if not value.uses:
        raise Declined(Reason.NO_GAIN, f"value {value.name!r} has no reader", depth)
    for reader, slot in value.uses:
        if reader.graph is not value.graph:
            raise Declined(Reason.BARRIER, f"value {value.name!r}", depth)
        if reader in draft.nodes:
            raise Declined(Reason.SHARED_VALUE, f"{reader.op_type} {reader.label!r} reads it twice", depth)
        step = _ask(reader, slot, affine, "down", depth, limits)
        _record(draft, reader, step)
        for output, standing in step.demands:
            target = reader.outputs[output]
            if target is None:
                continue
            draft.relabelled[target] = standing
            _down(draft, target, standing, depth + 1, limits)


def _ask(
    node: ir.Node, slot: int, affine: Affine, direction: Literal["up", "down"], depth: int, limits: Limits
) -> Step:
    if depth > MAX_DEPTH:
        raise Declined(Reason.TOO_FAR, f"{depth} nodes", depth)
    try:
        solve = handler(node, direction)
        if limits.only and node.op_type not in limits.only or node.op_type in limits.excluded:
            raise Declined(Reason.EXCLUDED, node.op_type)
        return solve(node, slot, affine)
    except ReferenceAttribute as error:
        raise Declined(Reason.REFERENCE_ATTRIBUTE, str(error), depth) from error
    except Declined as refusal:
        refusal.depth = depth
        raise


def _record(draft: Draft, node: ir.Node, step: Step) -> None:
    draft.nodes[node] = None
    draft.edits.extend(step.edits)
    if not step.demands:
        draft.absorbers[node] = None


def _finish(chain: Chain, direction: Literal["up", "down"], draft: Draft, limits: Limits) -> Plan:
    for edit in draft.edits:
        if isinstance(edit, SetConstant):
            guard.check(edit)
    _check_cost(chain, draft, limits)
    relabelled = tuple(value for value in draft.relabelled if value is not chain.source)
    return Plan(chain, direction, tuple(draft.edits), relabelled, tuple(draft.nodes), tuple(draft.absorbers))


def _check_cost(chain: Chain, draft: Draft, limits: Limits) -> None:
    """Decline unless (BatchNormalizations, activation-sized operations, bytes) strictly falls, in that order."""
    bypassed = [edit.node for edit in draft.edits if isinstance(edit, Bypass)]
    residuals = sum(isinstance(edit, Residual) for edit in draft.edits)
    removed = len(chain.links) + len(bypassed)
    gone = chain.batchnorms + sum(node.op_type == "BatchNormalization" for node in bypassed)
    if residuals > removed or (residuals == removed and not gone):
        raise Declined(Reason.NO_GAIN, f"{residuals} operations would stay for {removed} removed")
    growth = sum(
        edit.tensor.nbytes for edit in draft.edits if isinstance(edit, SetConstant) and _is_copy(edit)
    )
    if growth > limits.growth:
        raise Declined(Reason.SHARED_WEIGHT, f"{growth} bytes")


def _is_copy(edit: SetConstant) -> bool:
    value = edit.node.input(edit.slot)
    return value is not None and len(value.uses) > 1 and edit.tensor.nbytes > 4096
