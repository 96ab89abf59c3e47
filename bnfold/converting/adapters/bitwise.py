"""Bits of integers where no operator reads them: they are found by division, along an axis of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto


def common_bits(conversion: NodeConversion) -> None:
    """Decompose BitwiseAnd."""
    _in_integers(conversion, _common(conversion, *_operands(conversion)))


def united_bits(conversion: NodeConversion) -> None:
    """Decompose BitwiseOr: ``a + b - (a & b)``."""
    operands = _operands(conversion)
    total = conversion.add("Add", operands, "total")
    _in_integers(conversion, conversion.add("Sub", [total, _common(conversion, *operands)], "united"))


def different_bits(conversion: NodeConversion) -> None:
    """Decompose BitwiseXor: ``a + b - 2·(a & b)``."""
    operands = _operands(conversion)
    total, common = conversion.add("Add", operands, "total"), _common(conversion, *operands)
    twice = conversion.add("Add", [common, common], "twice")
    _in_integers(conversion, conversion.add("Sub", [total, twice], "different"))


def moved_bits(conversion: NodeConversion) -> None:
    """Decompose BitShift of unsigned integers: times a power of 2, or divided by it."""
    data, places, direction = conversion.input(0), conversion.input(1), conversion.take("direction", "")
    powers = conversion.constant(np.uint64(1) << np.arange(64, dtype=np.uint64), "powers")
    wide = conversion.add("Cast", [data], "wide", to=TP.UINT64)
    power = conversion.add("Gather", [powers, conversion.add("Cast", [places], "places", to=TP.INT64)], "power", axis=0)
    moved = conversion.add("Mul" if direction == "LEFT" else "Div", [wide, power], "moved")
    conversion.become("Cast", [moved], to=conversion.dtype(data))


def _operands(conversion: NodeConversion) -> tuple[ir.Value, ir.Value]:
    """Return both operands as int64, which has the bits of every other type."""
    if conversion.target < 9:
        raise Inexpressible("needs the Where of opset 9")
    first, second = (
        value if conversion.dtype(value) == TP.INT64 else conversion.add("Cast", [value], "wide", to=TP.INT64)
        for value in (conversion.input(0), conversion.input(1))
    )
    return first, second


def _in_integers(conversion: NodeConversion, value: ir.Value) -> None:
    """Let the node make ``value`` in the type of its operands."""
    conversion.become("Cast", [value], to=conversion.dtype(conversion.input(0)))


def _common(conversion: NodeConversion, first: ir.Value, second: ir.Value) -> ir.Value:
    """Return ``first & second``, of which the sign is a bit apart."""
    kind = numeric_type(conversion.dtype(conversion.input(0)))
    count = min(8 * kind.itemsize - (kind.kind == "i"), 63)
    zero = conversion.constant(np.array(0, np.int64), "zero")
    sign = conversion.constant(np.array(1 << count, np.uint64).astype(np.int64), "sign")
    are_negative, columns = [], []
    for operand, value in ((first, conversion.input(0)), (second, conversion.input(1))):
        is_negative = conversion.add("Less", [operand, zero], "is_negative")
        rest = conversion.add("Add", [operand, conversion.add("Where", [is_negative, sign, zero], "sign")], "rest")
        columns.append(conversion.along("Unsqueeze", 13, rest, [conversion.rank(value)], "column"))
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
    return conversion.along("ReduceSum", 13, weighted, [rank], "total", keepdims=0)
