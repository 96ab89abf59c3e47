"""Collect the trials of one region, at several input sizes, into one result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bnfold.verification.claims import ClaimOutcome, Evidence, Why
from bnfold.verification.codes import Code
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.inputs.shapes import ChosenShapes
from bnfold.verification.subgraphs.shapes import Trial
from bnfold.verification.tolerance.compare import Difference

TOO_LARGE = Why(Code.TOO_LARGE, "every shape that its inputs can have is too large to try")


EQUAL = Difference()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOutcome(ClaimOutcome):
    """What experiments on a part found, with the largest ``difference``.

    If there is no comparison, ``original_ran`` says that the original part ran. ``is_same`` says that results that do
    not count agreed, and ``at_some_sizes`` that there are other sizes with another outcome. ``behind`` is the evidence
    on a value computed from the results, if that decides instead.
    """

    difference: Difference = EQUAL
    original_ran: bool = False
    is_same: bool = False
    at_some_sizes: bool = False
    behind: Evidence | None = None

    def beside_equal(self) -> PartOutcome:
        """Return a difference as one at sizes beside others at which the results were equal."""
        return replace(self, at_some_sizes=self.at_some_sizes or self.differs)


def outcome_of(difference: Difference) -> PartOutcome:
    """Return what a comparison found, by the largest difference."""
    fault = Why(difference.code, difference.fault) if difference.excess > 1 else None
    return PartOutcome(fault=fault, difference=difference)


def largest(found: Iterable[PartOutcome]) -> PartOutcome:
    """Return the outcome with the largest difference."""
    return max(found, key=lambda outcome: outcome.difference.excess)


PartRun = tuple[DrawnFeeds, bool, PartOutcome]
"""What a part was fed, whether its sizes are guessed, and what that showed."""


def equal_on(tried: Sequence[PartRun]) -> Iterator[tuple[DrawnFeeds, bool]]:
    """Yield the inputs on which the results were equal, in order, and whether their sizes are guessed."""
    yield from ((feeds, guessed) for feeds, guessed, found in tried if found.agrees)


def passed(tried: Sequence[PartRun]) -> list[ChosenShapes]:
    """Return the shapes at which the results were equal, in order."""
    return [{name: array.shape for name, array in feeds.items()} for feeds, _ in equal_on(tried)]


@dataclass(slots=True, eq=False)
class SubgraphTrials:
    """The results of the trials of one part so far.

    ``guessed`` sizes are not declared, or contradict the declared ones. A rewrite may rely on declared sizes, so a
    difference at guessed sizes is checked again at the declared ones, if the part runs on them. If the rank of an input
    is unknown (``unranked``), no declared sizes can answer.

    Declared sizes may leave the batch dynamic, and one batch may show a difference. Then equality at another batch
    counts only if the part ``reshapes`` to fixed sizes and does not run at some batches. Otherwise the results coincide
    there by chance, as the statistics of two rows do.
    """

    unranked: bool
    reshapes: bool
    _first: PartOutcome = PartOutcome(doubt=TOO_LARGE)
    _equal: PartOutcome | None = None
    _conclusive: PartOutcome | None = None
    _differing_rank: int = -1
    _is_binding: bool = False
    _declared_do_not_run: bool = False

    @property
    def has_run(self) -> bool:
        """Whether the part ran at any sizes."""
        return self._equal is not None or not self._first.is_open or self._first.original_ran

    @property
    def has_passed(self) -> bool:
        """Whether the results were equal at any sizes."""
        return self._equal is not None

    @property
    def _is_settled(self) -> bool:
        """Whether the results differ at declared sizes, so that equality at no others would count."""
        may_count = self.reshapes or self.unranked or self._declared_do_not_run or self._equal is not None
        return self._is_binding and not may_count

    def need(self, trial: Trial, *, guessed: bool) -> bool:
        """Whether to try these sizes. After a difference, only sizes where passing is conclusive matter."""
        if self._is_settled or (self._is_binding and not trial.passing_is_conclusive):
            return False
        return self.unranked or not guessed or self._first.is_open

    def decide(self, latest: PartOutcome, *, guessed: bool, rank: int) -> bool:
        """Record a result; ``rank`` is that of the largest input. Returns whether it is an equality that counts."""
        if latest.agrees:
            self._equal = latest
            if self._is_binding and not guessed:
                self._conclusive = latest
                return self._declared_do_not_run
            # With nothing beside channels, operators coincide that are not the same.
            return not guessed or rank > max(2 if self.unranked else -1, self._differing_rank)
        if latest.differs or latest.original_ran:
            self._differing_rank = max(self._differing_rank, rank)
        self._is_binding |= latest.differs and (self.unranked or not guessed)
        self._declared_do_not_run |= latest.is_open and not guessed and (self.reshapes or not self._is_binding)
        if self._first.is_open:
            self._first = latest
        return False

    def outcome(self) -> PartOutcome:
        """Return the result when no trial was conclusive."""
        if self._conclusive is not None:
            return self._conclusive if self._declared_do_not_run else self._first
        if self._declared_do_not_run and not self._is_binding and not self._first.is_open:
            reason = "it does not run at the declared sizes, and differs at others"
            return PartOutcome(doubt=Why(Code.SOME_SIZES, reason))
        if self._equal is not None and self._differing_rank >= 0:
            reason = "it is equivalent for some input shapes only, and the model does not declare which it gets"
            return PartOutcome(doubt=Why(Code.SOME_SIZES, reason))
        return self._equal or self._first
