"""Whether an operator leaves its operand as it is beside a constant: it is computed for numbers of every kind.

A constant that changes any number changes one of these: the ends of the type, infinities, NaN, both zeros, and numbers
of many and of few digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.elements import FLOATS, RAW_TYPES, Array
from bnfold.ir.tensor import TP

NeutralOperation = Callable[[Any, Any], Any]

OPERATIONS: Mapping[str, NeutralOperation] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda x, other: np.true_divide(x, other) if x.dtype.kind not in "iu" else np.floor_divide(x, other),
    "Pow": lambda x, other: np.power(x, other.astype(x.dtype)),
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
    "Max": np.maximum,
    "Min": np.minimum,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitShift": np.left_shift,
    "Clip": np.maximum,
}
_FEW = 2
"""Distinct elements that a neutral constant may have: zeros of both signs."""


def leaves_all(node: ir.Node, slot: int, others: Mapping[int, Array], dtype: int | None, *, signs: bool) -> bool:
    """Whether a node returns whatever it reads at ``slot``, beside constants at its other places.

    With ``signs``, a zero keeps its sign.
    """
    numbers = _numbers_of(dtype) if dtype is not None else None
    if numbers is None or (node.is_op("Pow") and dtype not in FLOATS):  # runtimes compute that of integers in floats
        return False
    if node.is_op("Clip"):
        others = {place: others.get(place, _end(numbers, place)) for place in (1, 2)} if slot == 0 else {}
    return bool(others) and all(
        _leaves(_operation(node, place), numbers, constant, is_left=place < slot, signs=signs)
        for place, constant in others.items()
    )


def _operation(node: ir.Node, place: int) -> NeutralOperation:
    return np.minimum if node.is_op("Clip") and place == 2 else OPERATIONS[node.op_type]


def _leaves(operation: NeutralOperation, numbers: Array, constant: Array, *, is_left: bool, signs: bool) -> bool:
    size = constant.dtype.itemsize
    kept = constant.tobytes()
    distinct = {kept[start : start + size] for start in range(0, len(kept), size)}
    if len(distinct) > _FEW:
        return False
    for element in distinct:
        number = np.frombuffer(element, constant.dtype)
        with np.errstate(all="ignore"):
            made = operation(number, numbers) if is_left else operation(numbers, number)
        if not _are_same(numbers, np.asarray(made), signs=signs):
            return False
    return True


def _are_same(numbers: Array, made: Array, *, signs: bool) -> bool:
    if numbers.dtype.kind in "biu":
        return np.array_equal(numbers, made)
    same = (numbers == made) | (np.isnan(numbers) & np.isnan(made))
    return bool(same.all()) and not (signs and (np.signbit(numbers) != np.signbit(made))[~np.isnan(numbers)].any())


def _numbers_of(dtype: int) -> Array | None:
    """Return numbers of a type, of every kind that it has; None for other types than plain numbers and booleans."""
    kind = RAW_TYPES.get(dtype)
    if dtype == TP.BOOL:
        return np.array([False, True])
    if kind is None or (dtype not in FLOATS and np.dtype(kind).kind not in "iu"):
        return None
    if dtype not in FLOATS:
        limits = np.iinfo(kind)
        return np.array([limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1, 7, 100], kind)
    bits = np.dtype(f"u{np.dtype(kind).itemsize}")
    infinite = int(np.array(np.inf, kind).view(bits))
    # subnormal, smallest and largest, all by their bits, for types that numpy does not know
    patterns = [1, 2, infinite - 1, infinite // 2, infinite // 2 + 1, infinite // 3, infinite // 5]
    positive = np.array([0, *patterns, infinite], bits).view(kind)
    ordinary = np.array([1.0, 1.5, 3.0, 0.1, np.nan]).astype(kind)
    return np.concatenate([positive, -positive, ordinary, -ordinary])


def _end(numbers: Array, place: int) -> Array:
    """Return the bound of a Clip that says none: the end of the type, which is no infinity."""
    kept = numbers[np.isfinite(numbers)] if numbers.dtype.kind not in "biu" else numbers
    return np.array([kept.min() if place == 1 else kept.max()], numbers.dtype)
