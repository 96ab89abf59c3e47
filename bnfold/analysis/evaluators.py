"""Operators that constants are computed with.

Rearranging ones keep the element type; arithmetic stays in float64 (`Exact`), to be rounded only when it is written.
An operator is evaluated only in the versions whose meaning is the one written here. Each evaluator takes a node and its
operands; any failure, like the result None, means that the node does not make a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx

from bnfold.analysis.derived import Derived
from bnfold.ir.elements import LIMIT, finfo
from bnfold.ir.forms import form_of
from bnfold.ir.node import Node
from bnfold.ir.schemas import versions_of
from bnfold.ir.tensor import FLOATS, TP, Array, Exact, Float64, Inline, InMemory, Tensor, numpy_type, round_once

INTEGERS = frozenset({TP.INT8, TP.UINT8, TP.INT16, TP.UINT16, TP.INT32, TP.UINT32, TP.INT64, TP.UINT64})
_FEW = 1 << 14
"""Elements up to which a result is kept; a larger one is made anew on each request."""

Operands = list[Tensor | None]
Evaluator = Callable[["Node", Operands], Tensor | None]
ArrayFunction = Callable[..., Any]
PARTS: dict[str, Callable[[Node, Operands, int], Tensor]] = {}
"""Operators of several outputs, evaluated one by one."""


def evaluate(node: Node, operands: Operands, slot: int = 0) -> Tensor | None:
    """Return what a node makes of constants, at one output: the one way to ask an evaluator.

    If it makes none, the result is None, or an error is raised as by numpy.
    """
    part = PARTS.get(node.op_type)
    return EVALUATORS[node.op_type](node, operands) if part is None else part(node, operands, slot)


def has_evaluator(node: Node) -> bool:
    """Whether `evaluate` takes a node."""
    return node.op_type in EVALUATORS or node.op_type in PARTS


def need(operands: Operands, index: int) -> Tensor:
    """Return the operand at ``index``. Raises ValueError where there is none."""
    operand = operands[index] if index < len(operands) else None
    if operand is None:
        raise ValueError("operand missing")
    return operand


def every(operands: Operands) -> list[Tensor]:
    """Return the operands. Raises ValueError where one is missing, or all are."""
    if not operands:
        raise ValueError("operands missing")
    return [need(operands, index) for index in range(len(operands))]


def small(dims: Sequence[int]) -> tuple[int, ...]:
    """Return the dims of a result. Raises ValueError if it would be too large."""
    if math.prod(dims) > LIMIT:
        raise ValueError("too large")
    return tuple(dims)


def integers(operand: Tensor) -> list[int]:
    """Return the numbers of an operand that says how. Raises ValueError where they are no integers."""
    if operand.dtype not in INTEGERS:
        raise ValueError("no integers")
    return [int(number) for number in operand.numpy().reshape(-1)]


def moved(function: ArrayFunction, *sources: Tensor) -> Tensor:
    """Return elements of ``sources`` in other positions, in the type of the first; ``function`` moves the arrays.

    Values that were never rounded are not rounded here either.
    """
    if not any(isinstance(source, Exact) or (isinstance(source, Derived) and source.is_exact) for source in sources):
        return stored(sources[0].dtype, function, *sources)
    values = np.asarray(function(*(source.float64() for source in sources)))
    return _held(sources[0].dtype, values, function, sources, is_exact=True)


def stored(dtype: int, function: ArrayFunction, *sources: Tensor) -> Tensor:
    """Return what ``function`` makes of the stored elements, in the type ``dtype``."""
    with np.errstate(all="ignore"):
        values = np.asarray(function(*(source.numpy() for source in sources)))
    return _held(dtype, values, function, sources, is_exact=False)


def computed(dtype: int, function: ArrayFunction, *sources: Tensor) -> Tensor | None:
    """Return what ``function`` makes in float64, to be rounded when it is written.

    None where the rounding that the model does here would not be harmless.
    """
    with np.errstate(all="ignore"):
        values = np.asarray(function(*(source.float64() for source in sources)), dtype=np.float64)
    return _held(dtype, values, function, sources, is_exact=True) if _rounds_harmlessly(values, dtype) else None


def _held(dtype: int, values: Array, function: ArrayFunction, sources: Sequence[Tensor], *, is_exact: bool) -> Tensor:
    if values.size > _FEW and 0 not in values.strides:  # a fill takes no memory
        return Derived(dtype, values, function, sources, is_exact=is_exact)
    return Exact(dtype, values) if is_exact else InMemory(dtype, values)


def _rounds_harmlessly(values: Float64, dtype: int) -> bool:
    """Whether the element type holds the values as the normal numbers they are.

    The model rounds after every step; where that makes an infinity, or nothing of a small number, float64 would go on
    with something else.
    """
    info = finfo(dtype)
    sizes = np.abs(values[values != 0])
    return bool(np.isfinite(values).all() and (sizes <= float(info.max)).all() and (sizes >= float(info.tiny)).all())


def axes_of(node: Node, operands: Operands) -> tuple[int, ...]:
    """Return axes from an input, or from the attribute of older versions; none where there are neither."""
    if len(operands) > 1 and operands[1] is not None:
        return tuple(integers(operands[1]))
    return tuple(node.attr("axes") or ())


def places(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Return axes counted from the front. Raises ValueError for one that there is not, or that is named twice."""
    counted = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if len(set(counted)) < len(counted) or not all(0 <= axis < rank for axis in counted):
        raise ValueError("no such axes")
    return counted


