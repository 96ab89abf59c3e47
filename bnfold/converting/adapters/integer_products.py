"""ConvInteger and MatMulInteger below opset 10: in float32, if that holds every sum exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto
_EXACT = 1 << 24
"""Integers up to this are numbers of float32, and so is every sum of some of them that stays below."""


Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@down("ConvInteger", 10)
def convolution(conversion: NodeConversion) -> None:
    """Write ConvInteger as Conv."""
    _write(conversion, "Conv", centred_window(conversion, (0, 1, 2, 3)))


@down("MatMulInteger", 10)
def product(conversion: NodeConversion) -> None:
    """Write MatMulInteger as MatMul."""
    _write(conversion, "MatMul", centred_matrices(conversion, (0, 1, 2, 3)))


QuantizedSlots: TypeAlias = tuple[int, int, int, int]
"""The inputs that are two operands and their zero points."""


def centred_window(conversion: NodeConversion, slots: QuantizedSlots, bias: Numbers | None = None) -> list[ir.Value]:
    """Return data and weight of a convolution in float32, less their zero points: what is padded is 0 behind them.

    Raises Inexpressible if float32 may not hold a sum, to which a ``bias`` of each channel is added.
    """
    data, weight = conversion.input(slots[0]), conversion.input(slots[1])
    rank, shape = conversion.rank(weight), conversion.shape(weight)
    left, most_left = _centred(conversion, data, slots[2], (), "data")
    right, most_right = _centred(conversion, weight, slots[3], (-1, *[1] * (rank - 1)), "weight")
    _check(most_left, most_right, None if shape is None else shape[1:], tuple(range(1, rank)), bias)
    return [left, right]


def centred_matrices(conversion: NodeConversion, slots: QuantizedSlots) -> list[ir.Value]:
    """Return both operands of a product, less zero points of rows of the first and of columns of the second."""
    first, second = conversion.input(slots[0]), conversion.input(slots[1])
    shapes = [conversion.shape(value) for value in (first, second)]
    left, most_left = _centred(conversion, first, slots[2], (-1, 1), "first")
    right, most_right = _centred(conversion, second, slots[3], (), "second")
    ends = [
        shape[place] for shape, place in zip(shapes, (-1, -2 if len(shapes[1] or ()) > 1 else -1), strict=True) if shape
    ]
    length = next((size for size in ends if isinstance(size, int) and size), None)
    axes = (-2,) if len(shapes[1] or ()) > 1 else (-1,)
    _check(most_left, most_right, (length,), axes)
    return [left, right]


def sums(conversion: NodeConversion, op_type: str, operands: Sequence[ir.Value]) -> ir.Value:
    """Add what sums the products, with the attributes of the node."""
    attrs = {name: conversion.node.attr(name) for name in conversion.node.attrs}
    return conversion.add(op_type, operands, "sums", **attrs)


def _write(conversion: NodeConversion, op_type: str, operands: Sequence[ir.Value]) -> None:
    summed = sums(conversion, op_type, operands)
    conversion.become("Cast", [summed], to=TP.INT32)


def _centred(
    conversion: NodeConversion, value: ir.Value, slot: int, dims: tuple[int, ...], hint: str
) -> tuple[ir.Value, Numbers]:
    """Return an operand less its zero point, in float32, and how large its numbers are at most: one, or of each."""
    kind, zero = conversion.dtype(value), conversion.node.input(slot)
    limits = np.iinfo(numeric_type(kind))
    held, zeros = conversion.known(value), conversion.known(zero)
    if zero is not None and conversion.rank(zero) > 1:
        raise Inexpressible(f"has a zero point {zero.name!r} of {conversion.rank(zero)} axes")
    spread = dims if dims and zero is not None and conversion.shape(zero) not in ((), (1,)) else ()
    if held is not None and (zero is None or zeros is not None):
        shift = np.zeros((), np.float32) if zeros is None else zeros.numpy().astype(np.float32)
        centred = held.numpy().astype(np.float32) - (shift.reshape(spread) if spread else _single(shift))
        conversion.context.retyped.append(value)
        return conversion.constant(centred, hint), np.abs(centred.astype(np.float64))
    number = conversion.add("Cast", [value], hint, to=TP.FLOAT)
    most = max(abs(int(limits.min)), int(limits.max))
    if zero is None:
        return number, np.array(float(most))
    shift_value = conversion.add("Cast", [zero], f"{hint}_zero_point", to=TP.FLOAT)
    if spread:
        shift_value = conversion.reshape(shift_value, spread, f"{hint}_zero_points")
    most = int(limits.max) - int(limits.min)
    if zeros is not None:
        numbers = zeros.numpy().astype(np.int64)
        most = int(max((numbers - limits.min).max(), (limits.max - numbers).max()))
    return conversion.add("Sub", [number, shift_value], f"{hint}_centred"), np.array(float(most))


def _single(
    shift: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return shift.reshape(()) if shift.size == 1 else shift


def _check(
    left: Numbers,
    right: Numbers,
    summed: tuple[int | str | None, ...] | None,
    axes: tuple[int, ...],
    added: Numbers | None = None,
) -> None:
    """Raise Inexpressible where a sum of products may be more than float32 holds."""
    sizes = [size for size in summed or () if isinstance(size, int) and size]
    if right.ndim:
        most = float((float(left.max()) * right.sum(axis=axes) + (0 if added is None else added)).max(initial=0))
    elif summed is not None and len(sizes) == len(summed):
        most = float(left.max()) * float(right) * math.prod(sizes) + (0 if added is None else float(added.max()))
    else:
        raise Inexpressible("sums a number of products that is not known, and float32 may not hold it")
    if most > _EXACT:
        raise Inexpressible(f"has sums of up to {most:.0f}, more than float32 holds exactly (2^24)")
