"""Bits of integers where no operator reads them: they are found by division, along an axis of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto


@down("BitwiseAnd", 18)
def common_bits(conversion: NodeConversion) -> None:
    """Decompose BitwiseAnd."""
    _in_integers(conversion, _common(conversion, *_operands(conversion)))


@down("BitwiseOr", 18)
def united_bits(conversion: NodeConversion) -> None:
    """Decompose BitwiseOr: ``a + b - (a & b)``."""
    operands = _operands(conversion)
    total = conversion.add("Add", operands, "total")
    _in_integers(conversion, conversion.add("Sub", [total, _common(conversion, *operands)], "united"))


@down("BitwiseXor", 18)
def different_bits(conversion: NodeConversion) -> None:
    """Decompose BitwiseXor: ``a + b - 2·(a & b)``."""
    operands = _operands(conversion)
    total, common = conversion.add("Add", operands, "total"), _common(conversion, *operands)
    twice = conversion.add("Add", [common, common], "twice")
    _in_integers(conversion, conversion.add("Sub", [total, twice], "different"))


@down("BitShift", 28, by_form=True)
def moved_signed_bits(conversion: NodeConversion) -> None:
    """Convert BitShift 28 → 11, which has no signs."""
    if numeric_type(conversion.dtype(conversion.input(0))).kind == "i":
        moved_bits(conversion)


@down("BitShift", 11)
def moved_bits(conversion: NodeConversion) -> None:
    """Decompose BitShift: times a power of 2, or divided by it.

    What is shifted out on the left is lost. On the right, a negative number is shifted as its complement.
    """
    data, kind = conversion.input(0), conversion.dtype(conversion.input(0))
    is_signed = numeric_type(kind).kind == "i"
    goes_left, wide = conversion.take("direction", "") == "LEFT", TP.INT64 if is_signed else TP.UINT64
    value = conversion.add("Cast", [data], "wide", to=wide)
    if goes_left or not is_signed:
        conversion.become("Cast", [_moved(conversion, value, wide, goes_left=goes_left)], to=kind)
        return
    is_negative = conversion.add("Less", [value, conversion.constant(np.array(0, np.int64), "zero")], "is_negative")
    moved = _moved(conversion, _positive(conversion, is_negative, value), wide, goes_left=False)
    conversion.become("Cast", [_positive(conversion, is_negative, moved)], to=kind)


def _positive(conversion: NodeConversion, is_negative: ir.Value, value: ir.Value) -> ir.Value:
    """Return the complement of what is negative; of that, it is the number again."""
    ones = conversion.constant(np.array(-1, np.int64), "ones")
    return conversion.add("Where", [is_negative, conversion.add("Sub", [ones, value], "complement"), value], "positive")


def _moved(conversion: NodeConversion, value: ir.Value, wide: int, *, goes_left: bool) -> ir.Value:
    """Return shifted numbers; those that are shifted by less than nothing, or by all bits, are 0."""
    kind = numeric_type(conversion.dtype(conversion.input(0)))
    count = 8 * kind.itemsize - (kind.kind == "i" and not goes_left)
    powers = (np.uint64(1) << np.arange(count, dtype=np.uint64)).astype(numeric_type(wide))
    zero, end = (conversion.constant(np.array(number, np.int64), "bound") for number in (0, count))
    places = conversion.add("Cast", [conversion.input(1)], "places", to=TP.INT64)
    is_negative = conversion.add("Less", [places, zero], "is_negative")
    is_far = conversion.add("Not", [conversion.add("Less", [places, end], "is_near")], "is_far")
    is_out = conversion.add("Or", [is_negative, is_far], "is_out")
    inside = conversion.add("Where", [is_out, zero, places], "inside")
    power = conversion.add("Gather", [conversion.constant(powers, "powers"), inside], "power", axis=0)
    moved = conversion.add("Mul" if goes_left else "Div", [value, power], "moved")
    stays = conversion.add("Cast", [conversion.add("Not", [is_out], "is_in")], "stays", to=wide)
    return conversion.add("Mul", [moved, stays], "shifted")


def _operands(conversion: NodeConversion) -> tuple[ir.Value, ir.Value]:
    """Return both operands as int64, which has the bits of every other type."""
    first, second = (
        value if conversion.dtype(value) == TP.INT64 else conversion.add("Cast", [value], "wide", to=TP.INT64)
        for value in (conversion.input(0), conversion.input(1))
    )
    return first, second


def _in_integers(conversion: NodeConversion, value: ir.Value) -> None:
    """Let the node make ``value`` in the type of its operands."""
    conversion.become("Cast", [value], to=conversion.dtype(conversion.input(0)))


def _common(conversion: NodeConversion, first: ir.Value, second: ir.Value) -> ir.Value:
    """Return ``first & second``; the sign is a bit apart."""
    kind = numeric_type(conversion.dtype(conversion.input(0)))
    count = min(8 * kind.itemsize - (kind.kind == "i"), 63)
    zero = conversion.constant(np.array(0, np.int64), "zero")
    sign = conversion.constant(np.array(1 << count, np.uint64).astype(np.int64), "sign")
    are_negative, columns = [], []
    for operand, value in ((first, conversion.input(0)), (second, conversion.input(1))):
        is_negative = conversion.add("Less", [operand, zero], "is_negative")
        rest = conversion.add("Add", [operand, conversion.add("Where", [is_negative, sign, zero], "sign")], "rest")
        columns.append(conversion.along("Unsqueeze", rest, [conversion.rank(value)], "column"))
        are_negative.append(is_negative)
    is_negative = conversion.add("And", are_negative, "is_negative")
    negated = conversion.add("Where", [is_negative, sign, zero], "sign")
    total = _in_places(conversion, columns, range(min(count, _SUMMED)))
    if count > _SUMMED:
        high = _in_places(conversion, columns, range(_SUMMED, count))
        shift = conversion.constant(np.array(1 << _SUMMED, np.int64), "shift")
        total = conversion.add("Add", [total, conversion.add("Mul", [high, shift], "high")], "total")
    return conversion.add("Sub", [total, negated], "common")


_SUMMED = 32
"""Bits that are added up at once: onnxruntime adds int64 up in float64."""


def _in_places(conversion: NodeConversion, columns: Sequence[ir.Value], places: range) -> ir.Value:
    """Return the bits that are set in both columns at ``places``, as a number."""
    divisors = conversion.constant(np.int64(1) << np.array(places, np.int64), "divisors")
    two = conversion.constant(np.array(2, np.int64), "two")
    bits = []
    for column in columns:
        shifted = conversion.add("Div", [column, divisors], "shifted")
        even = conversion.add("Mul", [conversion.add("Div", [shifted, two], "half"), two], "even")
        bits.append(conversion.add("Sub", [shifted, even], "bits"))
    powers = conversion.constant(np.int64(1) << np.arange(len(places), dtype=np.int64), "powers")
    weighted = conversion.add("Mul", [conversion.add("Mul", bits, "common"), powers], "weighted")
    rank = max(conversion.rank(conversion.input(index)) for index in (0, 1))
    return conversion.along("ReduceSum", weighted, [rank], "total", keepdims=0)
