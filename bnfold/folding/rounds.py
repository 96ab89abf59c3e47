"""Fold each BatchNormalization, and repeat while anything changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bnfold import ir
from bnfold.folding import attempts, dead, facts, merge, partial, rows
from bnfold.folding.apply import apply, edit_all
from bnfold.folding.ask import guarded
from bnfold.folding.growth import Budget, TooLarge
from bnfold.folding.limits import Limits
from bnfold.folding.plan import Plan
from bnfold.folding.refusals import Refusals
from bnfold.folding.region import cut_around, cut_of
from bnfold.folding.search import search
from bnfold.folding.step import Edit, SetConstant
from bnfold.ir.tensor import Computed
from bnfold.ir.traits import ARITHMETIC
from bnfold.report.events import BatchNormEvent, Report
from bnfold.report.reasons import Declined, SearchTrace
from bnfold.semantics import Policy

if TYPE_CHECKING:
    from bnfold.folding.compose import Composition

MAX_ROUNDS = 8
"""A fold can open the way for a neighbour that was declined before; two rounds are what real models need."""


@dataclass(slots=True, eq=False)
class Fold:
    """One run; the arguments are those of `bnfold.folding.run`."""

    model: ir.Model
    events: dict[ir.Node, BatchNormEvent]
    report: Report
    policy: Policy
    limits: Limits
    original: set[str]
    budget: Budget = field(init=False)
    refusals: Refusals = field(default_factory=Refusals)
    patient: bool = True
    """Whether plans that leave an operator behind wait: it stops others from folding past."""

    unmerged: dict[ir.Node, SearchTrace] = field(default_factory=dict)
    """Why branches that a BatchNormalization stands in are not merged."""

    def run(self, progress: Callable[[int, int], None]) -> None:
        """Merge branches, fold all BatchNormalizations, split those behind a Concat, remove shifts without effect."""
        facts.learn_unsure(self.model)
        waiting = [node for node in self.events if _stands(node)]
        self.budget = Budget(self.limits.growth)
        self.limits = self.limits._replace(simple=True)  # only plans that nobody has to undo
        _merge_branches(self)
        _settle_all(self, waiting, progress)
        self.patient = False
        for _ in range(MAX_ROUNDS):
            self.limits = self.limits._replace(simple=True)
            changed = _merge_branches(self)
            changed |= _settle_all(self, waiting, progress)
            # What others have to undo comes last: it takes freedom from them.
            self.limits, self.refusals = self.limits._replace(simple=False), Refusals()
            changed |= _settle_all(self, waiting, progress)
            changed |= self.limits.all_affines and _fold_arithmetic(self) > 0
            waiting = [node for node in waiting if _stands(node)]
            if not (changed and self.limits.all_affines) and not self.budget.grant():
                break
        if self.limits.merge_branches:  # what stood between is gone
            _merge_branches(self)
            _compose(self)
        for node in [node for node in self.events if _stands(node) and partial.is_candidate(node)]:
            _shrink(self, node)
        _drop_dead_shifts(self)
        for node, trace in self.unmerged.items():
            if _stands(node):
                self.events[node].attempts += (trace,)
        if self.limits.equalize:
            _equalize(self)


def _settle_all(fold: Fold, nodes: list[ir.Node], progress: Callable[[int, int], None]) -> bool:
    """Try each again after every fold that could help it. Returns whether any folded."""
    queue, declined, tries = deque(nodes), 0, MAX_ROUNDS * len(nodes)
    changed = False
    while declined < len(queue) and tries > 0:
        node = queue.popleft()
        tries -= 1
        if not _stands(node):
            continue
        progress(len(nodes) - len(queue), len(nodes))
        declined += 1
        if not fold.refusals.holds(node) and _settle(fold, node):
            changed, declined = True, 0
        if _stands(node):
            queue.append(node)
    return changed


def _merge_branches(fold: Fold) -> bool:
    """Let one convolution stand for those that are added up. Returns whether any were merged."""
    changed = False
    for meeting in merge.find(fold.model, fold.events.keys(), fold.limits):
        passed = tuple(node.label for node in meeting.nodes)
        normalisations = [node for node in meeting.affines if node in fold.events]
        try:
            with ir.evaluated_once(fold.model):
                found = guarded(meeting.total, merge.plan, meeting, fold.policy, fold.limits, fold.budget)
                cut = cut_around(meeting.nodes, f"merge branches into {found.kept.label}", fold.original)
        except Declined as refusal:
            if isinstance(refusal, TooLarge):
                fold.budget.want(refusal)
            fold.unmerged.update((node, refusal.attempt("merge", passed)) for node in normalisations)
            continue
        fold.refusals.edit_anywhere()
        _replace(fold, found, merge.carry_out(found), meeting.key, cut)
        fold.report.notes.append(f"{len(meeting.branches)} branches merged into {found.kept.label}")
        for node in normalisations:
            fold.events[node].fold("merge", (found.kept.label,), (found.kept.op_type,), passed)
        changed = True
    return changed


def _compose(fold: Fold) -> None:
    """Let one node stand for two products in a row."""
    from bnfold.folding import compose

    for first, second in compose.find(fold.model, fold.limits):
        try:
            with ir.evaluated_once(fold.model):
                found = guarded(second, compose.plan, first, second, fold.limits, fold.budget)
                cut = cut_around([first, second], f"{first.label} times {second.label}", fold.original)
        except Declined:
            continue
        fold.report.notes.append(f"{first.label} and {second.label} became one {found.kept.op_type}")
        _replace(fold, found, compose.carry_out(found), found.key, cut)


def _replace(fold: Fold, found: merge.Merge | Composition, gone: list[str], key: tuple[str, str], cut: ir.Cut) -> None:
    """Edit the node that stays, after the others have gone."""
    fold.budget.charge(found.cost)
    _sign(found.edits, key)
    _note_names(fold, {}, gone, cut)
    edit_all(found.edits, fold.budget)


def _stands(node: ir.Node) -> bool:
    return not node.removed and (node.is_op("BatchNormalization") or node.has_trait(ARITHMETIC))


def _settle(fold: Fold, node: ir.Node) -> bool:
    """Try to fold one BatchNormalization; whether anything changed. The event learns what happened.

    What stands beside it may be folded into it first, and open the way.
    """
    changed = False
    while _stands(node):
        with ir.evaluated_once(fold.model):
            attempt = attempts.attempt(node, fold.policy, fold.limits, fold.budget)
            cut = cut_of(attempt.plan, fold.original) if attempt.plan is not None else None
        refusal = attempt.furthest
        if fold.patient and attempt.plan is not None and attempt.plan.residuals:
            return changed
        if attempt.plan is not None and cut is not None:
            _carry_out(fold, attempt.plan, cut, fold.events[node])
            changed, refusal = True, attempt.of_what_is_left(node)
        if refusal is not None:
            fold.events[node].decline(refusal)
            if attempt.fits:
                fold.refusals.remember(node, attempt.seen)
            return changed
    return changed


def _carry_out(fold: Fold, plan: Plan, cut: ir.Cut, event: BatchNormEvent | None) -> None:
    absorbers = plan.absorbers or {edit.node: None for edit in plan.edits if isinstance(edit, SetConstant)}
    into = tuple(absorber.label for absorber in absorbers)
    operators = tuple(dict.fromkeys(absorber.op_type for absorber in absorbers))
    gone = [link.node for link in plan.chain.links]
    passed = tuple(node.label for node in plan.nodes)
    fold.refusals.edit(plan)
    fold.budget.charge(plan.cost)
    before = {value: value.name for value in plan.relabelled}
    if plan.direction == "up" and plan.chain.source.only_use is None:
        fold.original.discard(plan.chain.target.name)  # it gets readers that read something else in the file
    _note_names(fold, before, apply(plan, fold.budget), cut)
    if event is not None:
        _sign(plan.edits, event.key)
    for removed in gone:
        if removed in fold.events:
            fold.events[removed].fold(plan.direction, into, operators, passed)


def _sign(edits: Iterable[Edit], maker: tuple[str, str]) -> None:
    """Record which BatchNormalization each new weight comes from, in case it overflows when it is written."""
    for edit in edits:
        if isinstance(edit, SetConstant) and isinstance(edit.tensor, Computed):
            edit.tensor.maker = maker


def _note_names(fold: Fold, before: dict[ir.Value, str], gone: list[str], cut: ir.Cut) -> None:
    """After an edit: tell which values have another name now, ``before`` has the old ones, and which are gone."""
    report = fold.report
    report.retire(gone, cut)
    renamed = {name: value.name for value, name in before.items() if value.name in value.graph.values}
    report.renamed.update((old, new) for old, new in renamed.items() if old != new)
    report.removed_names.extend(name for name in gone if name not in report.renamed)


def _shrink(fold: Fold, node: ir.Node) -> None:
    """Let what stands behind a Concat keep only the part that nobody could absorb, and try that once more."""
    while _stands(node) and partial.is_candidate(node):
        try:
            with ir.evaluated_once(fold.model):
                found = guarded(node, partial.find, node, fold.policy, fold.limits, fold.budget)
                cut = cut_of(found.plan, fold.original)
        except Declined:
            return
        into = ", ".join(absorber.label for absorber in found.plan.absorbers)
        less = f"{len(found.channels)} of {found.channels_before} channels"
        before = {value: value.name for value in found.plan.relabelled}
        fold.budget.charge(found.plan.cost)
        small, gone = partial.carry_out(found, fold.budget)
        _note_names(fold, before, gone, cut)
        fold.report.notes.append(f"{small.label} normalises {less} now; the others are folded into {into}")
        event = fold.events[small] = fold.events.pop(node)
        _sign(found.plan.edits, event.key)
        _settle(fold, small)
        node = small


def _drop_dead_shifts(fold: Fold) -> None:
    """Last, as folding puts shifts into convolutions that an InstanceNormalization follows."""
    for found in dead.find(fold.model, fold.limits):
        cut = cut_around([found.node, *found.passed], f"dead shift of {found.node.label}", fold.original)
        before = {value: value.name for value in found.moved}
        _note_names(fold, before, dead.remove(found), cut)
        fold.report.notes.append(f"shift that an InstanceNormalization takes out again removed: {found.node.label}")


def _equalize(fold: Fold) -> None:
    """After folding, which makes channels uneven."""
    from bnfold.folding import equalize

    for found in equalize.find(fold.model, fold.limits, fold.budget, fold.report.equalized):
        before = {value: value.name for value in found.values}
        equalize.apply(found, fold.budget)
        fold.report.renamed.update((name, value.name) for value, name in before.items())
        fold.report.scaled.update(
            ((value.graph.path, value.name), (before[value], factors)) for value, factors in found.values.items()
        )
    fold.report.notes.extend(map(str, fold.report.equalized))


def _fold_arithmetic(fold: Fold) -> int:
    """Rows of constant arithmetic that no BatchNormalization stands in; how many were folded."""
    count = 0
    for chain in rows.without_batchnorm(fold.model, fold.policy):
        places = [
            (link.node.graph.path, value.name) for link in chain.links for value in link.node.outputs[:1] if value
        ]
        if not fold.limits.banned.isdisjoint(places):
            continue
        try:
            with ir.evaluated_once(fold.model):
                plan = guarded(chain.links[0].node, search, chain, fold.limits, fold.budget)
                cut = cut_of(plan, fold.original)
        except Declined:
            continue
        names = " ".join(link.node.label for link in chain.links)
        _carry_out(fold, plan, cut, None)
        _sign(plan.edits, places[0])
        fold.report.notes.append(f"constant arithmetic folded: {names}")
        count += 1
    return count
