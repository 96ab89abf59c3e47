"""CumSum and CumProd where they do not exist: each round combines every element with the one 1, 2, 4, … places off."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters import places
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto


def running(combine: str, neutral: int, conversion: NodeConversion) -> None:
    """Decompose CumSum, CumProd along an axis of known size; a computed axis chooses among the results of all."""
    data, over = conversion.input(0), conversion.input(1)
    is_exclusive, is_reversed = bool(conversion.take("exclusive", 0)), bool(conversion.take("reverse", 0))
    rank = conversion.rank(data)
    results = {}
    for axis in _axes(conversion, over, rank):
        results[axis] = _combined(conversion, combine, data, axis, is_reversed=is_reversed)
        if is_exclusive:
            results[axis] = _moved(conversion, results[axis], axis, neutral, is_reversed=is_reversed)
    conversion.become("Identity", [_chosen(conversion, over, rank, results)])


down("CumSum", 11)(partial(running, "Add", 0))
down("CumProd", 26)(partial(running, "Mul", 1))


def _axes(conversion: NodeConversion, over: ir.Value, rank: int) -> list[int]:
    """Return the axes that ``over`` may mean."""
    if conversion.known(over) is None:
        return list(range(rank))
    axes = conversion.numbers(over, "its axis")
    if len(axes) != 1 or not -rank <= axes[0] < rank:
        raise Inexpressible(f"has the axis {axes} in rank {rank}")
    return [axes[0] % rank]


def _combined(conversion: NodeConversion, combine: str, data: ir.Value, axis: int, *, is_reversed: bool) -> ir.Value:
    """Return for each place along ``axis`` what it and all before it, or behind it, come to."""
    size, step = _size(conversion, data, axis), 1
    while step < size:
        ends = [conversion.sliced(data, axis, start, end) for start, end in ((0, size - step), (step, size))]
        moved = conversion.add(combine, ends, "combined")
        stays = conversion.sliced(data, axis, *((size - step, size) if is_reversed else (0, step)))
        data = conversion.add("Concat", [moved, stays] if is_reversed else [stays, moved], "running", axis=axis)
        step *= 2
    return data


def _moved(conversion: NodeConversion, data: ir.Value, axis: int, neutral: int, *, is_reversed: bool) -> ir.Value:
    """Move every element by one place; the first one, or the last, becomes neutral."""
    size = _size(conversion, data, axis)
    number = np.full(1, neutral, numeric_type(conversion.dtype(data)))
    shape = conversion.add("Shape", [conversion.sliced(data, axis, 0, 1)], "shape")
    slab = conversion.add("ConstantOfShape", [shape], "neutral", value=onnx.numpy_helper.from_array(number))
    kept = conversion.sliced(data, axis, *((1, size) if is_reversed else (0, size - 1)))
    return conversion.add("Concat", [kept, slab] if is_reversed else [slab, kept], "exclusive", axis=axis)


def _size(conversion: NodeConversion, data: ir.Value, axis: int) -> int:
    size = (conversion.shape(data) or {axis: None})[axis]
    if not isinstance(size, int) or not size:
        raise Inexpressible("runs along an axis of unknown size")
    return size


def _chosen(conversion: NodeConversion, over: ir.Value, rank: int, results: dict[int, ir.Value]) -> ir.Value:
    """Return the result along the axis that ``over`` turns out to be."""
    chosen = results.popitem()[1]
    if not results:
        return chosen
    if conversion.dtype(over) != TP.INT64:
        over = conversion.add("Cast", [over], "axis", to=TP.INT64)
    counted = places.wrapped(conversion, over, conversion.constant(np.array(rank, np.int64), "rank"))
    for axis, result in results.items():
        is_axis = conversion.add("Equal", [counted, conversion.constant(np.array(axis, np.int64), "axis")], "is_axis")
        chosen = conversion.add("Where", [is_axis, result, chosen], "chosen")
    return chosen
