"""What is done beside folding one BatchNormalization after the other."""

from __future__ import annotations

from bnfold import ir
from bnfold.folding import branches, chains, dead, merge, partial
from bnfold.folding.context import FoldContext, is_live, sign
from bnfold.folding.facts import guarded
from bnfold.folding.region import cut_around, cut_of
from bnfold.folding.replacement import key_of
from bnfold.folding.search import search
from bnfold.folding.size_budget import TooLarge
from bnfold.report.reasons import Declined


def merge_branches(run: FoldContext) -> bool:
    """Let one convolution stand for those that are added up. Returns whether any were merged."""
    changed = False
    for meeting in branches.find_meetings(run.model, run.events.keys(), run.limits):
        passed = tuple(node.label for node in meeting.nodes)
        normalisations = [node for node in meeting.affines if node in run.events]
        try:
            with ir.evaluated_once(run.model):
                found = guarded(meeting.total, merge.plan_merge, meeting, run.policy, run.limits, run.budget)
        except Declined as refusal:
            if isinstance(refusal, TooLarge):
                run.budget.want(refusal)
            run.unmerged.update((node, refusal.attempt("merge", passed)) for node in normalisations)
            continue
        run.replace(found, key_of(meeting.total), f"merge branches into {found.kept.label}")
        run.report.notes.append(f"{len(meeting.branches)} branches merged into {found.kept.label}")
        for node in normalisations:
            run.events[node].fold("merge", (found.kept.label,), (found.kept.op_type,), passed)
        changed = True
    return changed


def compose_products(run: FoldContext) -> None:
    """Let one node stand for two products in a row."""
    from bnfold.folding import compose

    for first, second in compose.find_products(run.model, run.limits):
        try:
            with ir.evaluated_once(run.model):
                found = guarded(second, compose.plan_product, first, second, run.limits, run.budget)
        except Declined:
            continue
        run.report.notes.append(f"{first.label} and {second.label} became one {found.kept.op_type}")
        run.replace(found, key_of(second), f"{first.label} times {second.label}")


def restore_instances(run: FoldContext) -> dict[ir.Node, Declined]:
    """Let InstanceNormalization stand for itself. Returns why others that may be one are left."""
    refused: dict[ir.Node, Declined] = {}
    norms = [node for node in run.events if node.is_op("BatchNormalization") and not node.removed]
    read = [(node, node.input(0)) for node in norms]
    behind_one = [node for node, x in read if x is not None and x.producer is not None and x.producer.is_op("Reshape")]
    if not behind_one:
        return refused
    from bnfold.folding import instances

    for node in behind_one:
        try:
            with ir.evaluated_once(run.model):
                found = guarded(node, instances.find_instances, node, run.policy, run.limits)
        except Declined as refusal:
            refused[node] = refusal.without_frames()
            continue
        if found is None:
            continue
        cut, event = found.cut(run.original), run.events[node]
        new, gone = found.carry_out()
        run.note_names({}, gone, cut)
        event.fold("stay", (new.label,), (new.op_type,), (found.before.label, found.after.label))
        run.report.notes.append(f"{event.name} was an {new.op_type}, written as a BatchNormalization in training mode")
    return refused


def fold_arithmetic(run: FoldContext) -> bool:
    """Fold rows of constant arithmetic that no BatchNormalization stands in. Returns whether any were."""
    changed = False
    for chain in chains.without_batchnorm(run.model, run.policy):
        keys = [key_of(link.node) for link in chain.links]
        if not run.limits.banned.isdisjoint(keys):
            continue
        try:
            with ir.evaluated_once(run.model):
                plan = guarded(chain.links[0].node, search, chain, run.limits, run.budget)
                cut = cut_of(plan, run.original)
        except Declined:
            continue
        names = " ".join(link.node.label for link in chain.links)
        run.carry_out(plan, cut, keys[0])
        run.report.notes.append(f"constant arithmetic folded: {names}")
        changed = True
    return changed


def shrink(run: FoldContext, node: ir.Node) -> ir.Node | None:
    """Let what stands behind a Concat keep only the part that nobody could absorb. Returns what does that."""
    if not (is_live(node) and partial.is_candidate(node)):
        return None
    try:
        with ir.evaluated_once(run.model):
            found = guarded(node, partial.find_shrink, node, run.policy, run.limits, run.budget)
            cut = cut_of(found.plan, run.original)
    except Declined:
        return None
    into = ", ".join(absorber.label for absorber in found.plan.absorbers)
    less = f"{len(found.channels)} of {found.channels_before} channels"
    before = {value: value.name for value in found.plan.relabelled}
    run.budget.charge(found.plan.cost)
    event = run.events.pop(node)
    sign(found.plan.edits, event.key)
    small, gone = partial.carry_out(found, run.budget)
    run.events[small] = event
    run.note_names(before, gone, cut)
    run.follow_exchanges((), tuple(node.label for node in found.plan.absorbers), ())
    run.report.notes.append(f"{small.label} keeps {less}; the other channels were folded into {into}")
    return small


def drop_dead_shifts(run: FoldContext) -> None:
    """Drop dead shifts at the end, as folding puts shifts into convolutions that an InstanceNormalization follows."""
    for found in dead.find_dead_shifts(run.model, run.limits):
        cut = cut_around([found.node, *found.passed], f"dead shift of {found.node.label}", run.original)
        before = {value: value.name for value in found.moved}
        run.note_names(before, dead.remove(found), cut)
        run.report.notes.append(f"removed a bias that the next InstanceNormalization cancels: {found.node.label}")


def even_out(run: FoldContext) -> None:
    """Equalize after folding, which makes channels uneven."""
    from bnfold.folding import equalize

    for found in equalize.find_scalings(run.model, run.limits, run.budget, run.report.equalized):
        before = {value: value.name for value in found.values}
        equalize.apply_scaling(found, run.budget)
        run.report.renamed.update((name, value.name) for value, name in before.items())
        run.report.scaled.update(
            ((value.graph.path, value.name), (before[value], factors)) for value, factors in found.values.items()
        )
    run.report.notes.extend(map(str, run.report.equalized))
