"""Collect the trials of one region, at several input sizes, into one result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.inputs.shapes import ChosenShapes
from bnfold.verification.obstacles import NotCompared
from bnfold.verification.subgraphs.shapes import Trial
from bnfold.verification.tolerance.compare import Difference

TOO_LARGE = Why(Code.TOO_LARGE, "every shape that its inputs can have is too large to try")


TrialResult = Difference | NotCompared


def fails(found: TrialResult | None) -> bool:
    """Whether the results differ."""
    return isinstance(found, Difference) and found.excess > 1


def by_size(found: TrialResult) -> TrialResult:
    """Return a finding at sizes beside others at which the results were equal."""
    return found._replace(by_size=True) if isinstance(found, Difference) else found


def equal_on(tried: Sequence[tuple[DrawnFeeds, bool, TrialResult]]) -> Iterator[tuple[DrawnFeeds, bool]]:
    """Yield the inputs on which the results were equal, in order, and whether their sizes are guessed."""
    yield from (
        (feeds, guessed) for feeds, guessed, found in tried if isinstance(found, Difference) and not fails(found)
    )


def passed(tried: Sequence[tuple[DrawnFeeds, bool, TrialResult]]) -> list[ChosenShapes]:
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
    _first: TrialResult = field(default_factory=lambda: NotCompared(TOO_LARGE))
    _equal: Difference | None = None
    _conclusive: Difference | None = None
    _differing_rank: int = -1
    _is_binding: bool = False
    _declared_do_not_run: bool = False

    @property
    def has_run(self) -> bool:
        """Whether the part ran at any sizes."""
        return self._equal is not None or not isinstance(self._first, NotCompared) or self._first.only_after

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
        return self.unranked or not guessed or isinstance(self._first, NotCompared)

    def decide(self, latest: TrialResult, *, guessed: bool, rank: int) -> bool:
        """Record a result; ``rank`` is that of the largest input. Returns whether it is an equality that counts."""
        if isinstance(latest, Difference) and latest.excess <= 1:
            self._equal = latest
            if self._is_binding and not guessed:
                self._conclusive = latest
                return self._declared_do_not_run
            # With nothing beside channels, operators coincide that are not the same.
            return not guessed or rank > max(2 if self.unranked else -1, self._differing_rank)
        is_skip = isinstance(latest, NotCompared)
        if not isinstance(latest, NotCompared) or latest.only_after:
            self._differing_rank = max(self._differing_rank, rank)
        self._is_binding |= not is_skip and (self.unranked or not guessed)
        self._declared_do_not_run |= is_skip and not guessed and (self.reshapes or not self._is_binding)
        if isinstance(self._first, NotCompared):
            self._first = latest
        return False

    def outcome(self) -> TrialResult:
        """Return the result when no trial was conclusive."""
        if self._conclusive is not None:
            return self._conclusive if self._declared_do_not_run else self._first
        if self._declared_do_not_run and not self._is_binding and isinstance(self._first, Difference):
            return NotCompared(Why(Code.SOME_SIZES, "it does not run at the declared sizes, and differs at others"))
        if self._equal is not None and self._differing_rank >= 0:
            reason = "it is equivalent for some input shapes only, and the model does not declare which it gets"
            return NotCompared(Why(Code.SOME_SIZES, reason))
        return self._equal or self._first
