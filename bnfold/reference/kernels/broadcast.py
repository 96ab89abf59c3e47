"""Elementwise operators of several operands.

From version 7 on (8 for Sum and its like) shapes broadcast as in numpy, before by ``broadcast`` and ``axis``.
"""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from bnfold.reference.registry import Array, Call, Result, kernel, require

Binary = Callable[[Array, Array], Result]


def legacy_operand(call: Call, a: Array, b: Array) -> Array:
    """``b`` shaped to broadcast onto ``a`` as versions 1 and 6 prescribe.

    Without ``broadcast`` the shapes are equal. With it, b has one element, or its shape is a run of a's dims: the run
    that starts at ``axis``, or a's last ones. Dims of 1 inside the run are accepted, as runtimes do.
    """
    if a.shape == b.shape:
        return b
    require(call.attr("broadcast", 0), f"shapes {a.shape} and {b.shape} differ and broadcast is not set")
    if b.size == 1:
        return b.reshape((1,) * a.ndim)
    axis = call.attr("axis") if call.has("axis") else a.ndim - b.ndim
    start = axis + a.ndim if axis < 0 else axis
    run = a.shape[start : start + b.ndim]
    fits = start >= 0 and len(run) == b.ndim and all(m in (1, n) for m, n in zip(b.shape, run, strict=True))
    require(fits, f"shape {b.shape} is no run of {a.shape} from axis {start}")
    return b.reshape(*b.shape, *(1,) * (a.ndim - start - b.ndim))


def _binary(op: str, legacy: tuple[int, ...], modern: tuple[int, ...], function: Binary) -> None:
    """Register ``function`` for versions with limited broadcasting and for those with numpy's."""

    def limited(call: Call, a: Array, b: Array) -> Result:
        return function(a, legacy_operand(call, a, b))

    def free(call: Call, a: Array, b: Array) -> Result:
        # Files written by early exporters carry the old attributes at later opsets, and meant them.
        if call.attr("broadcast", 0) and call.has("axis"):
            return function(a, legacy_operand(call, a, b))
        return function(a, b)

    kernel(op, *legacy)(limited)
    kernel(op, *modern)(free)


def spread_onto(x: Array, parameter: Array) -> Array:
    """The parameter, which must broadcast onto ``x`` without stretching it."""
    fits = np.broadcast_shapes(parameter.shape, x.shape) == x.shape
    require(fits, f"a parameter of shape {parameter.shape} would stretch the value of shape {x.shape}")
    return parameter


def divide(a: Array, b: Array) -> Array:
    """Division; of integers, truncating towards zero as C does."""
    if np.issubdtype(a.dtype, np.inexact):
        return np.asarray(a / b)
    quotient = a // b
    if np.issubdtype(a.dtype, np.unsignedinteger):
        return np.asarray(quotient)
    return np.asarray(quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype))


def power(a: Array, b: Array) -> Array:
    """A to the b in a's type: an integer base with a fractional or negative exponent is rounded towards zero."""
    if np.issubdtype(a.dtype, np.inexact):
        return np.asarray(np.power(a, b.astype(a.dtype, copy=False)))
    if np.issubdtype(b.dtype, np.integer) and (b >= 0).all():
        return np.asarray(np.power(a, b.astype(a.dtype)))
    return np.power(a.astype(np.float64), b).astype(a.dtype)


_binary("Add", (1, 6), (7, 13, 14), np.add)
_binary("Sub", (1, 6), (7, 13, 14), np.subtract)
_binary("Mul", (1, 6), (7, 13, 14), np.multiply)
_binary("Div", (1, 6), (7, 13, 14), divide)
_binary("Pow", (1,), (7, 12, 13, 15), power)
_binary("And", (1,), (7,), np.logical_and)
_binary("Or", (1,), (7,), np.logical_or)
_binary("Xor", (1,), (7,), np.logical_xor)
_binary("Greater", (1,), (7, 9, 13), np.greater)
_binary("Less", (1,), (7, 9, 13), np.less)
_binary("Equal", (1,), (7, 11, 13, 19), np.equal)
_binary("GreaterOrEqual", (), (12, 16), np.greater_equal)
_binary("LessOrEqual", (), (12, 16), np.less_equal)
_binary("BitwiseAnd", (), (18,), np.bitwise_and)
_binary("BitwiseOr", (), (18,), np.bitwise_or)
_binary("BitwiseXor", (), (18,), np.bitwise_xor)


@kernel("Mod", 10, 13)
@kernel("Mod", 28)
def modulo(call: Call, a: Array, b: Array) -> Result:
    """Remainder with the sign of the divisor, or of the dividend under ``fmod``, which floats need before 28."""
    if call.attr("fmod"):
        return np.fmod(a, b)
    require(call.version >= 28 or not np.issubdtype(a.dtype, np.inexact), "floats need fmod = 1")
    return np.mod(a, b)


@kernel("BitShift", 11, 28)
def bit_shift(call: Call, a: Array, b: Array) -> Result:
    """Shift left or right; shifting everything out leaves 0, or −1 of a negative number shifted to the right."""
    bits = a.dtype.itemsize * 8
    within = (b >= 0) & (b < bits)
    amount = np.where(within, b, 0).astype(a.dtype)
    if call.attr("direction") == "LEFT":
        return np.where(within, np.left_shift(a, amount), 0).astype(a.dtype)
    return np.where(within, np.right_shift(a, amount), np.where(a < 0, -1, 0)).astype(a.dtype)


@kernel("Where", 9, 16)
def where(call: Call, condition: Array, a: Array, b: Array) -> Result:
    """numpy.where."""
    return np.where(condition, a, b)


def _variadic(op: str, function: Binary) -> None:
    """Register Sum and its like: equal shapes at versions 1 and 6, numpy broadcasting from 8 on."""

    def fold(call: Call, *operands: Array) -> Result:
        shapes = {operand.shape for operand in operands}
        require(call.version >= 8 or len(shapes) == 1, f"operands differ in shape: {sorted(shapes)}")
        total = reduce(function, operands)
        return total / len(operands) if op == "Mean" else total

    kernel(op, 1, 6)(fold)
    kernel(op, 8, *(() if op in ("Sum", "Mean") else (12,)), 13)(fold)


_variadic("Sum", np.add)
_variadic("Mean", np.add)
_variadic("Max", np.maximum)
_variadic("Min", np.minimum)


@kernel("PRelu", 1, 6)
@kernel("PRelu", 7, 9, 16)
def prelu(call: Call, x: Array, slope: Array) -> Result:
    """x, or slope · x below zero. Up to version 6 the slope is one a channel, or a single one."""
    if call.version <= 6 and slope.size != 1:
        require(slope.size == x.shape[1], f"{slope.size} slopes for {x.shape[1]} channels")
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    elif call.version <= 6:
        slope = slope.reshape((1,) * x.ndim)
    return np.where(x < 0, spread_onto(x, slope) * x, x)
