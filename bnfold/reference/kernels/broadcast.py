"""Operators of several operands: elementwise, and the products Gemm, MatMul and Einsum, through BLAS.

From version 7 on (8 for Sum and its like) shapes broadcast as in numpy, before by ``broadcast`` and ``axis``.
"""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.registry import Call, KernelResult, kernel, require

Binary = Callable[[Array, Array], KernelResult]


def legacy_operand(call: Call, a: Array, b: Array) -> Array:
    """Compute ``b`` shaped to broadcast onto ``a`` as versions 1 and 6 prescribe.

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


def spread_onto(x: Array, parameter: Array) -> Array:
    """Return the parameter, which must broadcast onto ``x`` without stretching it."""
    fits = np.broadcast_shapes(parameter.shape, x.shape) == x.shape
    require(fits, f"a parameter of shape {parameter.shape} would stretch the value of shape {x.shape}")
    return parameter


def divide(a: Array, b: Array) -> Array:
    """Return division; of integers, truncating towards zero as C does."""
    if np.issubdtype(a.dtype, np.inexact):
        return np.asarray(a / b)
    quotient = a // b
    if np.issubdtype(a.dtype, np.unsignedinteger):
        return np.asarray(quotient)
    return np.asarray(quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype))


def power(a: Array, b: Array) -> Array:
    """Compute A to the b in a's type.

    An integer base with a fractional or negative exponent is rounded towards zero.
    """
    if np.issubdtype(a.dtype, np.inexact):
        return np.asarray(np.power(a, b.astype(a.dtype, copy=False)))
    if np.issubdtype(b.dtype, np.integer) and (b >= 0).all():
        return np.asarray(np.power(a, b.astype(a.dtype)))
    return np.power(a.astype(np.float64), b).astype(a.dtype)


_BINARY: dict[str, tuple[tuple[int, ...], tuple[int, ...], Binary]] = {
    "Add": ((1, 6), (7, 13, 14), np.add),
    "Sub": ((1, 6), (7, 13, 14), np.subtract),
    "Mul": ((1, 6), (7, 13, 14), np.multiply),
    "Div": ((1, 6), (7, 13, 14), divide),
    "Pow": ((1,), (7, 12, 13, 15), power),
    "And": ((1,), (7,), np.logical_and),
    "Or": ((1,), (7,), np.logical_or),
    "Xor": ((1,), (7,), np.logical_xor),
    "Greater": ((1,), (7, 9, 13), np.greater),
    "Less": ((1,), (7, 9, 13), np.less),
    "Equal": ((1,), (7, 11, 13, 19), np.equal),
    "GreaterOrEqual": ((), (12, 16), np.greater_equal),
    "LessOrEqual": ((), (12, 16), np.less_equal),
    "BitwiseAnd": ((), (18,), np.bitwise_and),
    "BitwiseOr": ((), (18,), np.bitwise_or),
    "BitwiseXor": ((), (18,), np.bitwise_xor),
}
"""By operator: versions with limited broadcasting, those with numpy's, and what they compute."""


def _binary(function: Binary, call: Call, a: Array, b: Array) -> KernelResult:
    # Files written by early exporters carry the old attributes at later opsets, and meant them.
    if call.version < 7 or (call.attr("broadcast", 0) and call.has("axis")):
        b = legacy_operand(call, a, b)
    return function(a, b)


for _op, (_legacy, _modern, _function) in _BINARY.items():
    kernel(_op, *_legacy)(partial(_binary, _function))
    kernel(_op, *_modern)(partial(_binary, _function))


@kernel("Mod", 10, 13)
@kernel("Mod", 28)
def modulo(call: Call, a: Array, b: Array) -> KernelResult:
    """Compute the remainder, of the divisor's sign, or the dividend's under ``fmod``, which floats need before 28."""
    if call.attr("fmod"):
        return np.fmod(a, b)
    require(call.version >= 28 or not np.issubdtype(a.dtype, np.inexact), "floats need fmod = 1")
    return np.mod(a, b)


@kernel("BitShift", 11, 28)
def bit_shift(call: Call, a: Array, b: Array) -> KernelResult:
    """Shift left or right; shifting everything out leaves 0, or −1 of a negative number shifted to the right."""
    bits = a.dtype.itemsize * 8
    within = (b >= 0) & (b < bits)
    amount = np.where(within, b, 0).astype(a.dtype)
    if call.attr("direction") == "LEFT":
        return np.where(within, np.left_shift(a, amount), 0).astype(a.dtype)
    return np.where(within, np.right_shift(a, amount), np.where(a < 0, -1, 0)).astype(a.dtype)


@kernel("Where", 9, 16)
def where(call: Call, condition: Array, a: Array, b: Array) -> KernelResult:
    """Compute numpy.where."""
    return np.where(condition, a, b)


@kernel("Sum", 1, 6)
@kernel("Sum", 8, 13)
@kernel("Mean", 1, 6)
@kernel("Mean", 8, 13)
@kernel("Max", 1, 6)
@kernel("Max", 8, 12, 13)
@kernel("Min", 1, 6)
@kernel("Min", 8, 12, 13)
def variadic(call: Call, *operands: Array) -> KernelResult:
    """Combine all operands: of equal shapes at versions 1 and 6, broadcast as in numpy from 8 on."""
    shapes = {operand.shape for operand in operands}
    require(call.version >= 8 or len(shapes) == 1, f"operands differ in shape: {sorted(shapes)}")
    total = reduce({"Max": np.maximum, "Min": np.minimum}.get(call.op, np.add), operands)
    return total / len(operands) if call.op == "Mean" else total


@kernel("PRelu", 1, 6)
@kernel("PRelu", 7, 9, 16)
def prelu(call: Call, x: Array, slope: Array) -> KernelResult:
    """Compute x, or slope · x below zero. Up to version 6 the slope is one a channel, or a single one."""
    if call.version <= 6 and slope.size != 1:
        require(slope.size == x.shape[1], f"{slope.size} slopes for {x.shape[1]} channels")
        slope = slope.reshape(-1, *(1,) * (x.ndim - 2))
    elif call.version <= 6:
        slope = slope.reshape((1,) * x.ndim)
    return np.where(x < 0, spread_onto(x, slope) * x, x)


@kernel("Gemm", 1, 6)
@kernel("Gemm", 7, 9, 11, 13)
def gemm(call: Call, a: Array, b: Array, c: Array | None = None) -> KernelResult:
    """Compute alpha · op(A) · op(B) + beta · C. Up to version 6 C broadcasts only where ``broadcast`` says so."""
    require(a.ndim == b.ndim == 2, f"operands of shapes {a.shape} and {b.shape}")
    product = call.attr("alpha") * ((a.T if call.attr("transA") else a) @ (b.T if call.attr("transB") else b))
    if product.dtype != a.dtype:
        product = product.astype(a.dtype)
    if c is None:
        return product
    if call.version <= 6:
        c = legacy_operand(call, product, c)
    return (product + call.attr("beta") * spread_onto(product, c)).astype(a.dtype, copy=False)


@kernel("MatMul", 1, 9, 13)
def matmul(call: Call, a: Array, b: Array) -> KernelResult:
    """Compute numpy.matmul. Integers go through exact integer arithmetic."""
    return np.matmul(a, b)


@kernel("Einsum", 12, 28)
def einsum(call: Call, *operands: Array) -> KernelResult:
    """Compute numpy.einsum; the operator's equation language is the same."""
    return np.einsum(call.attr("equation"), *operands, optimize=True)
