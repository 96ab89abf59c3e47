"""Fold each BatchNormalization, and repeat while anything changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from bnfold import ir
from bnfold.folding import chains, gain, shapes
from bnfold.folding.context import Change, FoldContext, is_live, key_of
from bnfold.folding.facts import guarded
from bnfold.folding.fused import is_fused
from bnfold.folding.plan import Plan
from bnfold.folding.rewrites.branches import find_merges
from bnfold.folding.rewrites.dead_bias import find_dead_shifts
from bnfold.folding.rewrites.shrink_concat import find_shrink
from bnfold.folding.search import search
from bnfold.report.reasons import Declined
from bnfold.report.rewrites import FOLD

MAX_ROUNDS = 8
"""A fold can open the way for a neighbour that was declined before; two rounds are what real models need."""


def fold_all(run: FoldContext, progress: Callable[[int, int], None]) -> None:
    """Merge branches, fold all BatchNormalizations, split those behind a Concat, remove shifts without effect."""
    shapes.learn_unsure(run.model)
    if any(map(_is_behind_reshape, run.events)):
        from bnfold.folding.rewrites.instances import find_instances

        run.rewrite(find_instances(run))
    waiting = [node for node in run.events if is_live(node)]
    run.limits = run.limits._replace(simple=True)  # only plans that are never undone
    run.rewrite(find_merges(run))
    _fold_each(run, waiting, progress)
    run.patient, again = False, run.postponed
    for _ in range(MAX_ROUNDS):
        run.limits = run.limits._replace(simple=True)
        changed = run.rewrite(find_merges(run))
        if changed or again:
            changed |= _fold_each(run, waiting, progress)
        # What others have to undo comes last: it takes freedom from them.
        run.limits, again = run.limits._replace(simple=False), True
        changed |= _fold_each(run, waiting, progress)
        changed |= run.limits.all_affines and run.rewrite(_find_arithmetic(run))
        waiting = [node for node in waiting if is_live(node)]
        if not (changed and run.limits.all_affines) and not run.budget.grant():
            break
    if run.limits.merge_branches:  # what stood between is gone
        from bnfold.folding.rewrites.products import find_products

        run.rewrite(find_merges(run))
        run.rewrite(find_products(run))
    for node in [node for node in run.events if is_live(node)]:
        while run.rewrite(find_shrink(run, node)):
            node = next(reversed(run.events))  # noqa: PLW2901 - the smaller one, on the next part of what is left
            run.rewrite(_find_folds(run, node))
    run.rewrite(find_dead_shifts(run))
    for node in filter(is_live, run.unproven):
        run.events[node].decline(run.unproven[node])
    for node in filter(is_live, run.unmerged):
        run.events[node].attempts += (run.unmerged[node],)


def _is_behind_reshape(node: ir.Node) -> bool:
    x = node.input(0) if node.is_op("BatchNormalization") else None
    return x is not None and x.producer is not None and x.producer.is_op("Reshape")


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
        if run.rewrite(_find_folds(run, node)):
            changed, declined = True, 0
        if is_live(node):
            queue.append(node)
    return changed


def _find_folds(run: FoldContext, node: ir.Node) -> Iterator[Change]:
    """Find what folds one BatchNormalization; its event learns why it is left.

    What stands beside it may be folded into it first, and open the way.
    """
    while is_live(node):
        try:
            plan = run.planned(FOLD, node, _plan_fold, run, node)
        except Declined as refusal:
            run.events[node].decline(refusal.without_frames())
            return
        if run.patient and plan.extra_adds:
            run.postponed = True
            return
        yield run.fold_of(plan, run.events[node].key)


def _plan_fold(run: FoldContext, node: ir.Node) -> Plan:
    """Plan for the first of the rows around a node that has a plan; one that leaves an Add has to pay.

    Raises Declined with the refusal that got furthest.
    """
    refused: list[Declined] = []
    exchanges: list[Plan] = []
    for row in chains.around(node, run.policy):
        try:
            plan = guarded(node, search, row, run.limits, run.budget)
        except Declined as refusal:
            refused.append(refusal.without_frames())
            run.budget.want(refusal)
            continue
        if not plan.exchanges or run.patient or run.limits.exchange == "always":
            return plan
        exchanges.append(plan)
    for plan in exchanges:
        if gain.pays(plan):
            return plan
    # No part of the row goes without an Add: a BatchNormalization that can take its neighbours has taken them.
    if exchanges:
        raise gain.without_gain(exchanges[0])
    raise max(refused, key=lambda refusal: refusal.depth)


def _find_arithmetic(run: FoldContext) -> Iterator[Change]:
    """Find what folds rows of constant arithmetic that no BatchNormalization stands in."""
    for chain in chains.without_batchnorm(run.model, run.policy):
        if run.limits.spares_fused and is_fused(chain):
            continue
        nodes = [link.node for link in chain.links]
        if run.limits.banned.isdisjoint(map(key_of, nodes)):
            note = f"constant arithmetic folded: {' '.join(node.label for node in nodes)}"
            try:
                plan = run.planned(run.kind_of_fold(nodes), nodes[0], search, chain, run.limits, run.budget)
            except Declined as refusal:
                run.budget.want(refusal)
                continue
            yield run.fold_of(plan, key_of(nodes[0]), note)
