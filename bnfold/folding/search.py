"""Search for nodes that can absorb an affine: first upward through producers, then downward through readers.

Searching is pure. It ends in a `Plan` or in the furthest refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np

from bnfold import ir
from bnfold.folding import facts, gain, propagate, range_check
from bnfold.folding.affine import Affine
from bnfold.folding.chains import AffineChain
from bnfold.folding.ops import padded, record
from bnfold.folding.plan import Plan, PlanBuilder
from bnfold.folding.propagate import absorb, mapped, pass_down
from bnfold.folding.size_budget import Limits, SizeBudget
from bnfold.folding.step import ExtraAdd, SetConstant, distinct_adds
from bnfold.report.reasons import Declined, Reason, SearchTrace

_OUTER = (Reason.GRAPH_INPUT, Reason.GRAPH_OUTPUT)
_ENDS = (*_OUTER, Reason.SHARED_VALUE, Reason.BARRIER, Reason.NO_HANDLER)
"""Where a graph ends or forks; of two searches that stopped equally far, any other reason says more."""
_SHOWN = 8
"""Channels that a refusal lists."""


def search(chain: AffineChain, limits: Limits, budget: SizeBudget) -> Plan:
    """Return a plan that takes the chain out of the graph. Raises Declined with the refusal that got furthest."""
    if chain.affine.is_identity:
        return _identity(chain)
    if (constant := ir.constant(chain.source)) is not None and not facts.is_quantized(chain.source):
        return _evaluated(chain, constant)
    plans: list[Plan] = []
    refusals: list[Declined] = []
    attempts: list[SearchTrace] = []
    directions: tuple[Literal["up", "down"], ...] = ("up", "down")
    for direction in directions:
        builder = PlanBuilder(chain, limits, budget)
        try:
            plan = _planned(builder, direction)
        except Declined as refusal:
            refusals.append(refusal.without_frames())
            attempts.append(refusal.attempt(direction, (node.label for node in builder.nodes)))
            continue
        if not plan.extra_adds and not plan.inverses:
            return plan
        plans.append(plan)
    plans = _with_image(plans, refusals, lambda form: _planned(PlanBuilder(chain, limits, budget, form), "down"))
    if plans:
        cheapest = min(plans, key=lambda plan: (gain.cost(plan), plan.inverses))
        return cheapest._replace(refused=tuple(attempts))
    furthest = _furthest(refusals)
    if furthest.reason is Reason.NEGATIVE_SCALE and not limits.simple:
        furthest = _with_cause(furthest, chain, limits, budget)
    furthest.attempts = tuple(attempts)
    raise furthest


def _furthest(refusals: Sequence[Declined]) -> Declined:
    """Return the refusal that got furthest; an operator without such factors says more than where the graph ends."""
    reasons = {refusal.reason for refusal in refusals}
    silent = _OUTER if Reason.AXIS in reasons else ()
    told = [refusal for refusal in refusals if refusal.reason not in silent]
    return max(told, key=lambda refusal: (refusal.depth, refusal.reason not in _ENDS))


def _with_cause(refusal: Declined, chain: AffineChain, limits: Limits, budget: SizeBudget) -> Declined:
    """Say which scales are negative, or what would end the search all the same, were they positive."""
    negative = np.flatnonzero(chain.affine.s < 0)
    if not negative.size:  # something on the way turned the sign
        return refusal
    first = ", ".join(map(str, negative[:_SHOWN])) + (", …" if negative.size > _SHOWN else "")
    which = f"negative in {negative.size} of {chain.affine.s.size} channels: {first}"
    try:
        search(AffineChain(chain.links, Affine(np.abs(chain.affine.s), chain.affine.t)), limits, budget)
    except Declined as deeper:
        if deeper.reason is refusal.reason:
            return refusal
        detail = f"{deeper.detail}; and before that, {refusal.detail} needs positive scales ({which})"
        return Declined(deeper.reason, detail, refusal.depth, deeper.at, deeper.operator)
    return Declined(refusal.reason, f"{refusal.detail}: {which}", refusal.depth, refusal.at, refusal.operator)


def _identity(chain: AffineChain) -> Plan:
    """Let readers of the output read the input; a graph output's name goes to what makes the input, if that is free."""
    source = chain.source
    if not chain.target.is_output:
        return Plan(chain, "down")
    if source.is_output or source.producer is None or source.graph is not chain.target.graph:
        return Plan(chain, "stay")
    return Plan(chain, "up", relabelled=(source,))


