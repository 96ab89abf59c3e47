"""From evidence to a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold.verify.interface import interface_fault
from bnfold.verify.request import Request
from bnfold.verify.verdict import LocalRow, Location, Status, Verdict
from bnfold.verify.whole import Impossible, Whole, examine_whole


def judge(request: Request) -> Verdict:
    """Run the tests that the request's depth asks for, in order, until they decide."""
    fault = interface_fault(request.before, request.after)
    if fault:
        return _verdict(request, "failed", fault, "interface")
    whole, obstacle = _whole(request)
    return _decide(request, whole, obstacle)


def _whole(request: Request) -> tuple[Whole | None, str]:
    """The examination of the whole models, or the reason why there is none."""
    if request.depth == "local":
        return None, "only the rewritten parts were to be compared"
    try:
        return examine_whole(request), ""
    except Impossible as reason:
        return None, str(reason)


def _decide(request: Request, whole: Whole | None, obstacle: str) -> Verdict:
    if whole is None:
        return _verdict(request, "unverified", obstacle, "nothing")
    if whole.fault:
        return _verdict(request, "failed", whole.fault, whole.test, whole)
    if whole.doubt:
        return _verdict(request, "unverified", whole.doubt, "nothing", whole)
    return _verdict(request, "verified", _praise(whole), "float64", whole)


def _praise(whole: Whole) -> str:
    worst = max((row.relative for row in whole.rows), default=0.0)
    return f"both models agree in float64 to {worst:.2g} of the scale, which rounding the new weights explains"


def _verdict(
    request: Request,
    status: Status,
    reason: str,
    decided_by: str,
    whole: Whole | None = None,
    local: Sequence[LocalRow] = (),
    localised: Location | None = None,
) -> Verdict:
    return Verdict(
        status=status,
        reason=reason,
        decided_by=decided_by,
        outputs=whole.rows if whole else (),
        witnesses=whole.witnesses if whole else (),
        local=tuple(local),
        samples=whole.samples if whole else 0,
        seed=request.seed,
        localised=localised,
        notes=whole.notes if whole else (),
        seconds=dict(request.clock.seconds),
    )
