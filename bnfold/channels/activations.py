"""What operators make of a constant, element by element; NaN where it is not followed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Float64

Function = Callable[[Float64], Float64]


def _sigmoid(x: Float64) -> Float64:
    return np.asarray(1 / (1 + np.exp(-x)))


def _erf(x: Float64) -> Float64:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _elu(x: Float64, alpha: float, scale: float = 1.0) -> Float64:
    return np.where(x > 0, scale * x, scale * alpha * np.expm1(np.minimum(x, 0)))


def _gelu(node: ir.Node) -> Function:
    if node.attr("approximate", "none") == "tanh":
        return lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _with(name: str, default: float, function: Callable[[Float64, float], Float64]) -> Callable[[ir.Node], Function]:
    def of(node: ir.Node) -> Function:
        number = float(node.attr(name, default))
        return lambda x: function(x, number)

    return of


def _plain(function: Function) -> Callable[[ir.Node], Function]:
    return lambda _: function


def _hard_sigmoid(node: ir.Node) -> Function:
    alpha, beta = float(node.attr("alpha", np.float32(0.2))), float(node.attr("beta", 0.5))
    return lambda x: np.clip(alpha * x + beta, 0, 1)


def _selu(node: ir.Node) -> Function:
    alpha, gamma = (
        float(node.attr("alpha", 1.67326319217681884765625)),
        float(node.attr("gamma", 1.05070102214813232421875)),
    )
    return lambda x: _elu(x, alpha, gamma)


def _celu(x: Float64, alpha: float) -> Float64:
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


_SIXTH = float(np.float32(1 / 6))
"""As attributes are: float32."""
_UNKNOWN: Callable[[ir.Node], Function] = _plain(lambda x: np.full_like(x, np.nan))

UNARY: dict[str, Callable[[ir.Node], Function]] = {
    "Abs": _plain(np.abs),
    "Cast": _plain(lambda x: x),
    "Celu": _with("alpha", 1.0, _celu),
    "Dropout": _plain(lambda x: x),
    "Elu": _with("alpha", 1.0, _elu),
    "Erf": _plain(_erf),
    "Exp": _plain(np.exp),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(lambda x: x * np.clip(_SIXTH * x + 0.5, 0, 1)),
    "Identity": _plain(lambda x: x),
    "LeakyRelu": _with("alpha", 0.01, lambda x, alpha: np.where(x < 0, alpha * x, x)),
    "Mish": _plain(lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "Neg": _plain(np.negative),
    "Relu": _plain(lambda x: np.maximum(x, 0)),
    "Selu": _selu,
    "Sigmoid": _plain(_sigmoid),
    "Softplus": _plain(lambda x: np.logaddexp(x, 0)),
    "Softsign": _plain(lambda x: x / (1 + np.abs(x))),
    "Sqrt": _plain(np.sqrt),
    "Tanh": _plain(np.tanh),
    # Channels pass, constants do not: a step between two numbers, or not worth a line.
    **dict.fromkeys(
        ("Ceil", "Cos", "Floor", "Log", "Reciprocal", "Round", "Shrink", "Sign", "Sin", "ThresholdedRelu"), _UNKNOWN
    ),
}
"""Operators of one operand that work element by element."""


def sum_of(*operands: Float64) -> Float64:
    """Add constants."""
    return np.asarray(sum(operands))


def product(one: Float64, other: Float64) -> Float64:
    """Multiply constants; 0 times anything is 0."""
    return np.where((one == 0) | (other == 0), 0.0, one * other)


NARY: dict[str, Callable[..., Float64]] = {
    "Add": np.add,
    "Div": lambda one, other: np.where(other == 0, np.nan, one / other),
    "Max": lambda *operands: np.maximum.reduce(operands),
    "Mean": lambda *operands: np.asarray(sum(operands) / len(operands)),
    "Min": lambda *operands: np.minimum.reduce(operands),
    "Mul": product,
    "PRelu": lambda x, slope: np.where(x < 0, slope * x, x),
    "Sub": np.subtract,
    "Sum": sum_of,
}
"""Operators that combine operands that are broadcast to one shape, element by element."""
