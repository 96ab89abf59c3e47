"""Find a plan for a BatchNormalization and the constant arithmetic around it, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from bnfold import ir
from bnfold.folding import rows
from bnfold.folding.ask import guarded
from bnfold.folding.growth import Budget, TooLarge
from bnfold.folding.limits import Limits
from bnfold.folding.plan import Plan
from bnfold.folding.recognise import Chain
from bnfold.folding.search import search
from bnfold.report.reasons import Declined
from bnfold.semantics import Policy


@dataclass(slots=True, eq=False)
class Attempt:
    """A plan for one of the chains, and what was refused and asked before it was found.

    ``furthest`` is the refusal that got furthest; ``fits`` is False where something was refused for what it would add,
    which depends on what was added elsewhere.
    """

    plan: Plan | None = None
    refused: list[tuple[Chain, Declined]] = field(default_factory=list)
    furthest: Declined | None = None
    seen: set[ir.Node] = field(default_factory=set)
    fits: bool = True

    def of_what_is_left(self, node: ir.Node) -> Declined | None:
        """The refusal of the whole row, where the plan folds all the rest of it into ``node``: it would come again."""
        plan = self.plan
        if plan is None or not self.refused or not (plan.nodes == plan.absorbers == (node,)):
            return None
        row, refusal = self.refused[0]
        others = len(plan.chain.links)
        return refusal if others == len(row.links) - 1 and others < rows.MAX_ROW else None


def attempt(node: ir.Node, policy: Policy, limits: Limits, budget: Budget) -> Attempt:
    """Search for each of the chains around ``node``, until there is a plan."""
    found = Attempt()
    refused = budget.refused
    try:
        for candidate in rows.around(node, policy):
            found.seen.update(link.node for link in candidate.links)
            try:
                found.plan = guarded(node, search, candidate, limits, budget, found.seen)
                break
            except Declined as refusal:
                found.refused.append((candidate, refusal.without_frames()))
                if isinstance(refusal, TooLarge):
                    budget.want(refusal)
    except Declined as refusal:  # it is no affine
        found.furthest = refusal
    found.fits = budget.refused == refused
    if found.refused:
        found.furthest = max((refusal for _, refusal in found.refused), key=lambda refusal: refusal.depth)
    return found
