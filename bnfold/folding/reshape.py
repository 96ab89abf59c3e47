"""Affines through a reshape, decided by index maps.

Which old axes became which new ones has to hold for every value of the unknown sizes. Sizes that merely coincide prove
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bnfold.folding.affine import Affine, make
from bnfold.ir.tensor import Float64
from bnfold.ir.value import Dim
from bnfold.report.reasons import Declined, Reason


class Size(NamedTuple):
    """A product of a number and unknown sizes, each unknown by a name of its own."""

    number: int
    unknowns: tuple[str, ...] = ()

    def times(self, other: Size) -> Size:
        return Size(self.number * other.number, tuple(sorted(self.unknowns + other.unknowns)))

    def over(self, other: Size) -> Size | None:
        """Return the quotient, where it is one for every value of the unknowns."""
        rest = Counter(self.unknowns)
        rest.subtract(other.unknowns)
        if other.number == 0 or self.number % other.number or any(count < 0 for count in rest.values()):
            return None
        return Size(self.number // other.number, tuple(sorted(rest.elements())))


ONE = Size(1)


def sizes(dims: Sequence[Dim]) -> list[Size]:
    """Return the dims of a value as Sizes; an unnamed unknown equals nothing but itself."""
    return [
        Size(dim) if isinstance(dim, int) else Size(1, (f"name:{dim}" if dim else f"axis:{axis}",))
        for axis, dim in enumerate(dims)
    ]


def resolve(old: Sequence[Size], target: Sequence[int], *, allow_zero: bool = False) -> list[Size]:
    """Return the dims that Reshape's ``target`` asks for: 0 copies, −1 is what is left.

    Raises Declined if not provable.
    """
    if any(size < -1 for size in target):
        raise Declined(Reason.UNREADABLE, f"the target shape {list(target)} has a negative size")
    new: list[Size | None] = []
    for axis, size in enumerate(target):
        if size == 0 and not allow_zero:
            if axis >= len(old):
                raise Declined(Reason.NOT_STATIC, "the target shape copies an axis that is not there")
            new.append(old[axis])
        else:
            new.append(None if size == -1 else Size(size))
    if None in new:
        rest: Size | None = product(old)
        for known in new:
            if known is not None and rest is not None:
                rest = rest.over(known)
        new[new.index(None)] = rest or Size(1, ("rest",))
    if None in new:
        raise Declined(Reason.NOT_STATIC, "the target shape has two open axes")
    return [size for size in new if size is not None]


def product(parts: Sequence[Size]) -> Size:
    """Return the number of elements over several axes."""
    total = ONE
    for part in parts:
        total = total.times(part)
    return total


AxisGroup = tuple[range, range]
"""Old axes and new axes that hold the same elements in the same order."""


def groups(old: Sequence[Size], new: Sequence[Size]) -> list[AxisGroup]:
    """Return the finest common cut of both index spaces that holds for every value of the unknowns, last axes first."""
    found: list[AxisGroup] = []
    i, j = len(old), len(new)
    while i or j:
        stop_i, stop_j = i, j
        if j and new[j - 1] == ONE and not (i and old[i - 1] == ONE):
            j -= 1
        elif i and old[i - 1] == ONE and not (j and new[j - 1] == ONE):
            i -= 1
        else:
            i, j = _balance(old, new, i, j)
        found.append((range(i, stop_i), range(j, stop_j)))
    return found[::-1]


def _balance(old: Sequence[Size], new: Sequence[Size], i: int, j: int) -> tuple[int, int]:
    """Take axes from both ends until their products agree; where they never do, everything is one group."""
    stop_i, stop_j = i, j
    left, right = ONE, ONE
    while (i or j) and not (left == right and stop_i > i and stop_j > j):
        left_is_less = right.over(left) is not None and (left != right or stop_i == i)
        if i and (not j or left_is_less or left.over(right) is None):
            i -= 1
            left = left.times(old[i])
        else:
            j -= 1
            right = right.times(new[j])
    return i, j


def carry(affine: Affine, old: Sequence[Size], new: Sequence[Size]) -> Affine:
    """Return the affine on the reshaped value that does what ``affine`` did on the value before. Raises Declined."""
    parts = groups(old, new)
    _check_possible(affine, old, new, parts)
    for before, after in parts:
        if all(affine.shape[axis] == 1 for axis in before):
            continue
        if any(old[axis].unknowns for axis in before) or any(new[axis].unknowns for axis in after):
            raise Declined(
                Reason.NOT_STATIC,
                f"axes {list(before)} become axes {list(after)}; which element goes where depends on an unknown size",
            )

    def move(block: Float64) -> Float64:
        full: list[int] = []
        shape: list[int] = []
        for before, after in parts:
            varies = any(block.shape[axis] != 1 for axis in before)
            full += [old[axis].number for axis in before] if varies else [1] * len(before)
            shape += [new[axis].number for axis in after] if varies else [1] * len(after)
        return np.broadcast_to(block, full).reshape(shape)

    return make(move(affine.s), move(affine.t))


def _check_possible(affine: Affine, old: Sequence[Size], new: Sequence[Size], parts: Sequence[AxisGroup]) -> None:
    """Raise Declined where a damaged model asks for what no runtime could do, as far as sizes are known."""
    fits = affine.rank == len(old) and all(
        size.unknowns or dim in (1, size.number) for dim, size in zip(affine.shape, old, strict=True)
    )
    if not fits:
        raise Declined(Reason.UNREADABLE, f"a factor of dims {list(affine.shape)} for a value of others")
    for before, after in parts:
        left, right = product([old[axis] for axis in before]), product([new[axis] for axis in after])
        if not left.unknowns and not right.unknowns and left != right:
            raise Declined(
                Reason.UNREADABLE,
                f"axes {list(before)} cannot become axes {list(after)}: {left.number} elements are not {right.number}",
            )
