"""Fold BatchNormalizations, and the affines beside them, into their neighbours' weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bnfold import ir
from bnfold.errors import ReferenceAttribute
from bnfold.fold import recognise
from bnfold.fold.apply import apply
from bnfold.fold.plan import Limits, Plan, search
from bnfold.fold.recognise import Chain, Link
from bnfold.fold.region import cut_of
from bnfold.fold.step import SetConstant
from bnfold.reasons import Declined, Reason
from bnfold.report import BatchNormEvent, Report
from bnfold.semantics import Policy

__all__ = ["Limits", "growth_budget", "run"]

MAX_ROUNDS = 8
"""A fold can open the way for a neighbour that was declined before; two rounds are what real models need."""


def run(
    model: ir.Model,
    events: dict[ir.Node, BatchNormEvent],
    report: Report,
    *,
    policy: Policy,
    limits: Limits,
    original: frozenset[str],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Fold what can be folded, in place. ``events`` has one event for each BatchNormalization, to be filled in.

    ``original`` are the value names of the model as it was read: boundaries for local validation are drawn there.
    """
    waiting = list(events)
    for _ in range(MAX_ROUNDS):
        left = []
        for done, node in enumerate(waiting):
            if node.removed:
                continue
            if progress:
                progress(done, len(waiting))
            if not _settle(node, events, report, policy, limits, original):
                left.append(node)
        if len(left) == len(waiting) or not left:
            return
        waiting = left


def _settle(
    node: ir.Node,
    events: dict[ir.Node, BatchNormEvent],
    report: Report,
    policy: Policy,
    limits: Limits,
    original: frozenset[str],
) -> bool:
    """Try to fold one BatchNormalization; whether it is gone. The event learns what happened."""
    event = events[node]
    try:
        plan = _first_plan(node, policy, limits)
    except Declined as refusal:
        event.decline(refusal)
        return False
    cut = cut_of(plan, original)
    into = tuple(absorber.label for absorber in plan.absorbers)
    gone = [link.node for link in plan.chain.links]
    report.retire(apply(plan), cut)
    for edit in plan.edits:
        if isinstance(edit, SetConstant):
            report.made(edit.tensor, event)
    for removed in gone:
        if removed in events:
            folded = events[removed]
            folded.verdict = "folded" if into else "removed"
            folded.operators = tuple(dict.fromkeys(absorber.op_type for absorber in plan.absorbers))
            folded.into, folded.reason, folded.detail, folded.direction = into, None, "", plan.direction
    return node.removed


def _first_plan(node: ir.Node, policy: Policy, limits: Limits) -> Plan:
    """A plan for the first candidate that has one. Raises Declined with the furthest refusal."""
    furthest: Declined | None = None
    for candidate in _candidates(node, policy):
        try:
            return search(candidate, limits)
        except Declined as refusal:
            if furthest is None or refusal.depth > furthest.depth:
                furthest = refusal
    assert furthest is not None, "there is at least one candidate"
    raise furthest


def _candidates(node: ir.Node, policy: Policy) -> Iterator[Chain]:
    """The whole row of affines around a BatchNormalization, then it alone, then its neighbours folded into it."""
    try:
        middle = recognise.batchnorm(node, policy)
    except ReferenceAttribute as error:
        raise Declined(Reason.REFERENCE_ATTRIBUTE, str(error)) from error
    before, behind = _row_before(middle, policy), _row_behind(middle, policy)
    if before or behind:
        yield recognise.chain([*before, middle, *behind])
    yield recognise.chain([middle])
    if behind:
        yield recognise.chain(behind)
    if before:
        yield recognise.chain(before)


def _row_before(link: Link, policy: Policy) -> list[Link]:
    row: list[Link] = []
    source = link.node.inputs[link.slot]
    while source is not None and source.producer is not None and recognise.next_node(source) is not None:
        found = _link(source.producer, policy)
        if found is None:
            break
        row.insert(0, found)
        source = found.node.inputs[found.slot]
    return row


def _row_behind(link: Link, policy: Policy) -> list[Link]:
    row: list[Link] = []
    value = link.node.outputs[0]
    while value is not None and (reader := recognise.next_node(value)) is not None:
        found = _link(reader, policy)
        if found is None or found.node.inputs[found.slot] is not value:
            break
        row.append(found)
        value = reader.outputs[0]
    return row


def _link(node: ir.Node, policy: Policy) -> Link | None:
    try:
        return recognise.link(node, policy)
    except (Declined, ReferenceAttribute):
        return None


def growth_budget(model: ir.Model, nodes: Iterable[ir.Node]) -> int:
    """The bytes that copies of shared weights may add by default: what the parameters of ``nodes`` take, and 1 %."""
    parameters = {value for node in nodes for value in node.inputs[1:] if value is not None and value.is_initializer}
    freed = sum(value.tensor.nbytes for value in parameters if value.tensor is not None)
    return freed + model.parameter_bytes() // 100
