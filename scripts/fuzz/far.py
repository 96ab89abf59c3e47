"""Numbers far from the usual ones: crossed bounds, and channels of NaN, infinities or noise beside others."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from fuzz.builder import Array, Builder, Drawn

DOUBLE = TensorProto.DOUBLE


def clip(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Clip, some with bounds left out or empty; often a number for all channels is multiplied or added."""
    if b.chance(0.5):
        (x,) = b.node(b.pick(["Mul", "Add", "Sub"]), [x.name, b.weight(b.numbers([]))])
    made = b.node("Clip", [x.name, *_bounds(b, x)])
    return b.node(b.pick(["Mul", "Add"]), [made[0].name, b.weight(b.numbers([]))]) if b.chance(0.5) else made


def _bounds(b: Builder, x: Drawn) -> list[str]:
    """Draw bounds: some have the lower one above the upper one, or may have; some are far from all numbers."""
    ends = [(-2.0, -0.5), (0.5, 2.0)]
    numbers = [b.numbers([], *end) * b.pick([1, 1, 8, 50]) for end in (ends[::-1] if b.chance(0.1) else ends)]
    return [_bound(b, x, np.asarray(number)) for number in numbers][: int(b.pick([0, 1, 2, 2]))]


def _bound(b: Builder, x: Drawn, number: Array) -> str:
    """Draw a bound that is left out, an input, computed from inputs, or stored."""
    kind = b.rng.random()
    if kind < 0.25:
        return ""
    if kind < 0.4:
        return b.feed(number).name
    if kind < 0.45:
        return b.node("Mul", [b.feed(number).name, b.weight(b.numbers([], 0.5, 2.0))])[0].name
    return b.node("ReduceMax", [x.name], keepdims=0)[0].name if kind < 0.5 else b.weight(number)


def undefined(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an operator with NaN or infinities in one channel, or in some, and numbers in the others."""
    if x.rank < 2 or 0 in x.shape:
        return None
    return b.pick([_variance, _factor, _factor, _root])(b, x)  # type: ignore[no-any-return]


def _variance(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a BatchNormalization with a negative variance."""
    arrays = [b.numbers([x.shape[1]], 0.5, 2.0) for _ in range(4)]
    arrays[3][int(b.rng.integers(x.shape[1]))] = -1.0
    return b.node("BatchNormalization", [x.name, *(b.weight(array, "far") for array in arrays)])


def _factor(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a product with a NaN or an infinity, or a division by 0."""
    factors = b.numbers([x.shape[1], *[1] * (x.rank - 2)], 0.5, 2.0)
    factors[int(b.rng.integers(x.shape[1]))] = b.pick([0.0, np.inf, -np.inf, np.nan])
    return b.node(b.pick(["Mul", "Div"]), [x.name, b.weight(factors, "far")])


def _root(b: Builder, x: Drawn) -> list[Drawn]:
    """Append a square root, of negative numbers too."""
    parts = [b.node(b.pick(ops), [x.name])[0].name for ops in (["Sqrt", "Log"], ["Abs", "Neg", "Sin"])]
    return b.node("Concat", parts if b.chance(0.5) else parts[::-1], axis=1)


def noisy(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append channels whose values depend on the rounding of a factor, and others; often near the largest float64."""
    if b.dtype != TensorProto.FLOAT or x.rank < 2 or 0 in x.shape:
        return None
    size = float(b.pick([1.0, 1.5e308, 1.5e308]))
    factor = b.numbers([], 1.0, 2.0) * np.float32(b.pick([1e3, 1e12, 1e12]))
    (turned,) = b.node("Mul", [x.name, b.weight(factor, "far")])
    (beside,) = b.node(b.pick(["Abs", "Neg", "Relu"]), [x.name])
    parts = [_in_double(b, "Sin", turned, size), _in_double(b, "Tanh", beside, size * float(b.pick([1.0, 0.5])))]
    return b.node("Concat", parts if b.chance(0.5) else parts[::-1], axis=1)


def _in_double(b: Builder, op: str, x: Drawn, size: float) -> str:
    """Return numbers up to very large ones, for any input."""
    (wide,) = b.node("Cast", [b.node(op, [x.name])[0].name], to=DOUBLE)
    factor = b.derive("Constant", [], DOUBLE, (), value=numpy_helper.from_array(np.array(size)))
    return b.node("Mul", [wide.name, factor])[0].name
