"""Search for nodes that can absorb an affine: first upward through producers, then downward through consumers.

Searching is pure: it returns a `Plan`, or raises the refusal that got furthest from the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.edit import Bypass, ExtraAdd, SetConstant, distinct_adds
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding import facts, gain, propagate, range_check, signs
from bnfold.folding.affine import Affine
from bnfold.folding.chains import AffineChain
from bnfold.folding.limits import Limits
from bnfold.folding.ops import padded, record
from bnfold.folding.plan import Plan, PlanBuilder
from bnfold.folding.propagate import absorb, mapped, pass_down
from bnfold.report.reasons import Declined, Reason, SearchTrace

_OUTER = (Reason.GRAPH_INPUT, Reason.GRAPH_OUTPUT)
_ENDS = (*_OUTER, Reason.SHARED_VALUE, Reason.BARRIER, Reason.NO_HANDLER)
"""Reasons that only say where a graph ends or forks. Of two refusals equally far away, any other reason is reported."""
_SHOWN = 8
"""Channels that a refusal lists."""


def search(chain: AffineChain, limits: Limits, budget: SizeBudget) -> Plan:
    """Return a plan that takes the chain out of the graph. Raises Declined with the refusal that got furthest."""
    if chain.affine.is_identity:
        signs.check(chain)
        return _identity(chain)
    if (constant := analysis.constant(chain.source)) is not None and not facts.is_quantized(chain.source):
        return _evaluated(chain, constant)
    signs.check(chain)
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
    """Return the refusal that got furthest. Beside an AXIS refusal, ends of the graph are ignored, which say less."""
    reasons = {refusal.reason for refusal in refusals}
    silent = _OUTER if Reason.AXIS in reasons else ()
    told = [refusal for refusal in refusals if refusal.reason not in silent]
    return max(told, key=lambda refusal: (refusal.depth, refusal.reason not in _ENDS))


def _with_cause(refusal: Declined, chain: AffineChain, limits: Limits, budget: SizeBudget) -> Declined:
    """Add the negative channels to a refusal of negative scales, or return the reason that positive ones would meet."""
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
    """Let consumers of the output read the input.

    If the output is a graph output, the producer of the input takes its name if it can; else the node stays.
    """
    source = chain.source
    if not chain.target.is_output:
        return Plan(chain, "down")
    if not chain.target.can_take_over(source):
        return Plan(chain, "stay")
    return Plan(chain, "up", relabelled=(source,))


def _evaluated(chain: AffineChain, constant: ir.Tensor) -> Plan:
    """Replace an affine of a constant by its computed value; the output keeps its name."""
    edit = SetConstant(chain.links[-1].node, 0, mapped(constant, chain.affine))
    range_check.check([edit])
    return Plan(chain, "stay", (edit,))


def _planned(builder: PlanBuilder, direction: Literal["up", "down"]) -> Plan:
    """Plan in one direction.

    Up: the producers are changed so that they compute the chain's output. Down: the consumers are changed so that they
    can read the chain's input.
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
    """Finish the plan. Raises Declined if it loses precision, exceeds the growth limit or removes nothing."""
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
        gain.set_free(builder.chain, builder.edits) if builder.limits.simplifies else 0,
    )
    _check_extra_adds(plan)
    removed = [link.node for link in builder.chain.links]
    removed += [edit.node for edit in builder.edits if isinstance(edit, Bypass)]
    cost = builder.budget.check(builder.edits, removed=removed, adds_spatial_constant=bool(builder.form))
    return plan._replace(cost=cost) if cost else plan


def _with_image(plans: list[Plan], refusals: Iterable[Declined], find: Callable[[str], Plan]) -> list[Plan]:
    """Return the plans, with a cheaper one downward if padding was in the way and ``find`` finds it.

    Behind a Conv that pads with zeros, an Add of the shift's *image* (what the Conv makes of the shift, a constant) may
    cost less than an Add in front of the Conv. ``find`` tries the forms in `padded.FORMS`.
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
    """Whether the plan downward has an Add because of padding, or failed because a scale is 0 there."""
    if down is None:
        return any(refusal.reason is Reason.ZERO_SCALE for refusal in refusals)
    return any(isinstance(edit, ExtraAdd) and "carried" in record(edit.node).forms for edit in down.edits)


def _check_extra_adds(plan: Plan) -> None:
    """Decline unless the plan removes more operations than it adds; as many are enough if a BatchNormalization goes."""
    added, removed = plan.extra_adds, plan.removed
    if not added:
        return
    if added > removed or (added == removed and not plan.chain.batchnorms):
        raise Declined(Reason.NO_GAIN, f"{added} operations would stay for {removed} removed")
    if plan.chain.source.graph.opset() < 7:
        raise Declined(Reason.OPSET, "an Add of a constant needs opset 7")
