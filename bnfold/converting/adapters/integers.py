"""Operators that took numbers of fewer types in older versions. Integers are never sent through floats."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters import places
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto
_FLOATS = (TP.FLOAT16, TP.FLOAT, TP.DOUBLE)
_IN_DOUBLE = (*_FLOATS, TP.INT8, TP.INT16, TP.INT32, TP.UINT8, TP.UINT16, TP.UINT32)
_COMPARED = (TP.INT8, TP.INT16, TP.INT32, TP.INT64, TP.UINT8, TP.UINT16, TP.UINT32, TP.UINT64)


def extreme(comparison: str, conversion: NodeConversion) -> None:
    """Convert Max, Min 12 → 8: of integers by comparing two at a time."""
    values = [value for value in conversion.node.inputs if value is not None]
    if not _is_integer(conversion, values[0]):
        return
    if len(values) == 1:
        conversion.become("Identity", values)
        return
    best = values[0]
    for value in values[1:-1]:
        best = _chosen(conversion, comparison, best, value)
    is_first = conversion.add(comparison, [best, values[-1]], "is_first")
    conversion.become("Where", [is_first, best, values[-1]])


down("Max", 12, by_form=True)(partial(extreme, "Greater"))
down("Min", 12, by_form=True)(partial(extreme, "Less"))


@down("Clip", 12, by_form=True)
def clip(conversion: NodeConversion) -> None:
    """Convert Clip 12 → 11: of integers by comparing with each bound, the lower one first."""
    data, low, high = conversion.input(0), conversion.node.input(1), conversion.node.input(2)
    if not _is_integer(conversion, data):
        return
    if high is None and low is None:
        conversion.become("Identity", [data])
        return
    if high is None or low is None:
        bound, comparison = (low, "Greater") if high is None else (high, "Less")
        assert bound is not None
        conversion.become("Where", [conversion.add(comparison, [data, bound], "is_inside"), data, bound])
        return
    raised = _chosen(conversion, "Greater", data, low)
    conversion.become("Where", [conversion.add("Less", [raised, high], "is_inside"), raised, high])


_NARROW = (TP.INT8, TP.INT16, TP.UINT8, TP.UINT16)


@down("Add Div Mul Sub", 14, by_form=True)
def narrow(conversion: NodeConversion) -> None:
    """Convert Add, Sub, Mul, Div 14 → 7: small integers go through int64, whose low bits are theirs."""
    if (kind := conversion.dtype(conversion.input(0))) in _NARROW:
        operands = [conversion.input(index) for index in (0, 1)]
        wide = [conversion.add("Cast", [value], "wide", to=TP.INT64) for value in operands]
        conversion.become("Cast", [conversion.add(conversion.node.op_type, wide, "result")], to=kind)


@down("Pow", 12)
def power(conversion: NodeConversion) -> None:
    """Convert Pow 12 → 7: an exponent of another type becomes one of the base's, if that holds it exactly.

    A computed one of at most 32 bits goes through float64, with its base.
    """
    base, exponent = conversion.input(0), conversion.input(1)
    kind = conversion.dtype(base)
    if conversion.dtype(exponent) == kind:
        return
    tensor = conversion.known(exponent)
    if tensor is None and kind in _FLOATS and conversion.dtype(exponent) in _IN_DOUBLE:
        operands = [conversion.add("Cast", [value], "double", to=TP.DOUBLE) for value in (base, exponent)]
        conversion.become("Cast", [conversion.add("Pow", operands, "power")], to=kind)
        return
    if kind not in _FLOATS or tensor is None:
        raise Inexpressible("has an exponent of another type, which is no constant, or an integer base")
    array = tensor.numpy()
    cast = array.astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    if not (cast.astype(np.float64) == array.astype(np.float64)).all():
        raise Inexpressible("has an exponent that its base's type does not hold exactly")
    conversion.node.set_input(1, conversion.constant(cast, "exponent"))
    conversion.touched = True


@down("BitwiseNot", 18)
def complement(conversion: NodeConversion) -> None:
    """Decompose BitwiseNot: ``-1 - x``, or the largest number less ``x`` for unsigned ones."""
    data = conversion.input(0)
    info = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(conversion.dtype(data)))
    ones = np.array(-1 if info.min else info.max, info.dtype)
    conversion.become("Sub", [conversion.constant(ones, "ones"), data])


_SIGNED = (TP.INT8, TP.INT16, TP.INT32, TP.INT64)


@down("Mod", 10)
def modulo(conversion: NodeConversion) -> None:
    """Decompose Mod of integers: ``x - x / y * y``, brought to the sign of ``y``, or with ``fmod`` to that of ``x``.

    A division that rounds towards zero and one that rounds down come to the same.
    """
    left, right, is_fmod = conversion.input(0), conversion.input(1), bool(conversion.take("fmod", 0))
    if (kind := conversion.dtype(left)) not in _COMPARED:
        raise Inexpressible("is a remainder of floats, which their division rounds")
    times = conversion.add("Mul", [conversion.add("Div", [left, right], "quotient"), right], "multiple")
    if kind not in _SIGNED:
        conversion.become("Sub", [left, times])
        return
    rest = conversion.add("Sub", [left, times], "rest")
    zero = conversion.scalar(0, left, "zero")
    signs = [conversion.add("Less", [value, zero], "sign") for value in (rest, left if is_fmod else right)]
    is_other = conversion.add("Xor", signs, "is_other_sign")
    is_zero = conversion.add("Equal", [rest, zero], "is_zero")
    is_off = conversion.add("And", [is_other, conversion.add("Not", [is_zero], "is_rest")], "is_off")
    moved = conversion.add("Sub" if is_fmod else "Add", [rest, right], "moved")
    conversion.become("Where", [is_off, moved, rest])


@down("Mod", 28)
def floored(conversion: NodeConversion) -> None:
    """Convert Mod 28 → 13, which takes floats only with ``fmod``: a rest of the wrong sign is moved by the divisor."""
    left, right = conversion.input(0), conversion.input(1)
    if conversion.dtype(left) not in (*_FLOATS, TP.BFLOAT16) or conversion.node.attr("fmod", 0):
        return
    zero, rest = conversion.scalar(0, left, "zero"), conversion.add("Mod", [left, right], "rest", fmod=1)
    pairs = [
        [conversion.add(first, [rest, zero], "sign"), conversion.add(second, [right, zero], "sign")]
        for first, second in (("Less", "Greater"), ("Greater", "Less"))
    ]
    is_off = conversion.add("Or", [conversion.add("And", pair, "is_other_sign") for pair in pairs], "is_off")
    conversion.become("Where", [is_off, conversion.add("Add", [rest, right], "moved"), rest])


@down("Range", 11)
def sequence(conversion: NodeConversion) -> None:
    """Decompose Range with a constant step: the places of so many ones, or numbers that follow from them.

    Of floats only with whole numbers, which are sums of each other without rounding.
    """
    start, limit, step = (conversion.input(index) for index in range(3))
    kind, given = conversion.dtype(start), [conversion.known(value) for value in (start, limit, step)]
    first, end, by = (None if tensor is None else tensor.numpy().reshape(-1)[0].item() for tensor in given)
    if kind not in (TP.INT32, TP.INT64, *_FLOATS):
        raise Inexpressible("is a range of small integers")
    if kind in _FLOATS and not (_is_whole(first) and _is_whole(by)):
        raise Inexpressible("is a range of floats from no constant whole number, or in other steps than such")
    if not by:
        raise Inexpressible("has a step that is not constant, or 0")
    if first is not None and end is not None and np.isfinite(end):
        stored = np.arange(first, end, by).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        conversion.become("Identity", [conversion.constant(stored, "range")])
    elif kind in _FLOATS or by != 1:
        _in_steps(conversion, first, by)
    else:
        last = _as_row(conversion, limit, kind)
        is_zero = first == 0 and places.is_never_negative(last)
        row = places.between(conversion, _as_row(conversion, start, kind), last, from_zero=is_zero)
        conversion.become("Cast", [row], to=kind)


def _is_whole(number: float | None) -> bool:
    return number is not None and abs(number) < _LARGEST_WHOLE and number == int(number)


_LARGEST_WHOLE = 2048
"""From here on, float16 has no place for every whole number."""


def _in_steps(conversion: NodeConversion, first: float | None, by: float) -> None:
    """Count the numbers between start and limit, and make each from its place."""
    start, limit, step = (conversion.input(index) for index in range(3))
    kind = conversion.dtype(start)
    distance = conversion.add("Sub", [limit, start], "distance")
    if kind in _FLOATS:
        count = conversion.add("Ceil", [conversion.add("Div", [distance, step], "steps")], "count")
    else:
        rest = conversion.scalar(by - 1 if by > 0 else by + 1, start, "rest")
        count = conversion.add("Div", [conversion.add("Add", [distance, rest], "raised"), step], "count")
    zero = conversion.ints([0], "zero")
    row = places.between(conversion, zero, _as_row(conversion, count, kind))
    if kind != TP.INT64:
        row = conversion.add("Cast", [row], "numbers", to=kind)
    if by != 1:
        row = conversion.add("Mul", [row, step], "multiples")
    if first == 0:
        conversion.become("Identity", [row])
    else:
        conversion.become("Add", [row, start])


def _as_row(conversion: NodeConversion, value: ir.Value, kind: int) -> ir.Value:
    """Return a scalar as one element of int64."""
    if kind != TP.INT64:
        value = conversion.add("Cast", [value], "int64", to=TP.INT64)
    return conversion.reshape(value, [1], "row")


@down("Equal", 11)
def equal(conversion: NodeConversion) -> None:
    """Convert Equal 11 → 7, which compares integers and truths: neither less nor greater, and no NaN."""
    left, right = conversion.input(0), conversion.input(1)
    kind = conversion.dtype(left)
    if kind in (TP.BOOL, TP.INT32, TP.INT64):
        return
    comparisons = [conversion.add(op_type, [left, right], op_type.lower()) for op_type in ("Less", "Greater")]
    differs = conversion.add("Or", comparisons, "differs")
    for value in (left, right) if kind in _FLOATS else ():
        differs = conversion.add("Or", [differs, conversion.add("IsNaN", [value], "is_nan")], "differs")
    conversion.become("Not", [differs])


@down("IsNaN", 9)
def not_a_number(conversion: NodeConversion) -> None:
    """Decompose IsNaN: neither below 1 nor above 0."""
    value = conversion.input(0)
    bounds = [conversion.scalar(bound, value, "bound") for bound in (1, 0)]
    sides = zip(("Less", "Greater"), bounds, strict=True)
    comparisons = [conversion.add(op, [value, bound], op.lower()) for op, bound in sides]
    conversion.become("Not", [conversion.add("Or", comparisons, "is_number")])


def _is_integer(conversion: NodeConversion, value: ir.Value) -> bool:
    return conversion.dtype(value) in _COMPARED


def _chosen(conversion: NodeConversion, comparison: str, first: ir.Value, second: ir.Value) -> ir.Value:
    is_first = conversion.add(comparison, [first, second], "is_first")
    return conversion.add("Where", [is_first, first, second], "chosen")
