"""Fold each BatchNormalization, and repeat while anything changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from bnfold import ir
from bnfold.folding import chains, extras, gain, shapes
from bnfold.folding.context import FoldContext, is_live
from bnfold.folding.facts import guarded
from bnfold.folding.plan import Plan
from bnfold.folding.region import cut_of
from bnfold.folding.search import search
from bnfold.folding.size_budget import TooLarge
from bnfold.report.reasons import Declined

MAX_ROUNDS = 8
"""A fold can open the way for a neighbour that was declined before; two rounds are what real models need."""


def fold_all(run: FoldContext, progress: Callable[[int, int], None]) -> None:
    """Merge branches, fold all BatchNormalizations, split those behind a Concat, remove shifts without effect."""
    shapes.learn_unsure(run.model)
    refused = extras.restore_instances(run)
    waiting = [node for node in run.events if is_live(node)]
    run.limits = run.limits._replace(simple=True)  # only plans that nobody has to undo
    extras.merge_branches(run)
    _fold_each(run, waiting, progress)
    run.patient, again = False, run.postponed
    for _ in range(MAX_ROUNDS):
        run.limits = run.limits._replace(simple=True)
        changed = extras.merge_branches(run)
        if changed or again:
            changed |= _fold_each(run, waiting, progress)
        # What others have to undo comes last: it takes freedom from them.
        run.limits, again = run.limits._replace(simple=False), True
        changed |= _fold_each(run, waiting, progress)
        changed |= run.limits.all_affines and extras.fold_arithmetic(run)
        waiting = [node for node in waiting if is_live(node)]
        if not (changed and run.limits.all_affines) and not run.budget.grant():
            break
    if run.limits.merge_branches:  # what stood between is gone
        extras.merge_branches(run)
        extras.compose_products(run)
    for node in [node for node in run.events if is_live(node)]:
        while (small := extras.shrink(run, node)) is not None:
            fold(run, small)
            node = small  # noqa: PLW2901 - the next part of what is left
    extras.drop_dead_shifts(run)
    if run.limits.equalize:
        extras.even_out(run)
    for node in filter(is_live, refused):
        run.events[node].decline(refused[node])
    for node in filter(is_live, run.unmerged):
        run.events[node].attempts += (run.unmerged[node],)


def _fold_each(run: FoldContext, nodes: list[ir.Node], progress: Callable[[int, int], None]) -> bool:
    """Try each again after every fold that could help it. Returns whether any folded."""
    queue, declined, tries = deque(nodes), 0, MAX_ROUNDS * len(nodes)
    changed = False
    while declined < len(queue) and tries > 0:
        node = queue.popleft()
        tries -= 1
        if not is_live(node):
            continue
        progress(len(nodes) - len(queue), len(nodes))
        declined += 1
        if fold(run, node):
            changed, declined = True, 0
        if is_live(node):
            queue.append(node)
    return changed


def fold(run: FoldContext, node: ir.Node) -> bool:
    """Try to fold one BatchNormalization; whether anything changed. The event learns what happened.

    What stands beside it may be folded into it first, and open the way.
    """
    changed = False
    while is_live(node):
        try:
            with ir.evaluated_once(run.model):
                plan = _plan(run, node)
                cut = cut_of(plan, run.original)
        except Declined as refusal:
            run.events[node].decline(refusal.without_frames())
            return changed
        if run.patient and plan.extra_adds:
            run.postponed = True
            return changed
        run.carry_out(plan, cut, run.events[node].key)
        changed = True
    return changed


def _plan(run: FoldContext, node: ir.Node) -> Plan:
    """Plan for the first of the rows around a node that has a plan; one that leaves an Add has to pay.

    Raises Declined with the refusal that got furthest.
    """
    refused: list[Declined] = []
    exchanges: list[Plan] = []
    for row in chains.around(node, run.policy):
        try:
            plan = guarded(node, search, row, run.limits, run.budget)
            if not plan.exchanges or run.patient or run.limits.exchange == "always":
                return plan
            exchanges.append(plan)
        except Declined as refusal:
            refused.append(refusal.without_frames())
            if isinstance(refusal, TooLarge):
                run.budget.want(refusal)
    # No part of the row goes without an Add: a BatchNormalization that can take its neighbours has taken them.
    if exchanges:
        return _that_pays(exchanges)
    raise max(refused, key=lambda refusal: refusal.depth)


def _that_pays(exchanges: list[Plan]) -> Plan:
    """Return the first plan that is worth its Adds. Raises Declined where none is."""
    for plan in exchanges:
        if gain.pays(plan):
            return plan
    raise gain.without_gain(exchanges[0])
