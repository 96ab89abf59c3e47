"""Slice: one that takes all, and two in a row."""

from __future__ import annotations

from typing import NamedTuple

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import find_same_shape, integers, same_dims, skip
from bnfold.simplifying.parameters import numbers, replacement
from bnfold.simplifying.plan import Simplification

_END = 2**31 - 1
"""From here on an end of a Slice stands for the last element."""


class Range(NamedTuple):
    """The elements of one axis that a Slice takes."""

    start: int
    end: int
    step: int


def find_slice(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to leave out a Slice that takes all of its input, or to make one of two."""
    ranges = _ranges(node, known)
    if ranges is None:
        return find_same_shape(node, known)
    return _all(node, ranges, known) or _one_of_two(node, ranges, known)


def _all(node: ir.Node, ranges: dict[int, Range], known: Proven) -> Simplification | None:
    if any(taken.start or taken.step != 1 for taken in ranges.values()):
        return None
    takes_all = all(taken.end >= _END for taken in ranges.values())
    is_same = takes_all or same_dims(known, node.input(0), node.output(0))
    return skip(node, rewrites.SLICE_ALL) if is_same else None


def _one_of_two(node: ir.Node, ranges: dict[int, Range], known: Proven) -> Simplification | None:
    middle = node.input(0)
    first = middle.producer if middle is not None else None
    if middle is None or first is None or not first.is_op("Slice") or first.graph is not node.graph:
        return None
    inner = _ranges(first, known) if not first.has_references else None
    both = _merged(inner, ranges)
    if inner is None or both is None or middle.is_output:
        return None
    if not all(other is node or _can_join(other, middle, inner, known) for other in middle.consumers):
        return None
    starts, ends, steps = ([taken[place] for taken in both.values()] for place in range(3))
    parameters = {"starts": integers(starts), "ends": integers(ends), "axes": integers([*both])}
    if any(step != 1 for step in steps):  # of one element no input shows a step
        parameters["steps"] = integers(steps)
    return replacement(rewrites.SLICE_AFTER_SLICE, node, "Slice", first.input(0), parameters)


def _can_join(other: ir.Node, middle: ir.Value, inner: dict[int, Range], known: Proven) -> bool:
    """Whether this consumer is a Slice that needs the one above no longer."""
    if not other.is_op("Slice") or other.graph is not middle.graph or other.has_references:
        return False
    return other.inputs.count(middle) == 1 and _merged(inner, _ranges(other, known)) is not None


def _merged(inner: dict[int, Range] | None, outer: dict[int, Range] | None) -> dict[int, Range] | None:
    """Return what two Slices in a row take, or None where that depends on sizes."""
    if inner is None or outer is None or len({axis < 0 for axis in (*inner, *outer)}) > 1:
        return None
    both = dict(inner)
    for axis, taken in outer.items():
        joined = _after(inner[axis], taken) if axis in inner else taken
        if joined is None:
            return None
        both[axis] = joined
    return both


def _after(first: Range, second: Range) -> Range | None:
    """Return what two ranges of one axis take, or None where that depends on the size of the axis."""
    if first.step != 1 or second.step != 1 or first.start < 0 or second.start < 0:
        return None
    start = first.start + second.start
    if second.end >= _END:
        return Range(start, first.end, 1)
    return Range(start, min(first.end, first.start + second.end), 1) if min(first.end, second.end) >= 0 else None


def _ranges(node: ir.Node, known: Proven) -> dict[int, Range] | None:
    """Return what is taken of each axis, which counts from the front where the rank is known; None if it is open."""
    starts, ends = numbers(node, "starts", known), numbers(node, "ends", known)
    if starts is None or ends is None:
        return None
    axes = numbers(node, "axes", known, [*range(len(starts))])
    steps = numbers(node, "steps", known, [1] * len(starts))
    if axes is None or steps is None or not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    dims = known.dims(node.input(0))
    places = [axis + len(dims) if axis < 0 and dims is not None else axis for axis in axes]
    taken = dict(zip(places, map(Range, starts, ends, steps), strict=True))
    return taken if len(taken) == len(axes) else None
