"""Constants that are read in part, as far as a size of another value: positional embeddings, masks."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from fuzz.builder import Builder, Drawn

INT64 = TensorProto.INT64


def positions(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append rows of a table that is at least as long as an axis, added to a value or multiplied with it."""
    x = b.pick([x, *(value for value in b.inputs if value.dtype == b.dtype)])
    if b.opset < 11 or not x.rank or 0 in x.shape:
        return None
    axis = int(b.rng.integers(x.rank))
    b.leave_open(x, axis)
    rest = [size if b.chance(0.6) else 1 for size in x.shape[axis + 1 :]]
    table = b.weight(b.numbers([x.shape[axis] + int(b.rng.integers(x.shape[axis] + 3)), *rest], 0.5, 2.0), "table")
    rows = b.pick([_cut, _cut, _last, _counted, _counted, _each, _one, _fed])(b, table, x, (axis, rest))
    return b.node(b.pick(["Add", "Add", "Mul", "Sub"]), [x.name, rows] if b.chance(0.7) else [rows, x.name])


def mask(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Where by the corner of a square of booleans, as large as the last two axes."""
    if b.opset < 11 or x.rank < 2 or 0 in x.shape:
        return None
    b.leave_open(x, x.rank - 1)
    size = max(x.shape[-2:]) + int(b.rng.integers(4))
    square = b.weight(b.rng.random((size, size)) < 0.6, "table")
    ends = b.derive("Gather", [_shape(b, x), b.integers([x.rank - 2, x.rank - 1])], INT64, (2,))
    bounds = [b.integers([0, 0]), ends, b.integers([0, 1])]
    corner = b.derive("Slice", [square, *bounds], TensorProto.BOOL, x.shape[-2:])
    return b.node("Where", [corner, x.name, b.weight(b.numbers([], -3.0, -2.0))])


Place = tuple[int, list[int]]
"""The axis along which rows are chosen, and the sizes of the axes after it."""


def _shape(b: Builder, x: Drawn) -> str:
    return b.derive("Shape", [x.name], INT64, (x.rank,))


def _size(b: Builder, x: Drawn, axis: int, shape: tuple[int, ...] = (1,)) -> str:
    """Append the size of an axis, as a list of one number or as a number."""
    index = b.weight(np.full(shape, axis - x.rank if b.chance(0.2) else axis, np.int64), "i")
    return b.derive("Gather", [_shape(b, x), index], INT64, shape)


def _cut(b: Builder, table: str, x: Drawn, place: Place) -> str:
    """Append a Slice of the first rows, perhaps after another one."""
    axis, rest = place
    bounds = [b.integers([0]), _size(b, x, axis), b.integers([0])]
    return b.derive("Slice", [table, *bounds], b.dtype, (x.shape[axis], *rest))


def _last(b: Builder, table: str, x: Drawn, place: Place) -> str:
    axis, rest = place
    start = b.derive("Neg", [_size(b, x, axis)], INT64, (1,))
    bounds = [start, b.integers([2**31 - 1]), b.integers([0])]
    return b.derive("Slice", [table, *bounds], b.dtype, (x.shape[axis], *rest))


def _range(b: Builder, x: Drawn, axis: int) -> str:
    zero, one = (b.weight(np.array(number, np.int64), "i") for number in (0, 1))
    return b.derive("Range", [zero, _size(b, x, axis, ()), one], INT64, (x.shape[axis],))


def _counted(b: Builder, table: str, x: Drawn, place: Place) -> str:
    """Append a Gather of rows by number."""
    axis, rest = place
    return b.derive("Gather", [table, _range(b, x, axis)], b.dtype, (x.shape[axis], *rest), axis=0)


def _each(b: Builder, table: str, x: Drawn, place: Place) -> str:
    axis, rest = place
    places = b.derive("Reshape", [_range(b, x, axis), b.integers([-1, 1])], INT64, (x.shape[axis], 1))
    return b.derive("GatherND", [table, places], b.dtype, (x.shape[axis], *rest))


def _one(b: Builder, table: str, x: Drawn, place: Place) -> str:
    """Append the row at the last place, for all."""
    axis, rest = place
    last = b.derive("Sub", [_size(b, x, axis, ()), b.weight(np.array(1, np.int64), "i")], INT64, ())
    return b.derive("Gather", [table, last], b.dtype, tuple(rest), axis=0)


def _fed(b: Builder, table: str, x: Drawn, place: Place) -> str:
    """Append rows that an input chooses, by places along the axis."""
    axis, rest = place
    places = b.feed(b.rng.integers(0, x.shape[axis], x.shape[axis]))
    b.leave_open(places, 0)
    return b.derive("Gather", [table, places.name], b.dtype, (x.shape[axis], *rest), axis=0)
