"""Operators that sum up constants: over axes, over operands, and products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from bnfold.analysis.evaluators import (
    EVALUATORS,
    INTEGERS,
    Evaluator,
    Operands,
    arithmetic,
    axes_of,
    computed,
    need,
    places,
    stored,
)
from bnfold.ir.elements import LIMIT
from bnfold.ir.node import Node
from bnfold.ir.tensor import FLOATS, Array, Float64, Tensor

_MOST_PRODUCTS = 1 << 30
"""Multiply-adds beyond which no product of constants is evaluated."""
Summation = Callable[..., Any]


def _log_sum_exp(values: Float64, axis: tuple[int, ...], keepdims: bool) -> Float64:
    largest = values.max(axis=axis, keepdims=True)
    summed: Float64 = np.log(np.exp(values - largest).sum(axis=axis, keepdims=True)) + largest
    return summed if keepdims else summed.squeeze(axis)


def _reducing(reduction: Summation, *, of_integers: bool = False) -> Evaluator:
    def evaluate(node: Node, operands: Operands) -> Tensor | None:
        source = need(operands, 0)
        if len(operands) > 1 and node.input(1) is None:
            return None  # a name for nothing is an axis to some runtimes
        axes, keeps = axes_of(node, operands), bool(node.attr("keepdims", 1))
        if not axes and node.attr("noop_with_empty_axes", 0):
            return None
        axes = places(axes, len(source.dims)) or tuple(range(len(source.dims)))
        if not source.size:
            raise ValueError("nothing to reduce")
        if source.dtype in INTEGERS and of_integers:
            kind = source.numpy().dtype
            return stored(source.dtype, lambda array: reduction(array, axis=axes, keepdims=keeps).astype(kind), source)
        if source.dtype not in FLOATS:
            return None
        return computed(source.dtype, lambda array: reduction(array, axis=axes, keepdims=keeps), source)

    return evaluate


def _matmul(_: Node, operands: Operands) -> Tensor | None:
    first, second = need(operands, 0), need(operands, 1)
    if first.dtype != second.dtype or first.dtype not in FLOATS:
        return None
    _decline_long(first, second, first.dims[-1])
    return computed(first.dtype, np.matmul, first, second)


def _gemm(node: Node, operands: Operands) -> Tensor | None:
    """Multiply as ``alpha·A·B + beta·C``."""
    sources = [source for source in operands if source is not None]
    if len({source.dtype for source in sources}) != 1 or sources[0].dtype not in FLOATS or node.graph.opset() < 7:
        return None
    first, second = need(operands, 0), need(operands, 1)
    if len(first.dims) != 2 or len(second.dims) != 2:
        raise ValueError("no matrices")
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    turns = [bool(node.attr(name, 0)) for name in ("transA", "transB")]
    _decline_long(first, second, first.dims[0 if turns[0] else 1])

    def multiply(one: Float64, other: Float64, *added: Float64) -> Float64:
        one, other = (array.T if turn else array for array, turn in zip((one, other), turns, strict=True))
        total: Float64 = alpha * (one @ other)
        return total + beta * added[0] if added else total

    return computed(first.dtype, multiply, *sources)


def _decline_long(first: Tensor, second: Tensor, inner: int) -> None:
    """Raise ValueError for a product along ``inner`` elements that takes too long, or makes too much."""
    pairs = first.size * second.size
    if pairs > inner * _MOST_PRODUCTS or pairs > inner * inner * LIMIT:
        raise ValueError("too many products")


def _over_operands(combine: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda *operands: reduce(combine, operands)


EVALUATORS.update(
    ReduceSum=_reducing(np.sum, of_integers=True),
    ReduceProd=_reducing(np.prod, of_integers=True),
    ReduceMax=_reducing(np.max, of_integers=True),
    ReduceMin=_reducing(np.min, of_integers=True),
    ReduceMean=_reducing(np.mean),
    ReduceL1=_reducing(lambda array, **over: np.abs(array).sum(**over)),
    ReduceL2=_reducing(lambda array, **over: np.sqrt(np.square(array).sum(**over))),
    ReduceSumSquare=_reducing(lambda array, **over: np.square(array).sum(**over)),
    ReduceLogSum=_reducing(lambda array, **over: np.log(array.sum(**over))),
    ReduceLogSumExp=_reducing(_log_sum_exp),
    Sum=arithmetic(_over_operands(np.add), since=8),
    Mean=arithmetic(lambda *operands: reduce(np.add, operands) / len(operands), since=8),
    Max=arithmetic(_over_operands(np.maximum), _over_operands(np.maximum), since=8),
    Min=arithmetic(_over_operands(np.minimum), _over_operands(np.minimum), since=8),
    MatMul=_matmul,
    Gemm=_gemm,
)
