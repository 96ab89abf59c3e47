"""Change numbers so that a comparison has to react: move them a little, replace them, or undo a clipping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.verification.changes.partly import known_of
from bnfold.verification.coverage.record import STEP
from bnfold.verification.tolerance.compare import magnitude
from bnfold.verification.tolerance.floats import is_float

FEW = 16
"""Numbers of one constant that are changed one by one; more of them in shares."""

SHARES = 8


def flat(array: Array, dtype: int) -> Array:
    """Return the elements one after the other, floats widened."""
    return (array.astype(np.float64) if is_float(dtype) else array).reshape(-1)


def shares(places: Array) -> list[Array]:
    """Return the places of one constant that are changed together."""
    if places.size <= FEW:
        return np.split(places, places.size) if places.size else []
    return np.array_split(places, SHARES)


def replacing(places: Array, numbers: Array) -> Callable[[Any], Any]:
    """Return what puts ``numbers`` at ``places`` of an array; one of another size, made at other sizes, stays."""

    def change(array: Array) -> Array:
        copy = np.array(array)
        if places.max(initial=-1) < copy.size:
            copy.reshape(-1)[places] = numbers
        return copy

    return change


def replacing_slices(axis: int, places: Array, different: Array, numbers: Array) -> Callable[[Any], Any]:
    """Return what puts ``numbers`` into slices of an array, where they are ``different``."""
    where: tuple[slice | Array, ...] = (*[slice(None)] * axis, places)

    def change(array: Array) -> Array:
        copy = np.array(array)
        if copy.shape != different.shape:
            return copy
        copy[where] = np.where(different[where], numbers[where], copy[where])
        return copy

    return change


def nudge(datum: Any) -> Any:
    """Perturb an array: numbers slightly larger, booleans inverted, strings doubled; other values stay."""
    kind = datum.dtype.kind if isinstance(datum, np.ndarray) else ""
    if kind == "f":
        with np.errstate(over="ignore"):  # the largest numbers become infinite, which is a change as well
            return np.asarray(datum + STEP * np.where(datum == 0, magnitude(datum) or 1.0, datum))
    if kind == "O":
        return datum + datum
    return ~datum if kind == "b" else datum + datum.dtype.type(1) if kind in "iu" and kind else datum


_NO_SIZE = 1048583
"""A prime that is no size of a test input."""
_RARE_SIZE = 11
"""A prime that few axes have, and that a result may well have."""


def elsewhere(value: ir.Value, array: Array) -> Array:
    """Return other numbers for those of a constant: slightly larger ones, except where these have no effect.

    A Reshape copies a size for 0, which may be the size that it infers for -1, or 1 in every run. An Expand takes 1 for
    any size. A scale of 1 has an effect from 2 on. The first Tile has counts that are floats. In a mask of 0 and -inf,
    another place is hidden. The limit of a number that is cast to an integer moves by one.
    """
    goal = nudge(array)
    if array.dtype.kind == "i" and (array == -1).any() and _is_part_of_target(value):
        goal = np.where(array == -1, array.dtype.type(_NO_SIZE), goal)
    for node, slot in value.uses:
        if node.is_op("Reshape") and slot == 1:
            goal = np.where((array == 0) & _is_one(node.input(0), array.size), array.dtype.type(2), goal)
        if node.is_op("Expand") and slot == 1:
            goal = np.where(array == 1, array.dtype.type(_RARE_SIZE), goal)
        if node.is_op("Resize", "Upsample") and array.dtype.kind == "f" and array.size == len(array) > 1:
            goal = np.where(array == 1, 2.0, goal)
        if node.is_op("Tile") and slot and array.dtype.kind == "f":
            goal = array + 1.0
        if node.is_op("Clip") and slot and array.dtype.kind == "f" and _becomes_whole(node):
            goal = array + _OUTWARD["max" if slot == 2 else "min"]
    if array.dtype.kind == "f" and np.isneginf(array).any():
        goal = np.where(array == 0, -np.inf, goal)
    return np.asarray(goal)


_OUTWARD = {"max": 1.0, "min": -1.0}


def another_setting(node: ir.Node, name: str, setting: float) -> float:
    """Return another number for an attribute: a slightly larger one, or a limit as `elsewhere` moves one."""
    if node.is_op("Clip") and name in _OUTWARD and _becomes_whole(node):
        return setting + _OUTWARD[name]
    return setting * (1 + STEP) or STEP


def _is_part_of_target(value: ir.Value) -> bool:
    """Whether a Reshape takes its sizes from a value, put beside others, perhaps."""
    waiting, seen = [value], {value}
    while waiting and len(seen) <= FEW:
        for node, slot in waiting.pop().uses:
            if node.is_op("Reshape") and slot == 1:
                return True
            made = node.output(0) if node.is_op("Cast", "Concat", "Identity", "Squeeze", "Unsqueeze") else None
            if made is not None and made not in seen:
                seen.add(made)
                waiting.append(made)
    return False


def _is_one(value: ir.Value | None, rank: int) -> Array:
    """Return on which of its first ``rank`` axes a value has size 1 in every run."""
    dims = known_of(value.graph.model).dims(value) if value is not None else None
    return np.array([dim == 1 for dim in [*(dims or ()), *[None] * rank][:rank]], np.bool_)


def _becomes_whole(node: ir.Node) -> bool:
    """Whether integers are made of a result, and nothing else."""
    made = node.output(0)
    return (
        made is not None
        and bool(made.uses)
        and all(use.is_op("Cast") and not is_float(use.attr("to", 1)) for use, _ in made.uses)
    )


def _let_through(clipped: Array) -> Array:
    """Make numbers negative in the places of zeros, which a Relu may have clipped."""
    return np.where(clipped == 0, -np.abs(clipped).max(initial=1.0), clipped)


WITHOUT: dict[str, Callable[[Any], Any]] = {"IsInf": np.zeros_like, "IsNaN": np.zeros_like, "Relu": _let_through}
"""Changes that undo the effect of an operator. If only one model has the operator, it has to have an effect."""
