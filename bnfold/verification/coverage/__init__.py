"""Would a fault have shown? Equal results prove nothing about what they do not depend on.

The one door: what is compared asks for a `Coverage` of a part (`cover_part`) or of what a part is among whole models
(`cover_whole`), lets it `observe` each comparison that found no difference, and reads what is left `uncovered`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bnfold import ir, reference
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.coverage.mutants import Mutants, all_taken_over, nudged
from bnfold.verification.coverage.record import Coverage, same_place
from bnfold.verification.coverage.smooth import differ_in_kind
from bnfold.verification.coverage.tables import tables

__all__ = ["Coverage", "cover_part", "cover_whole", "differ_in_kind", "same_place"]


def cover_part(
    old: Subgraph, new: Subgraph, compared: Collection[str], hidden: Collection[str], work: reference.Work
) -> Coverage:
    """Return what comparing the values ``compared`` of two parts has to tell apart.

    ``hidden`` are values that differ inside. They have to show as everything else that differs, smooth or not.
    """
    mutants = Mutants(old, new, () if hidden else compared)
    found = [*mutants.found, *all_taken_over(old, new, hidden, compared)]
    return Coverage(found, tables(old, new), work, follows_from_structure=mutants.follow_from_structure)


def cover_whole(
    old: Subgraph, new: Subgraph, made: Iterable[ir.Value], work: reference.Work, seconds: float
) -> Coverage:
    """Return what comparing whole models has to show of a part: the values that it makes, and its constants.

    ``seconds`` is the most counted work for that.
    """
    found = [*(nudged(1, value) for value in made), *Mutants(old, new, ()).found]
    return Coverage(found, tables(old, new, are_alone=False), work, seconds)
