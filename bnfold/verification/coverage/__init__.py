"""Would a fault have shown? Equal results prove nothing about things that they do not depend on.

This is the one door: a comparison asks for the `Coverage` of a part (`cover_part`), or of a part within whole models
(`cover_whole`). It lets the coverage `observe` each comparison without a difference, and reads what is ``uncovered``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bnfold import ir, reference
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.coverage.effects import read_for_sizes
from bnfold.verification.coverage.moves import nudge
from bnfold.verification.coverage.mutants import Mutants, all_taken_over, nudged
from bnfold.verification.coverage.record import Comparison, Coverage, same_place
from bnfold.verification.coverage.smooth import differ_in_kind, only_moves, sizes_at_jumps
from bnfold.verification.coverage.tables import indices_into, tables

__all__ = [
    "Comparison",
    "Coverage",
    "cover_nearer",
    "cover_part",
    "cover_whole",
    "differ_in_kind",
    "indices_into",
    "nudge",
    "only_moves",
    "read_for_sizes",
    "same_place",
    "sizes_at_jumps",
]


def cover_part(
    old: Subgraph, new: Subgraph, compared: Collection[str], hidden: Collection[str], work: reference.Work
) -> Coverage:
    """Return the differences of two parts that comparing the values ``compared`` has to reveal.

    ``hidden`` are values inside that differ. Each of them has to show, whether it is smooth or not.
    """
    mutants = Mutants(old, new, are_compared=not hidden)
    found = [*mutants.found, *all_taken_over(old, new, hidden, compared)]
    return Coverage(found, tables(old, new), work, follows_from_structure=mutants.follow_from_structure)


def cover_nearer(nearer: tuple[Subgraph, Subgraph], old: Subgraph, new: Subgraph, work: reference.Work) -> Coverage:
    """Return what comparing two parts has to show of those that are ``nearer`` to their results, and of their tables.

    These were compared on drawn numbers, and differ. So everything has to show, whether it is smooth or not.
    """
    return Coverage(Mutants(*nearer, are_compared=False).found, tables(old, new), work)


def cover_whole(
    old: Subgraph, new: Subgraph, made: Iterable[ir.Value], work: reference.Work, seconds: float
) -> Coverage:
    """Return what comparing whole models has to show of a part: the values that it makes, and its constants.

    ``seconds`` is the most counted work for that.
    """
    found = [*(nudged(1, value) for value in made), *Mutants(old, new, are_compared=False).found]
    return Coverage(found, tables(old, new, are_alone=False), work, seconds)
