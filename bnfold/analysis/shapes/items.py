"""Arithmetic, comparisons and logic on items: numbers, dynamic sizes by name, or None for what is not known.

A truth is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable

from bnfold.analysis.shapes.products import factors, named
from bnfold.ir.value import Dim


def quotient(one: Dim, other: Dim) -> Dim:
    """Return the quotient of items that are not negative: others are rounded in several ways.

    Raises ValueError for a negative number, and for a divisor that is zero.
    """
    _require_sizes(one, other)
    if other == 1:
        return one
    if not isinstance(one, str) or not isinstance(other, int):
        return one // other if isinstance(one, int) and isinstance(other, int) else None
    names, number = factors([one])
    return named(names, number // other) if number % other == 0 else None


def remainder(one: Dim, other: Dim) -> Dim:
    """Return what a division of items that are not negative leaves; of a dynamic size only if that is nothing.

    Raises ValueError for a negative number, whose remainder has several meanings, and for a divisor that is zero.
    """
    _require_sizes(one, other)
    if not isinstance(one, str) or not isinstance(other, int):
        return one % other if isinstance(one, int) and isinstance(other, int) else None
    return 0 if factors([one])[1] % other == 0 else None


def _require_sizes(one: Dim, other: Dim) -> None:
    if (isinstance(one, int) and one < 0) or (isinstance(other, int) and other <= 0):
        raise ValueError("not followed")


def difference(one: Dim, other: Dim) -> Dim:
    """Return the difference of items; of dynamic sizes only if they are the same."""
    if isinstance(one, int) and isinstance(other, int):
        return one - other
    if other == 0:
        return one
    return 0 if one == other is not None else None


def larger(one: Dim, other: Dim) -> Dim:
    """Return the larger item; a dynamic size is no negative number."""
    return _extreme(one, other, max)


def smaller(one: Dim, other: Dim) -> Dim:
    """Return the smaller item; a dynamic size is no negative number."""
    return _extreme(one, other, min)


def _extreme(one: Dim, other: Dim, choose: Callable[[int, int], int]) -> Dim:
    if isinstance(one, int) and isinstance(other, int):
        return choose(one, other)
    if one == other or one is None or other is None:
        return one if one == other else None
    number, size = (one, other) if isinstance(one, int) else (other, one)
    if not isinstance(number, int) or number > 0:
        return None
    return size if choose(number, 1) == 1 else number


def are_equal(one: Dim, other: Dim) -> int | None:
    """Compare; a dynamic size is no negative number."""
    if one is None or other is None:
        return None
    if isinstance(one, int) == isinstance(other, int):
        return int(one == other) if isinstance(one, int) or one == other else None
    number = one if isinstance(one, int) else other
    return 0 if isinstance(number, int) and number < 0 else None


def chosen(truth: int | None, yes: Dim, no: Dim) -> Dim:
    """Return the item that a truth chooses; without one, the item if both are the same."""
    if truth is None:
        return yes if yes == no else None
    return yes if truth else no


def comparison(holds: Callable[[int, int], bool], *, below: bool) -> Callable[[Dim, Dim], int | None]:
    """Return how items are compared; ``below`` is the result for a negative number and any size."""

    def compare(one: Dim, other: Dim) -> int | None:
        if isinstance(one, int) and isinstance(other, int):
            return int(holds(one, other))
        if isinstance(one, int) and isinstance(other, str) and one < 0:
            return int(below)
        return int(not below) if isinstance(other, int) and isinstance(one, str) and other < 0 else None

    return compare


def conjunction(one: int | None, other: int | None) -> int | None:
    """Return whether both truths hold; one that does not is enough to know."""
    if 0 in (one, other):
        return 0
    return None if None in (one, other) else 1


def disjunction(one: int | None, other: int | None) -> int | None:
    """Return whether one of the truths holds; one that does is enough to know."""
    if 1 in (one, other):
        return 1
    return None if None in (one, other) else 0


def is_true(item: Dim) -> int | None:
    """Return the truth that a number becomes; a dynamic size may be zero."""
    return int(item != 0) if isinstance(item, int) else None
