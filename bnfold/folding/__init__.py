"""Fold BatchNormalizations, and the affines beside them, into their neighbours' weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bnfold import ir
from bnfold.errors import ReferenceAttribute
from bnfold.folding import direct, rows
from bnfold.folding.apply import apply
from bnfold.folding.growth import Budget, TooLarge
from bnfold.folding.plan import Limits, Plan
from bnfold.folding.recognise import Chain
from bnfold.folding.region import cut_of
from bnfold.folding.search import search
from bnfold.folding.statistics import Known, prefetch
from bnfold.folding.step import SetConstant
from bnfold.reasons import Declined
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
    budget = Budget(limits.growth)
    if not (limits.only or limits.excluded):
        _fold_pairs(events, report, direct.pairs(events, policy, original))
    waiting = [node for node in events if _stands(node)]
    fold = _Fold(model, events, report, policy, limits, original, budget, prefetch(waiting))
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
            return
        waiting = left


def _fold_pairs(events: dict[ir.Node, BatchNormEvent], report: Report, pairs: Iterable[direct.Pair]) -> None:
    for pair in pairs:
        cut, event, absorber = pair.cut, events[pair.node], (pair.conv.label,)
        gone = direct.apply(pair)
        report.retire([gone], cut)
        report.removed_names.append(gone)
        pair.kernel.maker = event.key
        event.fold("up", absorber, (pair.conv.op_type,), absorber)


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
    operators = tuple(dict.fromkeys(absorber.op_type for absorber in plan.absorbers))
    gone = [link.node for link in plan.chain.links]
    passed = tuple(node.label for node in plan.nodes)
    fold.budget.charge(plan.edits)
    before = {value: value.name for value in plan.relabelled}
    names = apply(plan, fold.budget)
    fold.report.retire(names, cut)
    renamed = {name: value.name for value, name in before.items() if value.name in value.graph.values}
    fold.report.renamed.update((old, new) for old, new in renamed.items() if old != new)
    fold.report.removed_names.extend(name for name in names if name not in fold.report.renamed)
    for edit in plan.edits:
        if event is not None and isinstance(edit, SetConstant) and isinstance(edit.tensor, ir.Scaled):
            edit.tensor.maker = event.key
    for removed in gone:
        if removed in fold.events:
            fold.events[removed].fold(plan.direction, into, operators, passed)


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
