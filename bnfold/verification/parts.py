"""Every part of a model that changed, compared on its own: where a rewrite says that it happened, and wherever else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.time_limit import LimitStruck
from bnfold.verification.changes.boundaries import uncovered, with_changes
from bnfold.verification.changes.enlarged import apart, beyond, deepened, widened
from bnfold.verification.comparing.outputs import UNSEEN
from bnfold.verification.request import Request
from bnfold.verification.subgraphs.verifier import SubgraphVerifier
from bnfold.verification.tolerance.compare import shape_of
from bnfold.verification.verdict import LocalRow

if TYPE_CHECKING:
    from bnfold.verification.end_to_end.examine import Whole


class Parts(NamedTuple):
    """``announced`` has a row for each rewrite that says where it happened, ``others`` one for each further change."""

    announced: tuple[LocalRow, ...] = ()
    others: tuple[LocalRow, ...] = ()

    @property
    def rows(self) -> tuple[LocalRow, ...]:
        """All of them."""
        return self.announced + self.others


def check_parts(verifier: SubgraphVerifier, whole: Whole | None) -> Parts:
    """Compare each part; if the whole models differ, stop at the first part that differs."""
    with ir.evaluated_once(verifier.request.before), ir.evaluated_once(verifier.request.after):
        return _compared(verifier, whole)


def _compared(verifier: SubgraphVerifier, whole: Whole | None) -> Parts:
    before, after = verifier.request.before, verifier.request.after
    announced: list[LocalRow] = []
    try:
        # What nothing reads is compared with all that changed.
        cuts = with_changes(before, after, (cut for cut in verifier.request.cuts if cut.outputs))
        announced = _rows(verifier, cuts, "rewrites")
        if whole is not None and whole.fault and any(row.status == "failed" for row in announced):
            return Parts(tuple(announced))
        same = [cut for cut, row in zip(cuts, announced, strict=True) if row.status == "verified"]
        further = list(uncovered(before, after, same))
        # Where no output reacts to new weights, it may still react to all else that differs in a part.
        decided = whole if whole is not None and not whole.fault and whole.doubt in ("", UNSEEN) else None
        return Parts(tuple(announced), tuple(_others(verifier, further, decided)))
    except LimitStruck:
        return Parts(tuple(announced), cut_off(verifier.request))


def cut_off(request: Request) -> tuple[LocalRow, ...]:
    """Return a row for the changes that the limit on the clock left no time to find."""
    return (LocalRow("whatever else changed", "", (), "skipped", note=request.clock.over()),)


def _rows(verifier: SubgraphVerifier, cuts: Sequence[ir.Cut], phase: str) -> list[LocalRow]:
    rows = []
    for cut in cuts:
        rows.append(verifier.check(cut))
        verifier.request.clock.share = len(rows) / len(cuts)
        verifier.request.progress(phase, len(rows), len(cuts))
    return rows


def _others(verifier: SubgraphVerifier, cuts: list[ir.Cut], whole: Whole | None) -> list[LocalRow]:
    """Compare changes that no rewrite announced, and look further if they differ.

    A value may have another meaning than before; then values computed from it decide. A part may agree only on the
    values that occur in the model, or not be comparable. It counts as equal if the whole models agree and would show a
    fault in it. If a part differs, the whole models have to agree on numbers of every kind.
    """
    before, after = verifier.request.before, verifier.request.after
    rows = _rows(verifier, cuts, "changes")
    cuts = [
        single
        for cut, row in zip(cuts, rows, strict=True)
        for single in (apart(cut) if row.status == "failed" else [cut])
    ]
    rows = [verifier.check(cut) for cut in cuts]
    for place, row in enumerate(rows):
        if verifier.request.clock.is_over:
            break
        if row.status != "verified" and (wider := widened(before, cuts[place])) != cuts[place]:
            cuts[place], rows[place] = wider, verifier.check(wider)
        if rows[place].status == "failed" and (deeper := deepened(before, after, cuts[place])) != cuts[place]:
            again = verifier.check(deeper)
            if again.status == "verified":
                cuts[place], rows[place] = deeper, again
    failed = [cut for cut, row in zip(cuts, rows, strict=True) if row.status == "failed"]
    behind = [widened(before, cut) for cut in beyond(before, after, failed)]
    larger = [verifier.check(cut, hidden=[name for cut in failed for name in cut.outputs]) for cut in behind]
    if larger and all(row.status == "verified" or row.is_same for row in larger):
        kept = [(cut, row) for cut, row in zip(cuts, rows, strict=True) if row.status != "failed"]
    else:
        doubt = next((row.note for row in larger if row.status == "skipped" and not row.is_same), "")
        if doubt and all(row.status != "failed" for row in larger):  # the names may have other values, and no more
            rows = [replace(row, status="skipped", note=doubt) if row.status == "failed" else row for row in rows]
        kept, larger = list(zip(cuts, rows, strict=True)), []
    if whole is None:
        return [row for _, row in kept] + larger
    seconds, differs = verifier.request.clock.budget, cache(partial(_differs_elsewhere, whole))
    seen: list[LocalRow] = []
    for cut, row in kept:
        is_shown = row.status == "verified" or (row.status == "failed" and differs())
        # Where one part stays open, the result is unverified, whatever is found out about the others.
        is_idle = row.status == "skipped" and any(other.status == "skipped" for other in seen)
        seen.append(row if is_shown or is_idle else _in_whole(verifier, cut, row, whole, seconds))
    return seen + larger


def _differs_elsewhere(whole: Whole) -> bool:
    """Whether the whole models differ on numbers of another kind, or cannot be compared on those."""
    try:
        return whole.differs_elsewhere()
    except BnfoldError:
        return True


def _in_whole(verifier: SubgraphVerifier, cut: ir.Cut, row: LocalRow, whole: Whole, seconds: float) -> LocalRow:
    if row.at_some_sizes and len({tuple(map(shape_of, sample.feeds.values())) for sample in whole.seen}) == 1:
        return row
    try:
        coverage = verifier.coverage(cut, seconds)
        whole.observe(coverage)
    except BnfoldError:
        return row
    if coverage.uncovered:
        hidden = f"a fault in {coverage.example} would not show in the whole models"
        return replace(row, note=f"{row.note}; {hidden}")
    return replace(row, status="verified", note="compared in the whole models only")
