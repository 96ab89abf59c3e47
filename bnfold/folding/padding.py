"""When the image of a shift, behind a Conv that pads with zeros, costs less than an Add in front of the Conv."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bnfold.folding.ops import padded, record
from bnfold.folding.plan import Plan, work
from bnfold.folding.step import Residual
from bnfold.report.reasons import Declined, Reason


def improve(plans: list[Plan], refusals: Iterable[Declined], search: Callable[[str], Plan]) -> list[Plan]:
    """The plans, with a better one downward if padding was in the way of one and ``search`` finds it, by form."""
    down = next((plan for plan in plans if plan.direction == "down"), None)
    if not _pads(down, refusals):
        return plans
    for form in padded.FORMS:
        try:
            image = search(form)
        except Declined:
            continue
        if down is None or (image.residuals, work(image)) < (down.residuals, work(down)):
            return [*(plan for plan in plans if plan is not down), image]
    return plans


def _pads(down: Plan | None, refusals: Iterable[Declined]) -> bool:
    """Whether padding cost an Add, or was what an Add could not deal with."""
    if down is None:
        return any(refusal.reason is Reason.ZERO_SCALE for refusal in refusals)
    return any(isinstance(edit, Residual) and record(edit.node).forms for edit in down.edits)