def _identity(_: Node, operands: Operands) -> Tensor:
    return need(operands, 0)


def _cast(node: Node, operands: Operands) -> Tensor | None:
    source, to = need(operands, 0), node.attr("to")
    if isinstance(to, str):  # version 1 names the type
        to = TP.DataType.Value(to)
    if source.dtype in INTEGERS and to in INTEGERS:
        fresh = source.numpy().astype(numpy_type(to))
        return InMemory(to, fresh) if np.array_equal(fresh, source.numpy()) else None
    if source.dtype == TP.BOOL and to in INTEGERS | FLOATS:
        return stored(to, lambda array: array.astype(numpy_type(to)), source)
    if source.dtype in INTEGERS and to == TP.BOOL:
        return stored(to, lambda array: array != 0, source)
    # The model rounds here; what it computes with is the rounded value.
    if (source.dtype in FLOATS and to in FLOATS) or _becomes_float(source, to):
        return stored(to, lambda array: round_once(array.astype(np.float64), to), source)
    return None


def _becomes_float(source: Tensor, to: int) -> bool:
    """Whether integers that are no smaller than floats become these.

    Smaller ones are quantized weights, and float64 does not hold every large one.
    """
    if source.dtype not in INTEGERS or to not in FLOATS or source.nbytes < source.size * numpy_type(to).itemsize:
        return False
    return bool((np.abs(source.float64()) < _EXACT).all())


_EXACT = 2.0**53
"""Integers below this are numbers of float64."""


def _clip(node: Node, operands: Operands) -> Tensor:
    source = need(operands, 0)
    low, high = ((*operands[1:], None, None)[index] for index in (0, 1))
    if len(operands) == 1:
        low, high = (_limit(node, source.dtype, name) for name in ("min", "max"))
    cuts = [(held, cut) for held, cut in ((low, np.maximum), (high, np.minimum)) if held is not None]

    def clip(values: Array, *bounds: Array) -> Array:
        for bound, (_, cut) in zip(bounds, cuts, strict=True):
            values = cut(values, bound.reshape(()).astype(values.dtype))
        return values

    return moved(clip, source, *(held for held, _ in cuts))


def _limit(node: Node, dtype: int, name: str) -> Tensor | None:
    return InMemory(dtype, np.asarray(node.attr(name)).astype(numpy_type(dtype))) if node.has_attr(name) else None


def _reshape(node: Node, operands: Operands) -> Tensor:
    source = need(operands, 0)
    target = list(node.attr("shape")) if node.has_attr("shape") else integers(need(operands, 1))
    if any(size < -1 for size in target):
        raise ValueError("no such size")
    if not node.attr("allowzero", 0):
        target = [source.dims[axis] if size == 0 else size for axis, size in enumerate(target)]
    return moved(lambda array: array.reshape(target), source)


def _flatten(node: Node, operands: Operands) -> Tensor:
    source, axis = need(operands, 0), int(node.attr("axis", 1))
    rank = len(source.dims)
    if not -rank <= axis <= rank:
        raise ValueError("no such axis")
    axis += rank if axis < 0 else 0
    shape = (math.prod(source.dims[:axis]), math.prod(source.dims[axis:]))
    return moved(lambda array: array.reshape(shape), source)


def _squeeze(node: Node, operands: Operands) -> Tensor:
    axes = axes_of(node, operands) or None  # none given: all of size 1
    return moved(lambda array: np.squeeze(array, axis=axes), need(operands, 0))


def _unsqueeze(node: Node, operands: Operands) -> Tensor:
    axes = axes_of(node, operands)
    if not axes:
        raise ValueError("axes missing")
    return moved(lambda array: np.expand_dims(array, axes), need(operands, 0))


