"""Fold BatchNormalizations, and the affines beside them, into their neighbours' weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bnfold import ir
from bnfold.errors import ReferenceAttribute
from bnfold.folding import dead, partial, rows
from bnfold.folding.apply import apply
from bnfold.folding.growth import Budget, TooLarge
from bnfold.folding.plan import Limits, Plan
from bnfold.folding.recognise import Chain
from bnfold.folding.region import cut_around, cut_of
from bnfold.folding.search import search
from bnfold.folding.statistics import Known, prefetch
from bnfold.folding.step import SetConstant
from bnfold.reasons import Attempt, Declined
from bnfold.report import BatchNormEvent, Report
from bnfold.semantics import Policy

__all__ = ["Limits", "growth_budget", "run"]

MAX_ROUNDS = 8
"""A fold can open the way for a neighbour that was declined before; two rounds are what real models need."""


@dataclass(frozen=True, slots=True)
class _Fold:
    """What stays the same through one run."""

    model: ir.Model
    events: dict[ir.Node, BatchNormEvent]
    report: Report
    policy: Policy
    limits: Limits
    original: frozenset[str]
    budget: Budget
    known: dict[ir.Node, Known]


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
    fold = _Fold(model, events, report, policy, limits, original, Budget(limits.growth), prefetch(events))
    waiting = list(events)
    for _ in range(MAX_ROUNDS):
        left, changed = [], False
        for done, node in enumerate(waiting):
            if not _stands(node):
                continue
            if progress:
                progress(done, len(waiting))
            changed |= _settle(fold, node)
            if _stands(node):
                left.append(node)
        changed |= limits.all_affines and _fold_arithmetic(fold) > 0
        if not (changed and (left or limits.all_affines)) and not fold.budget.grant():
            break
        waiting = left
    for node in [node for node in events if _stands(node) and partial.is_candidate(node)]:
        _shrink(fold, node)
    _drop_dead_shifts(fold)


def _stands(node: ir.Node) -> bool:
    return not node.removed and node.is_op("BatchNormalization")


def _settle(fold: _Fold, node: ir.Node) -> bool:
    """Try to fold one BatchNormalization; whether anything changed. The event learns what happened.

    What stands beside it may be folded into it first, and open the way.
    """
    changed = False
    while _stands(node):
        try:
            plan = _first_plan(fold, rows.around(node, fold.policy, fold.known.get(node)))
        except Declined as refusal:
            fold.events[node].decline(refusal)
            return changed
        _carry_out(fold, plan, fold.events[node])
        changed = True
    return changed


def _first_plan(fold: _Fold, candidates: Iterable[Chain]) -> Plan:
    """A plan for the first candidate that has one. Raises Declined with the furthest refusal."""
    furthest: Declined | None = None
    for candidate in candidates:
        try:
            return search(candidate, fold.limits, fold.budget)
        except Declined as refusal:
            if isinstance(refusal, TooLarge):
                fold.budget.want(refusal)
            if furthest is None or refusal.depth > furthest.depth:
                furthest = refusal
    assert furthest is not None, "there is at least one candidate"
    raise furthest


def _carry_out(fold: _Fold, plan: Plan, event: BatchNormEvent | None) -> None:
    cut = cut_of(plan, fold.original)
    into = tuple(absorber.label for absorber in plan.absorbers)
    gone = [link.node for link in plan.chain.links]
    passed = tuple(node.label for node in plan.nodes)
    fold.budget.charge(plan.edits, images=plan.images)
    before = {value: value.name for value in plan.relabelled}
    _note_names(fold.report, before, apply(plan, fold.budget), cut)
    for edit in plan.edits:
        if event is not None and isinstance(edit, SetConstant):
            fold.report.made(edit.tensor, event)
    for removed in gone:
        if removed in fold.events:
            folded = fold.events[removed]
            folded.verdict = "folded" if into else "removed"
            folded.operators = tuple(dict.fromkeys(absorber.op_type for absorber in plan.absorbers))
            folded.into, folded.reason, folded.detail, folded.direction = into, None, "", plan.direction
            folded.attempts = (Attempt(plan.direction, passed),)


def _note_names(report: Report, before: dict[ir.Value, str], gone: list[str], cut: ir.Cut) -> None:
    """Tell which values have another name now, ``before`` has the old ones, and which are gone."""
    report.retire(gone, cut)
    renamed = {name: value.name for value, name in before.items() if value.name in value.graph.values}
    report.renamed.update((old, new) for old, new in renamed.items() if old != new)
    report.removed_names.extend(name for name in gone if name not in report.renamed)


def _shrink(fold: _Fold, node: ir.Node) -> None:
    """Let what stands behind a Concat keep only the part that nobody could absorb, and try that once more."""
    while _stands(node) and partial.is_candidate(node):
        try:
            found = partial.find(node, fold.policy, fold.limits, fold.budget)
        except (Declined, ReferenceAttribute):
            return
        cut = cut_of(found.plan, fold.original)
        into = ", ".join(absorber.label for absorber in found.plan.absorbers)
        less = f"{len(found.channels)} of {found.channels_before} channels"
        before = {value: value.name for value in found.plan.relabelled}
        fold.budget.charge(found.plan.edits)
        small, gone = partial.carry_out(found, fold.budget)
        _note_names(fold.report, before, gone, cut)
        fold.report.notes.append(f"{small.label} normalises {less} now; the others are folded into {into}")
        event = fold.events[small] = fold.events.pop(node)
        for edit in found.plan.edits:
            if isinstance(edit, SetConstant):
                fold.report.made(edit.tensor, event)
        _settle(fold, small)
        node = small


def _drop_dead_shifts(fold: _Fold) -> None:
    """Last, as folding puts shifts into convolutions that an InstanceNormalization follows."""
    for found in dead.find(fold.model, fold.limits):
        cut = cut_around([found.node, *found.passed], f"dead shift of {found.node.label}", fold.original)
        before = {value: value.name for value in found.moved}
        _note_names(fold.report, before, dead.remove(found), cut)
        fold.report.notes.append(f"shift that an InstanceNormalization takes out again removed: {found.node.label}")


def _fold_arithmetic(fold: _Fold) -> int:
    """Rows of constant arithmetic that no BatchNormalization stands in; how many were folded."""
    count = 0
    for chain in rows.without_batchnorm(fold.model, fold.policy):
        try:
            plan = search(chain, fold.limits, fold.budget)
        except (Declined, ReferenceAttribute):
            continue
        names = " ".join(link.node.label for link in chain.links)
        _carry_out(fold, plan, None)
        fold.report.notes.append(f"constant arithmetic folded: {names}")
        count += 1
    return count


def growth_budget(model: ir.Model, nodes: Iterable[ir.Node]) -> Callable[[], int]:
    """The bytes that copies of shared weights may add by default: what the parameters of ``nodes`` take, and 1 %.

    Counted when it is called, because few models share weights; the parameters are remembered now.
    """
    parameters = {value for node in nodes for value in node.inputs[1:] if value is not None and value.is_initializer}
    whole = {value: value.tensor_proto for value in parameters}

    def count() -> int:
        freed = sum(model.tensor(proto).nbytes for proto in whole.values() if proto is not None)
        return freed + model.parameter_bytes() // 100

    return count
