"""GridSample where it does not exist: the channels of each neighbour are gathered as a row, weighted and added.

Coordinates, neighbours and weights are those of the text, in the order in which onnxruntime rounds them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters.attributes import respell
from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto
_A = -0.75
_WEIGHTS: dict[str, tuple[int, list[list[float]]]] = {
    "nearest": (0, []),
    "linear": (0, [[1, 0], [-1, 1]]),
    "cubic": (-1, [
        [0, 1, 0, 0], [_A, 0, -_A, 0], [-2 * _A, -_A - 3, 2 * _A + 3, _A], [_A, _A + 2, -_A - 2, -_A],
    ]),
}  # fmt: skip
"""For each mode the first neighbour's place, and all weights as polynomials of the fraction: constants, slopes, …"""
_PADDINGS = {"nearest": ("zeros", "border", "reflection"), "linear": ("zeros", "border", "reflection")}
_PLANE = 4
"""Rank of an input with two spatial axes."""


class _Sampling(NamedTuple):
    mode: str
    padding: str
    has_corners: bool
    """Whether -1 and 1 are the middles of the outermost elements, and not their edges."""


class _Neighbours(NamedTuple):
    """The places along one axis that an output is made of, all as the last axis."""

    places: ir.Value
    weights: ir.Value | None
    is_inside: ir.Value | None


@down("GridSample", 20)
def on_plane(conversion: NodeConversion) -> None:
    """Convert GridSample 20 → 16: two spatial axes, and the modes' names for those; with more it is decomposed."""
    if conversion.rank(conversion.input(0)) != _PLANE:
        sampled(conversion)
    else:
        respell("mode", {"linear": "bilinear", "cubic": "bicubic"}, conversion)