def _transpose(node: Node, operands: Operands) -> Tensor:
    order = node.attr("perm")
    return moved(lambda array: np.transpose(array, order), need(operands, 0))


def _constant_of_shape(node: Node, operands: Operands) -> Tensor:
    return filled(node, small(tuple(integers(need(operands, 0)))))


def filled(node: Node, dims: tuple[int, ...]) -> Tensor:
    """Return what a ConstantOfShape makes, of any size: it takes no memory. Raises ValueError for what is no shape."""
    fill: onnx.TensorProto | None = node.attr("value")
    if fill is None:
        return InMemory(TP.FLOAT, np.broadcast_to(np.float32(0), dims))
    array = Inline(fill).numpy()
    if array.size != 1:
        raise ValueError("a fill has one value")
    return InMemory(fill.data_type, np.broadcast_to(array.reshape(()), dims))


def _expand(_: Node, operands: Operands) -> Tensor:
    source = need(operands, 0)
    dims = small(np.broadcast_shapes(source.dims, tuple(integers(need(operands, 1)))))
    return moved(lambda array: np.broadcast_to(array, dims), source)


def broadcasts(node: Node, sources: Sequence[Tensor], since: int) -> bool:
    """Whether operands fit together as they do ``since`` an opset. Raises ValueError where they fit in none."""
    dims = {source.dims for source in sources}
    small(np.broadcast_shapes(*dims))
    return not node.has_attr("broadcast") and (node.graph.opset() >= since or len(dims) == 1)


def arithmetic(function: ArrayFunction, of_integers: ArrayFunction | None = None, since: int = 7) -> Evaluator:
    """Return the evaluator of an operator that works element by element; ``of_integers`` wraps around as they do."""

    def evaluate(node: Node, operands: Operands) -> Tensor | None:
        sources = every(operands)
        if len(sources) not in form_of(node.op_type, versions_of(node.op_type)[-1]).inputs:  # so in every version
            raise ValueError("not as many operands as the operator has")
        # The exponent of a power has a type of its own.
        types = {source.dtype for source in sources[: 1 if node.op_type == "Pow" else None]}
        known = all(source.dtype in FLOATS | INTEGERS for source in sources)
        if not broadcasts(node, sources, since) or len(types) > 1 or not known:
            return None
        if of_integers is not None and types <= INTEGERS:
            return stored(sources[0].dtype, of_integers, *sources)
        return computed(sources[0].dtype, function, *sources) if types <= FLOATS else None

    return evaluate


def _quotient(dividend: Array, divisor: Array) -> Array:
    """Compute a quotient of integers, cut towards zero. Raises ValueError for a divisor that is zero."""
    if not divisor.all():
        raise ValueError("division by zero")
    whole, rest = np.divmod(dividend, divisor)
    towards_zero: Array = whole + ((rest != 0) & ((dividend < 0) != (divisor < 0))).astype(whole.dtype)
    return towards_zero


def _mod(node: Node, operands: Operands) -> Tensor | None:
    """Compute remainders of integers; those of floats are discontinuous, and operands may not be rounded yet."""
    remainder = np.fmod if node.attr("fmod", 0) else np.mod

    def of_integers(dividend: Array, divisor: Array) -> Array:
        if not divisor.all():
            raise ValueError("division by zero")
        rest: Array = remainder(dividend, divisor)
        return rest

    return arithmetic(remainder, of_integers)(node, operands) if need(operands, 0).dtype in INTEGERS else None


EVALUATORS: dict[str, Evaluator] = {
    "Identity": _identity,
    "Cast": _cast,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Clip": _clip,
    "Add": arithmetic(np.add, np.add),
    "Sub": arithmetic(np.subtract, np.subtract),
    "Mul": arithmetic(np.multiply, np.multiply),
    "Div": arithmetic(np.divide, _quotient),
    "Mod": _mod,
    "Pow": arithmetic(np.power),
    "Neg": arithmetic(np.negative, np.negative),
    "Abs": arithmetic(np.abs, np.abs),
    "Sqrt": arithmetic(np.sqrt),
    "Reciprocal": arithmetic(np.reciprocal),
    "Exp": arithmetic(np.exp),
    "Log": arithmetic(np.log),
    "Tanh": arithmetic(np.tanh),
    "Sigmoid": arithmetic(lambda x: 1 / (1 + np.exp(-x))),
    "Softplus": arithmetic(lambda x: np.logaddexp(x, 0)),
    "Relu": arithmetic(lambda x: np.maximum(x, 0)),
}
