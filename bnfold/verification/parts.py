"""Every part of a model that changed, compared on its own: where a rewrite says that it happened, and wherever else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.time_limit import LimitStruck
from bnfold.verification.changes.boundaries import uncovered, with_changes
from bnfold.verification.changes.enlarged import apart, beyond, further_back, has_discontinuity
from bnfold.verification.claims import Evidence, Why
from bnfold.verification.codes import Code
from bnfold.verification.comparing.doubts import UNSEEN
from bnfold.verification.obstacles import NotCompared
from bnfold.verification.request import Request
from bnfold.verification.subgraphs.verifier import SubgraphVerifier
from bnfold.verification.tolerance.compare import shape_of

if TYPE_CHECKING:
    from bnfold.verification.end_to_end.examine import Whole


_SIZES = 3
"""At fewer of them whole models may agree by chance: a batch of two has halves, and a mean that is a median."""
_AT_FEW_SIZES = Why(
    Code.SOME_SIZES, "it differs at some sizes, and there was time to compare the whole models at one or two only"
)
_AT_ASSUMED_SIZES = Why(
    Code.SOME_SIZES, "it is equal at some of the sizes that it is fed at and differs at others, which may not occur"
)
_GOING_BACK = 1 / 30
"""Share of the budget for comparing parts that differ from values further back."""
_FIRST = 1 / 600
"""The same before the whole models, which may be cheaper."""
_DECIDED_FURTHER_BACK = (Code.HIDDEN, Code.NO_FIT, Code.COARSE, Code.SOME_SIZES, Code.ASSUMED_SIZES)
"""What may be open for the numbers and sizes that a part is fed: other ones are computed from values further back."""
_SHOWS_NOTHING = (Code.HIDDEN, Code.NEVER_FINITE)
"""Why results that agree do not count."""
_LOOKING = "finding out whether the whole models would show each fault in it"


class Parts(NamedTuple):
    """``announced`` has a row for each rewrite that says where it happened, ``others`` one for each further change.

    If not ``are_all``, a change stays open, and those after it were not compared.
    """

    announced: tuple[Evidence, ...] = ()
    others: tuple[Evidence, ...] = ()
    are_all: bool = True

    @property
    def rows(self) -> tuple[Evidence, ...]:
        """All of them."""
        return self.announced + self.others


def check_parts(verifier: SubgraphVerifier, whole: Whole | None, is_first: bool) -> Parts:
    """Compare each part; if the whole models differ, stop at the first part that differs.

    If they agree, or if they are compared next (``is_first``), stop at the first change that stays open: what comes
    after it decides nothing.
    """
    before, after = verifier.request.before, verifier.request.after
    announced: list[Evidence] = []
    with reference.keeping_constants(before), reference.keeping_constants(after):
        try:
            # What nothing reads is compared with all that changed.
            cuts = with_changes(before, after, (cut for cut in verifier.request.cuts if cut.outputs))
            for cut in cuts:
                announced.append(verifier.check(cut))
                verifier.request.tell_parts("rewrites", len(announced), len(cuts))
            if whole is not None and whole.differs and any(row.status == "failed" for row in announced):
                return Parts(tuple(announced))
            same = [cut for cut, row in zip(cuts, announced, strict=True) if row.status == "verified"]
            if (key := tuple(same)) not in verifier.further:
                verifier.further[key] = list(uncovered(before, after, same))
            # Where no output reacts to new weights, it may still react to all else that differs in a part.
            is_decided = whole is not None and not whole.differs and whole.doubt in (None, UNSEEN)
            decided = whole if is_decided else None
            stops = is_first or (decided is not None and decided.agrees)
            share = 0.0 if whole is not None and whole.differs else _FIRST if is_first else _GOING_BACK
            found = _looked_into(verifier, verifier.further[key], decided, stops=stops, share=share)
            if stops and _stays_open({row.status for _, row in found}):
                return Parts(tuple(announced), tuple(row for _, row in found), are_all=False)
            return Parts(tuple(announced), tuple(_others(verifier, found, decided)))
        except LimitStruck:
            return Parts(tuple(announced), cut_off(verifier.request))


def cut_off(request: Request) -> tuple[Evidence, ...]:
    """Return a row for the changes that the limit on the clock left no time to find."""
    why = request.clock.over()
    return (request.ledger.enter(Evidence("whatever else changed", "", ()).opened(why)),)


def _looked_into(
    verifier: SubgraphVerifier, cuts: Sequence[ir.Cut], whole: Whole | None, *, stops: bool, share: float
) -> list[tuple[ir.Cut, Evidence]]:
    """Compare changes that no rewrite announced, if it ``stops``, up to the first that stays open.

    A part may agree, or run, only on the values that occur in the model. So it is compared from values further back, as
    far as a ``share`` of the budget goes. It also counts as equal if the whole models agree and would show a fault in
    it.
    """
    found: list[tuple[ir.Cut, Evidence]] = []
    kinds: set[str] = set()
    for number, cut in enumerate(cuts, 1):
        for single in apart(cut) if verifier.check(cut).status == "failed" else [cut]:
            row = verifier.check(single)
            if row.status == "failed" or row.code in _DECIDED_FURTHER_BACK:
                row = _from_further_back(verifier, single, row, share)
            # Where one part stays open, the result is unverified, whatever is found out about the others.
            if whole is not None and row.status == "skipped" and "skipped" not in kinds:
                row = _in_whole(verifier, single, row, whole)
            found.append((single, row))
            kinds.add(row.status)
        verifier.request.tell_parts("changes", number, len(cuts))
        if stops and _stays_open(kinds):
            break
    return found


def _stays_open(kinds: Collection[str]) -> bool:
    """Whether, by the kinds of rows, a change cannot be compared, and none differs, which would decide."""
    return "skipped" in kinds and "failed" not in kinds


def _from_further_back(verifier: SubgraphVerifier, cut: ir.Cut, row: Evidence, share: float) -> Evidence:
    """Compare a part from values further back if its own are drawn, and the model may never make those.

    It is equal if it is from there, and a fault would show. Where one would not, it is open, unless something inside is
    discontinuous: few inputs say little of what that makes. So it is if it differs at some sizes only, and no sizes are
    found from there. It differs where values that callers feed show it, and where bnfold cannot go back that far.
    """
    request, found, last = verifier.request, row, 0.0
    for further in further_back(request.before, request.after, cut):
        left = share * request.clock.budget - verifier.going_back
        if 2 * last >= left:  # what is further back takes longer
            break
        begun = request.clock.work.seconds
        again = verifier.check(further, nearer=cut, seconds=left)
        last = request.clock.work.seconds - begun
        verifier.going_back += last
        if again.status == "verified" or (again.status == "failed" and _stays(request.before, again)):
            return again
        if again.status == "failed":
            found = row
        elif (
            again.code in _SHOWS_NOTHING
            and again.is_same
            and not has_discontinuity(request.before, request.after, further)
        ):
            found = again
        elif again.code is Code.NO_FIT and row.at_some_sizes and found is row:
            found = row.opened(_AT_ASSUMED_SIZES)
    return found


def _others(verifier: SubgraphVerifier, found: list[tuple[ir.Cut, Evidence]], whole: Whole | None) -> list[Evidence]:
    """Look further where changes differ.

    A value may have another meaning than before; then values computed from it decide. If a part differs, the whole
    models have to agree on numbers of every kind, and have to show a fault in it.
    """
    before, after = verifier.request.before, verifier.request.after
    failed = [cut for cut, row in found if row.status == "failed"]
    behind = beyond(before, after, failed)
    certain = {(cut.graph, cut.outputs): row for cut, row in found if _stays(before, row)}
    hidden = [name for cut in failed for name in cut.outputs]
    larger = [certain.get((cut.graph, cut.outputs)) or verifier.check(cut, hidden=hidden) for cut in behind]
    if larger and all(row.status == "verified" or row.is_same for row in larger):
        kept = [(cut, row) for cut, row in found if row.status != "failed"]
    else:
        doubt = next((row.why for row in larger if row.status == "skipped" and not row.is_same), None)
        is_open = doubt is not None and all(
            row.status != "failed" for row in larger
        )  # the names may have other values, no more
        kept = [
            (cut, row.opened(doubt) if doubt is not None and is_open and row.status == "failed" else row)
            for cut, row in found
        ]
        larger = []
    if whole is None:
        return [row for _, row in kept] + larger
    differs = cache(partial(_differs_elsewhere, whole))
    seen: list[Evidence] = []
    for cut, row in kept:
        is_settled = cut not in failed or (row.status == "failed" and differs())
        is_idle = row.status == "skipped" and any(other.status == "skipped" for other in seen)
        seen.append(row if is_settled or is_idle else _in_whole(verifier, cut, row, whole))
    return seen + larger


def _differs_elsewhere(whole: Whole) -> bool:
    """Whether the whole models differ on numbers of another kind, or cannot be compared on those."""
    try:
        return whole.differs_elsewhere()
    except BnfoldError:
        return True


def _hidden_in_whole(row: Evidence, example: str) -> Evidence:
    """Return the evidence, and that the whole models do not show an error in ``example`` either."""
    if row.code is Code.HIDDEN and row.data.get("example") == example:
        return replace(row, note=f"{row.note}, neither in this part nor in the whole models")
    return replace(row, note=f"{row.note}; a fault in {example} would not show in the whole models")


def _stays(model: ir.Model, row: Evidence) -> bool:
    """Whether whole models that agree settle nothing: a runtime or callers can make the values on which a part differs.

    Callers feed all that a part of the main graph reads if it is computed from the model's inputs alone.
    """
    if row.code is Code.ZERO_SIGN:  # which of its zeros max(x, 0) returns is left to each runtime
        return True
    fed = {value.name for value in model.required_inputs()}
    return row.status == "failed" and not (row.at_some_sizes or row.graph) and fed.issuperset(row.boundary)


def _in_whole(verifier: SubgraphVerifier, cut: ir.Cut, row: Evidence, whole: Whole) -> Evidence:
    """Let the whole models decide on a part that stays open, or differs on values that the model may never make."""
    if _stays(verifier.request.before, row):
        return row
    sizes = len({tuple(map(shape_of, sample.feeds.values())) for sample in whole.seen})
    if row.at_some_sizes and sizes < (_SIZES if row.status == "failed" else 2):
        return row if row.status == "skipped" else row.opened(_AT_FEW_SIZES)
    clock = verifier.request.clock
    try:
        coverage = verifier.coverage(cut, clock.budget)
        if (needed := whole.needs(coverage)) > clock.budget:
            why = clock.too_long(needed, _LOOKING)
            return replace(row, note=f"{row.note}; {why}", data={**row.data, **why.data})
        whole.observe(coverage)
    except (BnfoldError, NotCompared):
        return row
    if coverage.uncovered:
        return _hidden_in_whole(row, coverage.example)
    return replace(row, status="verified", code=Code.IN_WHOLE, note="compared in the whole models only")