def _evaluated(chain: AffineChain, constant: ir.Tensor) -> Plan:
    """Evaluate: the affine of a constant is a constant, under the name that its readers know."""
    edit = SetConstant(chain.links[-1].node, 0, mapped(constant, chain.affine))
    range_check.check([edit])
    return Plan(chain, "stay", (edit,))


def _planned(builder: PlanBuilder, direction: Literal["up", "down"]) -> Plan:
    """Plan upward that what makes the chain's input makes its output.

    Downward that its readers read what the chain reads.
    """
    chain = builder.chain
    source, edge = chain.source, (chain.links[0].node, chain.links[0].slot)
    if direction == "down":
        pass_down(builder, chain.target, chain.affine)
        return finish(builder, direction)
    # Its other consumers are not above it, and so never request the same: no need to look further up.
    others = (use for use in source.uses if use != edge)
    if builder.limits.simple and not all(propagate.is_untouched(source, use, chain.affine) for use in others):
        raise Declined(Reason.SHARED_VALUE, propagate.consumers(source))
    absorb(builder, [(chain.affine, edge)])
    return finish(builder, direction)


def finish(builder: PlanBuilder, direction: Literal["up", "down"]) -> Plan:
    """Finish the plan. Raises Declined where it loses digits, costs too much or gains nothing."""
    range_check.check(builder.edits)
    plan = Plan(
        builder.chain,
        direction,
        tuple(builder.edits),
        tuple(builder.relabelled),
        tuple(builder.nodes),
        tuple(builder.absorbers),
        len(distinct_adds(builder.edits)),
        len(builder.undone),
    )
    _check_extra_adds(plan)
    return plan._replace(cost=builder.budget.check(builder.edits, adds_spatial_constant=bool(builder.form)))


def _with_image(plans: list[Plan], refusals: Iterable[Declined], find: Callable[[str], Plan]) -> list[Plan]:
    """Return the plans, with a better one downward if padding was in the way of one and ``find`` finds it, by form.

    The image of a shift behind a Conv that pads with zeros may cost less than an Add in front of it.
    """
    down = next((plan for plan in plans if plan.direction == "down"), None)
    if not _pads(down, refusals):
        return plans
    for form in padded.FORMS:
        try:
            image = find(form)
        except Declined:
            continue
        if down is None or gain.cost(image) < gain.cost(down):
            return [*(plan for plan in plans if plan is not down), image]
    return plans


def _pads(down: Plan | None, refusals: Iterable[Declined]) -> bool:
    """Whether padding cost an Add, or was what an Add could not deal with."""
    if down is None:
        return any(refusal.reason is Reason.ZERO_SCALE for refusal in refusals)
    return any(isinstance(edit, ExtraAdd) and "carried" in record(edit.node).forms for edit in down.edits)


def _check_extra_adds(plan: Plan) -> None:
    """Decline unless (BatchNormalizations, activation-sized operations) falls: an Add may replace one of the former."""
    added, removed = plan.extra_adds, plan.removed
    if not added:
        return
    if added > removed or (added == removed and not plan.chain.batchnorms):
        raise Declined(Reason.NO_GAIN, f"{added} operations would stay for {removed} removed")
    if plan.chain.source.graph.opset() < 7:
        raise Declined(Reason.OPSET, "an Add of a constant needs opset 7")
