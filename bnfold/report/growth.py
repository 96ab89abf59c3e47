"""What a model grows by: bytes of weights, and what stores them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bnfold.report.other_events import SimplifyEvent
from bnfold.report.totals import size

LEAST = 1.01, 1 << 10
"""A result whose weights are larger by this factor and this many bytes says so."""
WORTH = 4096
"""Bytes that an operator is worth: what a model may grow by if it has one less.

A runtime reads as many in less time than it needs to start an operator.
"""
_MOST_SHARE = 10
"""A larger factor says less than the sizes do."""
MOST = 3
"""Operators that are named."""


@dataclass(slots=True, eq=False)
class Growth:
    """Bytes that the weights grew by, by what did it; below zero if they shrank.

    Attributes:
        folding: By folds of affines into weights.
        simplifying: By simplification.
        limit: What both together may add, if that was given.
    """

    folding: int = 0
    simplifying: int = 0
    limit: int | None = None

    def left(self) -> int | None:
        """Return what may still be added; None if no limit was given."""
        return None if self.limit is None else self.limit - self.folding - self.simplifying

    def sentence(self, before: int, after: int, simplified: Iterable[SimplifyEvent]) -> str:
        """Say that the weights grew, and why; empty if they did not, or by next to nothing."""
        factor, least = LEAST
        grown = after - before
        if after < factor * before or grown < least:
            return ""
        share = f" by {100 * grown / before:.0f} %," if grown <= _MOST_SHARE * before else ""
        reasons = [*_results(simplified)]
        if self.folding > 0:
            reasons.append(f"folding stores weights that nodes share or compute ({size(self.folding)})")
        if (rest := grown - max(self.folding, 0) - max(self.simplifying, 0)) >= least:
            reasons.append(f"constants of operators that were converted or replaced ({size(rest)})")
        may = max(self.folding, 0) + max(self.simplifying, 0) > 0
        advice = "; --max-growth 0 leaves this out" if may and self.limit is None else ""
        why = f": {', '.join(reasons)}{advice}" if reasons else ""
        return f"the weights grew{share} from {size(before)} to {size(after)}{why}"

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of the report's ``growth``."""
        return {"folding": self.folding, "simplifying": self.simplifying}


def _results(simplified: Iterable[SimplifyEvent]) -> Iterable[str]:
    """Yield whose results are stored, their bytes, and the nodes that this saves."""
    costly = [event for event in simplified if event.growth > 0]
    if not costly:
        return
    taken = sum(event.growth for event in costly)
    saved = sum(event.saved for event in costly)
    by_operator = dict.fromkeys((event.operator for event in costly), 0)
    for event in costly:
        by_operator[event.operator] += event.growth
    names = sorted(by_operator, key=lambda name: -by_operator[name])
    more = f" and {len(names) - MOST} more operators" if len(names) > MOST else ""
    nodes = f"{saved} node{'s' * (saved != 1)}"
    yield f"results of {', '.join(names[:MOST])}{more} are stored ({size(taken)} for {nodes})"
