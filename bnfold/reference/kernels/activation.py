"""Elementwise functions of one tensor. Attributes carry their float32 values, widened (`Call.attr`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx

from bnfold.ir.elements import Array
from bnfold.reference.kernels.erf import erf
from bnfold.reference.registry import Call, KernelResult, kernel, require


def sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + e^−x) without overflow on either side."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x: Array) -> Array:
    """Compute ln(1 + e^x) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


_SIXTH = float(np.float32(1 / 6))
"""HardSwish's alpha as the function body of its schema has it, and so what it is where the body takes its place."""

_CURVES: dict[str, tuple[tuple[int, ...], Callable[..., Array], tuple[str, ...]]] = {
    "Abs": ((1, 6, 13), np.abs, ()),
    "Acos": ((7, 22), np.arccos, ()),
    "Acosh": ((9, 22), np.arccosh, ()),
    "Asin": ((7, 22), np.arcsin, ()),
    "Asinh": ((9, 22), np.arcsinh, ()),
    "Atan": ((7, 22), np.arctan, ()),
    "Atanh": ((9, 22), np.arctanh, ()),
    "BitwiseNot": ((18,), np.invert, ()),
    "Cos": ((7, 22), np.cos, ()),
    "Cosh": ((9, 22), np.cosh, ()),
    "Erf": ((9, 13), erf, ()),
    "Exp": ((1, 6, 13), np.exp, ()),
    "IsNaN": ((9, 13, 20), np.isnan, ()),
    "Log": ((1, 6, 13), np.log, ()),
    "Neg": ((1, 6, 13), np.negative, ()),
    "Not": ((1,), np.logical_not, ()),
    "Reciprocal": ((1, 6, 13), np.reciprocal, ()),
    "Relu": ((1, 6, 13, 14), lambda x: np.maximum(x, 0), ()),
    "Sigmoid": ((1, 6, 13), sigmoid, ()),
    "Sign": ((9, 13), np.sign, ()),
    "Sin": ((7, 22), np.sin, ()),
    "Sinh": ((9, 22), np.sinh, ()),
    "Softplus": ((1, 22), softplus, ()),
    "Softsign": ((1, 22), lambda x: x / (1 + np.abs(x)), ()),
    "Sqrt": ((1, 6, 13), np.sqrt, ()),
    "Tan": ((7, 22), np.tan, ()),
    "Tanh": ((1, 6, 13), np.tanh, ()),
    "Mish": ((18, 22), lambda x: x * np.tanh(softplus(x)), ()),
    "HardSwish": ((14, 22), lambda x: x * np.clip(_SIXTH * x + 0.5, 0, 1), ()),
    "Elu": ((1, 6, 22), lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x), ("alpha",)),
    "Celu": ((12, 28), lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0), ("alpha",)),
    "HardSigmoid": ((1, 6, 22), lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), ("alpha", "beta")),
    "IsInf": (
        (10, 20),
        lambda x, positive, negative: ((x == np.inf) & bool(positive)) | ((x == -np.inf) & bool(negative)),
        ("detect_positive", "detect_negative"),
    ),
    "LeakyRelu": ((1, 6, 16), lambda x, alpha: np.where(x < 0, alpha * x, x), ("alpha",)),
    "Selu": (
        (1, 6, 22),
        lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
        ("alpha", "gamma"),
    ),
}
"""By operator: versions, what it computes, and the attributes that it is computed with."""


def curve(op: str) -> Callable[..., Array]:
    """Return the function that an operator computes, of a tensor and of the attributes that it has."""
    return _CURVES[op][1]


def _of_attributes(names: tuple[str, ...], function: Callable[..., Array], call: Call, x: Array) -> KernelResult:
    return function(x, *map(call.attr, names))


for _op, (_versions, _function, _names) in _CURVES.items():
    kernel(_op, *_versions)(partial(_of_attributes, _names, _function))


def _to_integer(function: Callable[[Array], Array], call: Call, x: Array) -> KernelResult:
    """Round to an integer. What is float32 in the file is rounded to that before, as the quotient of QuantizeLinear.

    Otherwise a number beside a tie or an integer lies on one side of it or the other by how it was computed.
    """
    return function(x.astype(np.float32) if call.kind == onnx.TensorProto.FLOAT else x)


kernel("Round", 11, 22)(partial(_to_integer, np.rint))
kernel("Ceil", 1, 6, 13)(partial(_to_integer, np.ceil))
kernel("Floor", 1, 6, 13)(partial(_to_integer, np.floor))


@kernel("Clip", 1, 6)
@kernel("Clip", 11, 12, 13)
def clip(call: Call, x: Array, low: Array | None = None, high: Array | None = None) -> KernelResult:
    """Clip to bounds that are attributes or scalar inputs.

    An absent one does not bound, and the upper one has the last word.
    """
    for name, given, cut in (("min", low, np.maximum), ("max", high, np.minimum)):
        bound = call.attrs.get(name) if given is None else given
        if bound is not None:
            require(np.ndim(bound) <= 1, f"{name} is no scalar")  # onnxruntime takes one element of one axis as well
            x = cut(x, np.asarray(bound, x.dtype).reshape(()))
    return x


@kernel("Gelu", 20)
def gelu(call: Call, x: Array) -> KernelResult:
    """Compute X · Φ(x), or its tanh approximation."""
    if call.attr("approximate") == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + float(np.float32(0.044715)) * x**3)
        return 0.5 * x * (1 + np.tanh(inner))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


@kernel("Softmax", 1, 11)
@kernel("Softmax", 13)
def softmax(call: Call, x: Array) -> KernelResult:
    """Compute e^x over its sum: along ``axis`` from version 13 on, over ``axis`` and all later axes before."""
    rows, axis = _rows(call, x)
    e = np.exp(rows - rows.max(axis, keepdims=True, initial=-np.inf))
    return (e / e.sum(axis, keepdims=True)).reshape(x.shape)


@kernel("LogSoftmax", 1, 11)
@kernel("LogSoftmax", 13)
def log_softmax(call: Call, x: Array) -> KernelResult:
    """Return the logarithm of Softmax."""
    rows, axis = _rows(call, x)
    shifted = rows - rows.max(axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))).reshape(x.shape)


@kernel("Hardmax", 1, 11)
@kernel("Hardmax", 13)
def hardmax(call: Call, x: Array) -> KernelResult:
    """Compute 1 for the first maximum, 0 elsewhere, over the same elements as Softmax."""
    rows, axis = _rows(call, x)
    if not x.size:
        return x
    y = np.zeros_like(rows)
    np.put_along_axis(y, rows.argmax(axis, keepdims=True), 1, axis)
    return y.reshape(x.shape)


def _rows(call: Call, x: Array) -> tuple[Array, int]:
    """Return what one normalisation runs over: an array and its axis (2-D coercion before version 13)."""
    axis = call.attr("axis")
    axis = axis + x.ndim if axis < 0 else axis
    if call.version >= 13:
        return x, axis
    require(0 <= axis <= x.ndim, f"axis {call.attr('axis')} is outside rank {x.ndim}")
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), 1
