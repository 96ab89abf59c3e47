"""What operators make of integers of which some are open sizes: the arithmetic of shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from bnfold import ir
from bnfold.ir.evaluators import INTEGERS
from bnfold.ir.tensor import TP
from bnfold.ir.value import Dim

MOST = 64
"""Elements of a value whose numbers are followed: shapes, axes, pads."""


class Integers(NamedTuple):
    """Integers of a scalar (``is_scalar``) or of a vector, and their element type; a truth is 0 or 1."""

    items: tuple[Dim, ...]
    is_scalar: bool
    dtype: int

    @property
    def numbers(self) -> list[int] | None:
        """The numbers; None where one of them is not known."""
        found = [item for item in self.items if isinstance(item, int)]
        return found if len(found) == len(self.items) else None

    def with_items(self, items: Sequence[Dim], *, is_scalar: bool = False) -> Integers:
        """Return other items of this type."""
        return Integers(tuple(items), is_scalar, self.dtype)


class Answers(Protocol):
    """What rules ask about operands; `known.Known` answers."""

    def dims(self, value: ir.Value | None) -> tuple[Dim, ...] | None:
        """Return the dims of a value."""

    def dtype(self, value: ir.Value | None) -> int | None:
        """Return the element type of a value."""

    def integers(self, value: ir.Value | None) -> Integers | None:
        """Return the integers of a small value."""

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """Return the integers of a small value, where each is a number."""


def _operand(node: ir.Node, known: Answers, index: int) -> Integers:
    found = known.integers(node.input(index))
    if found is None:
        raise ValueError("not known")
    return found


def _told(node: ir.Node, known: Answers, index: int) -> list[int]:
    found = known.numbers(node.input(index))
    if found is None:
        raise ValueError("not known")
    return found


def _shape(node: ir.Node, known: Answers) -> Integers:
    dims = known.dims(node.input(0))
    if dims is None:
        raise ValueError("rank not known")
    return Integers(dims[slice(node.attr("start", 0), node.attr("end"))], False, TP.INT64)


def _size(node: ir.Node, known: Answers) -> Integers:
    dims = known.dims(node.input(0))
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        raise ValueError("size not known")
    return Integers((int(np.prod(dims, dtype=np.int64)),), True, TP.INT64)  # type: ignore[arg-type] # all are numbers


def _same(node: ir.Node, known: Answers) -> Integers:
    return _operand(node, known, 0)


def _cast(node: ir.Node, known: Answers) -> Integers:
    """Cast; sizes are small enough for 32 bits, or nothing of them could be held in memory."""
    source, to = _operand(node, known, 0), node.attr("to")
    if to not in (TP.INT32, TP.INT64) or source.dtype not in (TP.INT32, TP.INT64, TP.BOOL):
        raise ValueError("no integers")
    most = 1 << 31
    if to == TP.INT32 and any(isinstance(item, int) and not -most <= item < most for item in source.items):
        raise ValueError("cut off")
    return Integers(source.items, source.is_scalar, to)


def _gather(node: ir.Node, known: Answers) -> Integers:
    source, places = _operand(node, known, 0), _operand(node, known, 1)
    if source.is_scalar or node.attr("axis", 0) not in (0, -1):
        raise ValueError("no such axis")
    chosen = [source.items[place] for place in _told(node, known, 1)]
    return source.with_items(chosen, is_scalar=places.is_scalar)


def _concat(node: ir.Node, known: Answers) -> Integers:
    parts = [_operand_or_open(node, known, index) for index in range(len(node.inputs))]
    if any(part.is_scalar for part in parts) or len({part.dtype for part in parts}) != 1:
        raise ValueError("no vectors of one type")
    return parts[0].with_items([item for part in parts for item in part.items])


def _operand_or_open(node: ir.Node, known: Answers, index: int) -> Integers:
    """Return integers of which at least the number is known: the other parts may be."""
    value = node.input(index)
    found, dims, dtype = known.integers(value), known.dims(value), known.dtype(value)
    if found is not None:
        return found
    if dims is None or len(dims) != 1 or not isinstance(dims[0], int) or dims[0] > MOST or dtype not in INTEGERS:
        raise ValueError("not known")
    return Integers((None,) * dims[0], False, dtype)


def _reshaped(node: ir.Node, known: Answers) -> Integers:
    """Return the same items as a vector or a scalar, as inference tells."""
    source, dims = _operand(node, known, 0), known.dims(node.output(0))
    if dims is None:
        dims = _rank_of_one(node, known)
    if len(dims) > 1:
        raise ValueError("no vector")
    return source.with_items(source.items, is_scalar=not dims)


def _rank_of_one(node: ir.Node, known: Answers) -> tuple[Dim, ...]:
    """Return the dims of a scalar that becomes a vector of one, or the other way round."""
    source = _operand(node, known, 0)
    if node.op_type == "Unsqueeze" and source.is_scalar:
        return (1,)
    if node.op_type == "Squeeze" and len(source.items) == 1:
        return ()
    raise ValueError("rank not known")


def _slice(node: ir.Node, known: Answers) -> Integers:
    source = _operand(node, known, 0)
    (start,), (end,) = _told(node, known, 1), _told(node, known, 2)
    (axis,) = _told(node, known, 3) if node.input(3) is not None else (0,)
    (step,) = _told(node, known, 4) if node.input(4) is not None else (1,)
    if source.is_scalar or axis not in (0, -1) or step != 1 or node.graph.opset() < 10:
        raise ValueError("not followed")
    return source.with_items(source.items[start:end])  # clamped as Python clamps


def _arithmetic(function: Callable[[int, int], int], neutral: int | None, *, both: bool) -> Callable[..., Integers]:
    """Return the rule of an operator of two operands; what is ``neutral`` beside an open size leaves it."""

    def item(one: Dim, other: Dim) -> Dim:
        if isinstance(one, int) and isinstance(other, int):
            result = function(one, other)
            return result if abs(result) < 1 << 31 else None
        if neutral is not None and other == neutral and isinstance(other, int):
            return one
        return other if both and neutral is not None and one == neutral and isinstance(one, int) else None

    def compute(node: ir.Node, known: Answers) -> Integers:
        one, other = _operand(node, known, 0), _operand(node, known, 1)
        if node.graph.opset() < 7 or one.dtype not in (TP.INT32, TP.INT64):
            raise ValueError("not followed")
        return one.with_items(
            [item(*pair) for pair in _broadcast(one, other)], is_scalar=one.is_scalar and other.is_scalar
        )

    return compute


def _broadcast(*operands: Integers) -> list[tuple[Dim, ...]]:
    count = max((len(operand.items) for operand in operands if len(operand.items) != 1), default=1)
    if any(len(operand.items) not in (1, count) for operand in operands):
        raise ValueError("do not fit")
    return list(zip(*(operand.items * (count if len(operand.items) == 1 else 1) for operand in operands), strict=True))


def _quotient(one: int, other: int) -> int:
    """Return the quotient of numbers of which none is negative: others are rounded in several ways."""
    if one < 0 or other <= 0:
        raise ValueError("not followed")
    return one // other


def _equal(node: ir.Node, known: Answers) -> Integers:
    """Compare; an open size is no negative number."""
    one, other = _operand(node, known, 0), _operand(node, known, 1)
    items = [_are_equal(*pair) for pair in _broadcast(one, other)]
    return Integers(tuple(items), one.is_scalar and other.is_scalar, TP.BOOL)


def _are_equal(one: Dim, other: Dim) -> int | None:
    if one is None or other is None:
        return None
    if isinstance(one, int) == isinstance(other, int):
        return int(one == other) if isinstance(one, int) or one == other else None
    number = one if isinstance(one, int) else other
    return 0 if isinstance(number, int) and number < 0 else None


def _where(node: ir.Node, known: Answers) -> Integers:
    operands = [_operand(node, known, index) for index in range(3)]
    items = [
        yes if truth == 1 or (yes == no and yes is not None) else no if truth == 0 else None
        for truth, yes, no in _broadcast(*operands)
    ]
    return operands[1].with_items(items, is_scalar=all(operand.is_scalar for operand in operands))


def _filled(node: ir.Node, known: Answers) -> Integers:
    (count,), held = _told(node, known, 0), ir.constant(node.output(0))
    if count > MOST or held is None or held.dtype not in INTEGERS:
        raise ValueError("no integers")
    return Integers(tuple(int(item) for item in held.numpy()), False, held.dtype)


RULES: dict[str, Callable[[ir.Node, Answers], Integers]] = {
    "Shape": _shape,
    "Size": _size,
    "Identity": _same,
    "Cast": _cast,
    "Gather": _gather,
    "Concat": _concat,
    "Reshape": _reshaped,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    "Slice": _slice,
    "Add": _arithmetic(lambda one, other: one + other, 0, both=True),
    "Sub": _arithmetic(lambda one, other: one - other, 0, both=False),
    "Mul": _arithmetic(lambda one, other: one * other, 1, both=True),
    "Div": _arithmetic(_quotient, 1, both=False),
    "Equal": _equal,
    "Where": _where,
    "ConstantOfShape": _filled,
}
