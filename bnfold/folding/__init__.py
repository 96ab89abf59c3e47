"""Fold BatchNormalizations, and the affines beside them, into their neighbours' weights."""

from __future__ import annotations

from collections.abc import Callable

from bnfold import ir
from bnfold.analysis.traits import ARITHMETIC
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding.limits import Limits
from bnfold.report.events import BatchNormEvent, Report
from bnfold.semantics import Policy

__all__ = ["Limits", "SizeBudget", "find_decomposed", "fold"]


def find_decomposed(model: ir.Model, policy: Policy) -> list[ir.Node]:
    """Return the last node of each BatchNormalization that is written as constant arithmetic."""
    if not any(node.is_op("Mul", "Div") for node in model.nodes()):
        return []
    from bnfold.folding import decomposed

    return decomposed.find_decomposed(model, policy)


def fold(
    model: ir.Model,
    events: dict[ir.Node, BatchNormEvent],
    report: Report,
    *,
    policy: Policy,
    limits: Limits,
    budget: SizeBudget,
    progress: Callable[[int, int], None],
) -> bool:
    """Fold what can be folded, in place, as far as the ``budget`` allows. Returns whether anything changed.

    ``events`` has one event for each BatchNormalization, to be filled in.

    A decomposed one is represented by its last node.
    """
    if not (
        limits.merge_branches
        or any(not node.removed for node in events)
        or (limits.all_affines and any(node.has_trait(ARITHMETIC) for node in model.nodes()))
        or any(node.is_op("InstanceNormalization") for node in model.nodes())
    ):
        return False
    from bnfold.folding.context import FoldContext
    from bnfold.folding.rounds import fold_all  # the search and its handlers, which plain models need nothing of

    run = FoldContext(model, events, report, policy, limits, budget)
    fold_all(run, progress)
    return run.has_changed