@down("GridSample", 16)
def sampled(conversion: NodeConversion) -> None:
    """Decompose GridSample of an input of known sizes."""
    data, grid = conversion.input(0), conversion.input(1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(given := conversion.take("mode", "linear"), given)
    corners = bool(conversion.take("align_corners", 0))
    how = _Sampling(mode, conversion.take("padding_mode", "zeros"), corners)
    batch, channels, *sizes = _sizes(conversion, how)
    rank, count = len(sizes), math.prod(sizes)
    offsets = np.arange(batch).reshape(-1, *[1] * (2 * rank)) * count
    row: ir.Value = conversion.constant(offsets, "batches")
    weights: ir.Value | None = None
    is_inside: ir.Value | None = None
    for axis, size in enumerate(sizes):
        found = _neighbours(conversion, grid, rank - 1 - axis, size, how)  # the grid has the last axis first
        others = [rank + 1 + place for place in range(rank) if place != axis]
        own, weight, inside = (_spread(conversion, value, others) for value in found)
        assert own is not None
        stride = conversion.ints([math.prod(sizes[axis + 1 :])], "stride")
        row = conversion.add("Add", [row, conversion.add("Mul", [own, stride], "steps")], "rows")
        weights = _joined(conversion, "Mul", weights, weight)
        is_inside = _joined(conversion, "And", is_inside, inside)
    table = _rows(conversion, data, channels)
    if is_inside is not None:
        zeros = conversion.constant(np.zeros((1, channels), numeric_type(conversion.dtype(data))), "zeros")
        table = conversion.add("Concat", [table, zeros], "rows_and_zeros", axis=0)
        outside = conversion.constant(np.array(batch * count, np.int64), "outside")
        row = conversion.add("Where", [is_inside, row, outside], "rows")
    _added_up(conversion, conversion.add("Gather", [table, row], "neighbours", axis=0), weights, rank)


def _sizes(conversion: NodeConversion, how: _Sampling) -> list[int]:
    """Return the sizes of the input. Raises Inexpressible for what cannot be composed."""
    data, grid = conversion.input(0), conversion.input(1)
    shape = conversion.shape(data) or ()
    sizes = [size for size in shape if isinstance(size, int) and size]
    if not sizes or len(sizes) < len(shape):
        raise Inexpressible("samples an input of unknown sizes")
    if how.padding not in _PADDINGS.get(how.mode, ("zeros",)) or how.mode not in _WEIGHTS:
        raise Inexpressible(f"samples with mode={how.mode} and padding_mode={how.padding}")
    if how.padding == "reflection" and how.has_corners and 1 in sizes[2:]:
        raise Inexpressible("reflects an axis of one element")
    if (kind := conversion.dtype(grid)) not in (TP.FLOAT, TP.DOUBLE):
        raise Inexpressible("has coordinates of less than 32 bits")
    if how.mode != "nearest" and conversion.dtype(data) != kind:
        raise Inexpressible("has an input and a grid of two types")
    return sizes


def _neighbours(conversion: NodeConversion, grid: ir.Value, index: int, size: int, how: _Sampling) -> _Neighbours:
    """Return the neighbours along one axis of the points that the grid names."""
    point = _point(conversion, grid, index, size, has_corners=how.has_corners)
    if how.padding == "border":
        point = _clamped(conversion, point, 0, size - 1)
    elif how.padding == "reflection":
        point = _reflected(conversion, point, *((0, size - 1) if how.has_corners else (-0.5, size - 0.5)))
    first, polynomials = _WEIGHTS[how.mode]
    weights = None
    if polynomials:
        below = conversion.add("Floor", [point], "below")
        weights = _weights(conversion, conversion.add("Sub", [point, below], "fraction"), polynomials)
        steps = conversion.ints(range(first, first + len(polynomials[0])), "steps")
        nearest = conversion.add("Cast", [below], "number", to=TP.INT64)
        places = conversion.add("Add", [nearest, steps], "places")
    else:
        nearest = conversion.add("Round", [point], "rounded")
        places = conversion.add("Cast", [nearest], "places", to=TP.INT64)
    is_inside = None
    if how.padding == "zeros":
        is_behind = conversion.add("Greater", [places, conversion.scalar(-1, places, "before")], "is_behind_start")
        is_before = conversion.add("Less", [places, conversion.scalar(size, places, "end")], "is_before_end")
        is_inside = conversion.add("And", [is_behind, is_before], "is_inside")
    else:
        places = _clamped(conversion, places, 0, size - 1)
    return _Neighbours(places, weights, is_inside)


def _point(conversion: NodeConversion, grid: ir.Value, index: int, size: int, *, has_corners: bool) -> ir.Value:
    """Return coordinates between -1 and 1 as places along the axis."""
    one, two = conversion.scalar(1, grid, "one"), conversion.scalar(2, grid, "two")
    position = conversion.ints([index], "coordinate")
    own = conversion.add("Gather", [grid, position], "coordinate", axis=conversion.rank(grid) - 1)
    own = conversion.add("Add", [own, one], "from_0")
    if has_corners:
        own = conversion.add("Div", [own, two], "part")
        return conversion.add("Mul", [own, conversion.scalar(size - 1, grid, "last")], "point")
    own = conversion.add("Mul", [own, conversion.scalar(size, grid, "size")], "doubled")
    return conversion.add("Div", [conversion.add("Sub", [own, one], "from_middle"), two], "point")


def _clamped(conversion: NodeConversion, value: ir.Value, low: float, high: float) -> ir.Value:
    """Bring numbers between two bounds; NaN stays."""
    for comparison, bound in (("Less", low), ("Greater", high)):
        stored = conversion.scalar(bound, value, "bound")
        value = conversion.add("Where", [conversion.add(comparison, [value, stored], "is_beyond"), stored, value],
                               "clamped")  # fmt: skip
    return value


def _reflected(conversion: NodeConversion, point: ir.Value, low: float, high: float) -> ir.Value:
    """Bring back what is beyond a bound by reflection, as often as it takes."""
    bounds = [conversion.scalar(bound, point, "bound") for bound in (low, high)]
    half, reach = conversion.scalar(0.5, point, "half"), conversion.scalar(high - low, point, "reach")
    is_low = conversion.add("Less", [point, bounds[0]], "is_low")
    is_high = conversion.add("Greater", [point, bounds[1]], "is_high")
    beyond = [conversion.add("Sub", ends, "beyond") for ends in ([bounds[0], point], [point, bounds[1]])]
    distance = conversion.add("Where", [is_low, *beyond], "distance")
    turns = conversion.add("Floor", [conversion.add("Div", [distance, reach], "quotient")], "turns")
    rest = conversion.add("Sub", [distance, conversion.add("Mul", [turns, reach], "whole")], "rest")
    halved = conversion.add("Mul", [turns, half], "halved")
    is_odd = conversion.add("Less", [conversion.add("Floor", [halved], "even"), halved], "is_odd")
    from_low = conversion.add("Xor", [is_low, is_odd], "from_low")
    ends = [
        conversion.add("Add", [bounds[0], rest], "behind_low"),
        conversion.add("Sub", [bounds[1], rest], "before_high"),
    ]
    reflected = conversion.add("Where", [from_low, *ends], "reflected")
    is_beyond = conversion.add("Or", [is_low, is_high], "is_beyond")
    return conversion.add("Where", [is_beyond, reflected, point], "inside")


def _weights(conversion: NodeConversion, fraction: ir.Value, polynomials: Sequence[Sequence[float]]) -> ir.Value:
    """Return the neighbours' weights as the last axis."""
    dtype = numeric_type(conversion.dtype(fraction))
    *lower, total = [conversion.constant(np.array(row, dtype), "polynomial") for row in polynomials]
    for row in reversed(lower):
        total = conversion.add("Add", [conversion.add("Mul", [total, fraction], "term"), row], "weights")
    return total


def _spread(conversion: NodeConversion, value: ir.Value | None, axes: Sequence[int]) -> ir.Value | None:
    """Add axes of one element for the neighbours along the other axes."""
    return value if value is None or not axes else conversion.along("Unsqueeze", value, axes, "spread")


def _joined(
    conversion: NodeConversion, op_type: str, first: ir.Value | None, second: ir.Value | None
) -> ir.Value | None:
    if first is None or second is None:
        return first or second
    return conversion.add(op_type, [first, second], op_type.lower())


def _rows(conversion: NodeConversion, data: ir.Value, channels: int) -> ir.Value:
    """Return every element's channels as a row."""
    rank = conversion.rank(data)
    last = conversion.add("Transpose", [data], "channels_last", perm=[0, *range(2, rank), 1])
    return conversion.reshape(last, [-1, channels], "rows")


def _added_up(conversion: NodeConversion, taken: ir.Value, weights: ir.Value | None, rank: int) -> None:
    """Add up the weighted rows, and bring the channels to the front."""
    over = list(range(rank + 1, 2 * rank + 1))
    if weights is None:
        summed = conversion.along("Squeeze", taken, over, "rows")
    else:
        column = conversion.along("Unsqueeze", weights, [2 * rank + 1], "column")
        weighted = conversion.add("Mul", [taken, column], "weighted")
        summed = conversion.along("ReduceSum", weighted, over, "rows", keepdims=0)
    conversion.become("Transpose", [summed], perm=[0, rank + 1, *range(1, rank + 1)])
