"""Which operands are neutral: the operator returns its other operand bit for bit, signs of zero and NaN included.

-0.0 is neutral to Add, 0.0 is not: it turns -0.0 into 0.0, whose reciprocal is another one. To Sub it is the other way
round. Max and Min have infinities, because those are what they return unchanged beside every number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.evaluators import INTEGERS
from bnfold.ir.elements import FLOATS, RAW_TYPES
from bnfold.ir.tensor import TP, Array


class Neutral(NamedTuple):
    """The number that is neutral to an operator, for each kind of type; None where there is none.

    Attributes:
        integers: A number, or how it follows from the limits of the type.
        is_second: Whether it is neutral as the second operand only.
    """

    floats: float | None = None
    integers: int | Callable[[np.iinfo[Any]], int] | None = None
    truths: bool | None = None
    is_second: bool = False


_NEUTRAL: Mapping[str, Neutral] = {
    "Add": Neutral(-0.0, 0),
    "And": Neutral(truths=True),
    "BitShift": Neutral(integers=0, is_second=True),
    "BitwiseAnd": Neutral(integers=lambda limits: limits.max if limits.min == 0 else -1),
    "BitwiseOr": Neutral(integers=0),
    "BitwiseXor": Neutral(integers=0),
    "Div": Neutral(1.0, 1, is_second=True),
    "Max": Neutral(-np.inf, lambda limits: limits.min),
    "Min": Neutral(np.inf, lambda limits: limits.max),
    "Mul": Neutral(1.0, 1),
    "Or": Neutral(truths=False),
    "PRelu": Neutral(1.0, 1, is_second=True),
    "Pow": Neutral(1.0, is_second=True),
    "Sub": Neutral(0.0, 0, is_second=True),
    "Xor": Neutral(truths=False),
}
OPERATORS = _NEUTRAL.keys() | {"Clip"}
_SINCE = 7
"""The opset since which operands are broadcast by one rule."""
_MOST_BYTES = 1 << 16
"""Bytes of a constant that is looked at: factors of channels have no more, and weights are not loaded."""


def element(op_type: str, dtype: int) -> Array | None:
    """Return the number of this type that is neutral to an operator; None if there is none."""
    record = _NEUTRAL.get(op_type, Neutral())
    number: float | None = None
    if dtype == TP.BOOL:
        number = record.truths
    elif dtype in FLOATS:
        number = record.floats
    elif dtype in INTEGERS:
        of_integers = record.integers
        number = of_integers(np.iinfo(RAW_TYPES[dtype])) if callable(of_integers) else of_integers
    return None if number is None else np.array(number, RAW_TYPES[dtype])


def returns_operand(node: ir.Node, slot: int, dtype: int | None) -> bool:
    """Whether a node returns its operand at ``slot``, of this element type, or what broadcasting makes of it."""
    if node.op_type not in OPERATORS or node.graph.opset() < _SINCE or not node.is_op(node.op_type):
        return False
    if node.op_type == "Clip":
        return slot == 0 and dtype is not None and _bounds_nothing(node, dtype)
    if len(node.inputs) < 2 or (slot and _NEUTRAL[node.op_type].is_second):
        return False
    if node.op_type == "Pow" and dtype not in FLOATS:  # a runtime computes that of integers in floats
        return False
    return all(_is_neutral(node.op_type, other) for place, other in enumerate(node.inputs) if place != slot)


def _is_neutral(op_type: str, value: ir.Value | None) -> bool:
    held = _stored(value)
    if held is None:
        return False
    floats = op_type == "Pow" and held.dtype in INTEGERS
    wanted = np.array(1, RAW_TYPES[held.dtype]) if floats else element(op_type, held.dtype)
    return wanted is not None and held.numpy().tobytes() == wanted.tobytes() * held.size


def _bounds_nothing(node: ir.Node, dtype: int) -> bool:
    """Whether the bounds of a Clip are the ends of its type; a float has to be allowed to be infinite."""
    for slot, op_type in ((1, "Max"), (2, "Min")):
        value = node.input(slot)
        if value is None and dtype in INTEGERS and node.attr(("min", "max")[slot - 1]) is None:
            continue
        if value is None or not _is_neutral(op_type, value):
            return False
    return True


def _stored(value: ir.Value | None) -> ir.Tensor | None:
    if value is None or value.tensor_proto is None or value.stored_bytes > _MOST_BYTES:
        return None
    held = analysis.constant(value)
    return held if held is not None and held.dtype in RAW_TYPES else None
