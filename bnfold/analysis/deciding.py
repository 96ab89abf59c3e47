"""Operators on constants that are discontinuous in their numbers, and those that read or write at given indices.

A comparison of numbers that the model rounds at every step may turn out otherwise than that of exact ones: it is made
of numbers only that are stored, or were moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bnfold.analysis.derived import Derived
from bnfold.analysis.evaluators import (
    EVALUATORS,
    INTEGERS,
    Evaluator,
    Operands,
    arithmetic,
    broadcasts,
    every,
    integers,
    moved,
    need,
    places,
    small,
    stored,
)
from bnfold.ir.node import Node
from bnfold.ir.tensor import FLOATS, TP, Array, Exact, InMemory, Tensor, numpy_type

_FLOATS = frozenset({TP.FLOAT, TP.DOUBLE})
"""Those that numpy rounds and compares itself."""


def _are_as_stored(*sources: Tensor) -> bool:
    return not any(isinstance(source, Exact) or (isinstance(source, Derived) and source.is_exact) for source in sources)


def _comparison(function: Callable[..., Any], types: frozenset[int]) -> Evaluator:
    """Return the evaluator of an operator that makes truths of two operands of one of these types."""

    def evaluate(node: Node, operands: Operands) -> Tensor | None:
        sources = every(operands)
        dtypes = {source.dtype for source in sources}
        if len(sources) != 2 or len(dtypes) > 1 or not dtypes <= types or not _are_as_stored(*sources):
            return None
        return stored(TP.BOOL, function, *sources) if broadcasts(node, sources, since=7) else None

    return evaluate


def _not(_: Node, operands: Operands) -> Tensor | None:
    source = need(operands, 0)
    return stored(TP.BOOL, np.logical_not, source) if source.dtype == TP.BOOL else None


def _rounding(function: Callable[..., Any]) -> Evaluator:
    """Return the evaluator of an operator that makes whole numbers of floats."""

    def evaluate(_: Node, operands: Operands) -> Tensor | None:
        source = need(operands, 0)
        return stored(source.dtype, function, source) if source.dtype in _FLOATS and _are_as_stored(source) else None

    return evaluate


def _cast(node: Node, operands: Operands) -> Tensor | None:
    """Return stored floats as integers, cut towards zero, or as truths. What else a Cast makes decides nothing."""
    source, to = need(operands, 0), node.attr("to")
    if source.dtype not in FLOATS or to not in INTEGERS | {TP.BOOL}:
        return _WITHOUT_DECISION(node, operands)
    values = source.float64() if _are_as_stored(source) else np.full(1, np.nan)
    if not np.isfinite(values).all():
        return None
    if to == TP.BOOL:
        return stored(to, lambda array: array != 0, source)
    limits = np.iinfo(numpy_type(to))
    whole = np.trunc(values)
    if ((whole < float(limits.min)) | (whole >= float(limits.max + 1))).any():
        return None  # what a runtime makes of a number that does not fit is its own
    return stored(to, lambda array: np.trunc(array.astype(np.float64)).astype(numpy_type(to)), source)


_WITHOUT_DECISION = EVALUATORS["Cast"]


def _range(_: Node, operands: Operands) -> Tensor | None:
    """Return start, start + delta, … below the limit; of whole numbers, for others are added up in several ways."""
    ends = start, limit, delta = [need(operands, slot) for slot in range(3)]
    if not start.dtype == limit.dtype == delta.dtype or start.dtype not in INTEGERS | _FLOATS:
        return None
    if start.dtype in _FLOATS and not (_are_as_stored(*ends) and all(map(_is_small_whole, ends))):
        return None
    first, end, step = (int(bound.numpy().item()) for bound in ends)
    if step == 0:
        raise ValueError("a Range without steps")
    small([max(0, math.ceil((end - first) / step))])
    return InMemory(start.dtype, np.arange(first, end, step).astype(numpy_type(start.dtype)))


def _is_small_whole(bound: Tensor) -> bool:
    number = float(bound.numpy().item())
    return number.is_integer() and abs(number) < 1 << 24


def _at(operands: Operands, rank: int, axis: int) -> tuple[Array, ...]:
    """Return, for each axis, the places that GatherElements and ScatterElements read or write."""
    held = need(operands, 1)
    size = need(operands, 0).dims[axis]
    numbers = np.array(integers(held)).reshape(held.dims)
    if len(held.dims) != rank or ((numbers < -size) | (numbers >= size)).any():
        raise ValueError("no such places")
    grid = list(np.indices(held.dims))
    grid[axis] = np.where(numbers < 0, numbers + size, numbers)
    return tuple(grid)


def _gather_elements(node: Node, operands: Operands) -> Tensor:
    source = need(operands, 0)
    (axis,) = places([int(node.attr("axis", 0))], len(source.dims))
    where = _at(operands, len(source.dims), axis)
    return moved(lambda array: array[where], source)


def _scatter_elements(node: Node, operands: Operands) -> Tensor | None:
    source, updates = need(operands, 0), need(operands, 2)
    if node.attr("reduction", "none") != "none" or source.dtype != updates.dtype:
        return None
    (axis,) = places([int(node.attr("axis", 0))], len(source.dims))
    where = _at(operands, len(source.dims), axis)
    return _written(source, updates, where, need(operands, 1).dims)


def _scatter_nd(node: Node, operands: Operands) -> Tensor | None:
    source, held, updates = (need(operands, slot) for slot in range(3))
    if node.attr("reduction", "none") != "none" or source.dtype != updates.dtype or not held.dims:
        return None
    numbers = np.array(integers(held)).reshape(held.dims)
    depth = held.dims[-1]
    sizes = np.array(source.dims[:depth])
    if depth > len(source.dims) or ((numbers < -sizes) | (numbers >= sizes)).any():
        raise ValueError("no such places")
    where = tuple(np.moveaxis(np.where(numbers < 0, numbers + sizes, numbers), -1, 0))
    return _written(source, updates, where, (*held.dims[:-1], *source.dims[depth:]))


def _written(source: Tensor, updates: Tensor, where: tuple[Array, ...], dims: tuple[int, ...]) -> Tensor | None:
    """Return the source with updates at some places; None if a place is written twice, in an order that is open."""
    if updates.dims != dims:
        raise ValueError("other updates than places")
    flat = np.ravel_multi_index(where, source.dims[: len(where)]) if where else np.zeros(1, np.int64)
    if np.unique(flat).size < flat.size:
        return None

    def write(array: Array, values: Array) -> Array:
        copy = array.copy()
        copy[where] = values
        return copy

    return moved(write, source, updates)


def _trilu(node: Node, operands: Operands) -> Tensor:
    offset = operands[1] if len(operands) > 1 else None
    shift = int(offset.numpy().item()) if offset is not None else 0
    cut = np.triu if node.attr("upper", 1) else np.tril
    return moved(lambda array: cut(array, shift), need(operands, 0))


_NUMBERS = _FLOATS | INTEGERS
EVALUATORS.update(
    Sin=arithmetic(np.sin),
    Cos=arithmetic(np.cos),
    Floor=_rounding(np.floor),
    Ceil=_rounding(np.ceil),
    Round=_rounding(np.rint),
    Equal=_comparison(np.equal, _NUMBERS | {TP.BOOL}),
    Less=_comparison(np.less, _NUMBERS),
    LessOrEqual=_comparison(np.less_equal, _NUMBERS),
    Greater=_comparison(np.greater, _NUMBERS),
    GreaterOrEqual=_comparison(np.greater_equal, _NUMBERS),
    And=_comparison(np.logical_and, frozenset({TP.BOOL})),
    Or=_comparison(np.logical_or, frozenset({TP.BOOL})),
    Xor=_comparison(np.logical_xor, frozenset({TP.BOOL})),
    Not=_not,
    Cast=_cast,
    Range=_range,
    GatherElements=_gather_elements,
    ScatterElements=_scatter_elements,
    ScatterND=_scatter_nd,
    Trilu=_trilu,
)
