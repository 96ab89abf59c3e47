"""The passes that fold affines into weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from bnfold import folding, ir
from bnfold.pipeline.checker import tell_contradictions
from bnfold.pipeline.context import PassContext, key_of
from bnfold.report.events import BatchNormEvent
from bnfold.report.reasons import Declined, Reason
from bnfold.settings import Options


def fold_affines(run: PassContext) -> bool:
    """Fold BatchNormalization and, if asked, other constant affine nodes; return whether anything changed.

    Does nothing with ``--decompose all``.
    """
    options = run.options
    if not options.fold or options.decompose == "all":
        return False
    met = run.live() | {node: _event_of(run, node) for node in folding.find_decomposed(run.model, options.policy)}
    live = {node: event for node, event in met.items() if event.is_left}
    limits, earlier = _limits(run), {event: replace(event) for event in live.values()}
    with run.folding() as most:
        if run.budget is None:
            run.budget = folding.SizeBudget(most)
        elif most is not None:
            run.budget.renew(most)
        has_changed = _fold(run, live, limits, run.budget)
    for event, first in [*earlier.items()]:
        if event.reason is first.reason is not None:  # its nodes are those of the file
            event.detail, event.brief, event.attempts = first.detail, first.brief, first.attempts
            del earlier[event]
    tell_contradictions(run.model, earlier)
    run.events.update(
        (key_of(node), event) for node, event in live.items() if not node.removed
    )  # some may be new nodes
    return has_changed


def equalize_channels(run: PassContext) -> None:
    """Even channels out, if asked. After all folding, which makes channels uneven and would undo it."""
    if not run.options.equalize or run.budget is None:
        return
    from bnfold import equalize

    live = run.live()
    with run.folding() as most:
        if most is not None:
            run.budget.renew(most)
        equalize.equalize(run.model, run.report, _limits(run), run.budget)
    run.follow_moved(live, ())


def _limits(run: PassContext) -> folding.Limits:
    options = run.options
    is_asked = options.all_affines or bool(options.simplify)
    return folding.Limits(
        only=options.only,
        excluded=options.excluded,
        all_affines=is_asked or not options.no_simplify,
        spares_fused=not is_asked,
        merge_branches=options.merge_branches,
        simplifies=not options.no_simplify,
        exchange=_exchange(options),
        disabled=options.disable,
        banned=run.withheld,
    )


def _fold(
    run: PassContext, live: dict[ir.Node, BatchNormEvent], limits: folding.Limits, budget: folding.SizeBudget
) -> bool:
    for node in [node for node, event in live.items() if event.key in run.withheld]:
        live.pop(node).decline(Declined(Reason.RANGE, "found while the weight was computed"))
    return folding.fold(
        run.model,
        live,
        run.report,
        policy=run.options.policy,
        limits=limits,
        budget=budget,
        progress=partial(run.progress, "fold"),
    )


def _exchange(options: Options) -> Literal["auto", "always"]:
    """Return when an Add may replace a BatchNormalization: always, if what is left is decomposed into several nodes."""
    is_decomposed = options.decompose == "remaining" and "BatchNormalization" in options.decompose_ops
    return "always" if is_decomposed else options.exchange


def _event_of(run: PassContext, node: ir.Node) -> BatchNormEvent:
    """Report a BatchNormalization that is written as primitive operators and ends in ``node``."""
    path, value = key_of(node)
    if (path, value) in run.events:
        return run.events[path, value]
    event = BatchNormEvent(node.label, path, 0, "spelled-out", value=value)
    run.report.batchnorms.append(event)
    return event
