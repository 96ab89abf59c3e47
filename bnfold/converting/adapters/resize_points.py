"""Resize where version 10 has none like it, along axes of known sizes: each new element is a sum of stored places."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto


class ResizedAxis(NamedTuple):
    """An axis, its size before and after, and the scale that coordinates are divided by."""

    axis: int
    before: int
    after: int
    scale: Fraction


Taps = list[tuple[int, Fraction]]
"""The places that one element is made of, and the weight of each."""


def decompose(conversion: NodeConversion) -> None:
    """Read the taps of every axis with Gather, and add them with their weights."""
    node, data, kind = conversion.node, conversion.input(0), conversion.dtype(conversion.input(0))
    axes, mode = [*_resized_axes(conversion)], node.attr("mode", "nearest")
    rank = conversion.rank(data)
    if mode != "nearest" and kind not in (TP.FLOAT16, TP.FLOAT, TP.DOUBLE):
        raise Inexpressible(f"interpolates integers (mode={mode}), which version 10 rounds in its own way")
    is_half = mode != "nearest" and kind == TP.FLOAT16
    if is_half:  # the sum is rounded once
        data = conversion.add("Cast", [data], "float", to=TP.FLOAT)
    for resized in axes:
        if not resized.after:
            data = conversion.sliced(data, resized.axis, 0, 0)
            continue
        data = _resampled(conversion, data, resized, [_taps(node, resized, at) for at in range(resized.after)], rank)
    if is_half:
        conversion.become("Cast", [data], to=kind)
    else:
        conversion.become("Identity", [data])


def _resized_axes(conversion: NodeConversion) -> Iterator[ResizedAxis]:
    """Yield the axes that change. Raises Inexpressible if the sizes of one of them are not known."""
    node, shape = conversion.node, conversion.shape(conversion.input(0))
    given, sizes = conversion.known(node.input(2)), conversion.known(node.input(3))
    made = conversion.shape(conversion.output()) if sizes is None else tuple(map(int, sizes.numpy()))
    scales = given.numpy() if given is not None and given.size else None
    # Sizes say the scale, but a scale is not what its sizes say: these are rounded.
    is_free = node.attr("coordinate_transformation_mode", "half_pixel") == "align_corners"  # which reads sizes alone
    is_computed = scales is None and node.input(3) is None and not is_free
    if is_computed or shape is None or (scales is None and (made is None or len(made) != len(shape))):
        raise Inexpressible("has scales that are not known")
    for axis, before in enumerate(shape):
        scale = None if scales is None else Fraction(float(scales[axis]))
        after = made[axis] if scale is None and made is not None else None
        if scale == 1 or (scale is None and after is not None and after == before):
            continue
        if not isinstance(before, int) or not before or (scale is None and not isinstance(after, int)):
            raise Inexpressible("has scales that are not known")
        size = after if isinstance(after, int) else math.floor(before * (scale or 1))
        if not size and scale is None:  # no legal scale makes it, and a declared size of 0 may mean an open one
            raise Inexpressible(f"has a size of 0 along axis {axis}")
        yield ResizedAxis(axis, before, size, scale or Fraction(size, before))


def _resampled(
    conversion: NodeConversion, data: ir.Value, resized: ResizedAxis, rows: list[Taps], rank: int
) -> ir.Value:
    """Return ``data`` with one axis resized; ``rows`` has the same number of taps for every element."""
    dims = [resized.after] + [1] * (rank - resized.axis - 1)
    terms = []
    for taps in zip(*rows, strict=True):
        places = conversion.ints([place for place, _ in taps], "places")
        term = conversion.add("Gather", [data, places], "taps", axis=resized.axis)
        weights = np.array([float(weight) for _, weight in taps])
        if (weights != 1).any():
            stored = weights.reshape(dims).astype(np.float64 if conversion.dtype(data) == TP.DOUBLE else np.float32)
            term = conversion.add("Mul", [term, conversion.constant(stored, "weights")], "weighted")
        terms.append(term)
    total = terms[0]
    for term in terms[1:]:
        total = conversion.add("Add", [total, term], "sum")
    return total


def _taps(node: ir.Node, resized: ResizedAxis, at: int) -> Taps:
    point, last = _point(node, resized, at), resized.before - 1
    mode = node.attr("mode", "nearest")
    if mode == "nearest":
        return [(min(max(_nearest(node, resized, point), 0), last), Fraction(1))]
    if mode == "linear":
        inside = min(max(point, Fraction(0)), Fraction(last))
        low = math.floor(inside)
        return [(low, low + 1 - inside), (min(low + 1, last), inside - low)]
    low = math.floor(point)
    weights = _cubic(Fraction(float(node.attr("cubic_coeff_a", -0.75))), point - low)
    taps = list(zip(range(low - 1, low + 3), weights, strict=True))
    if node.attr("exclude_outside", 0):
        total = sum(weight for place, weight in taps if 0 <= place <= last)
        taps = [(place, weight / total if 0 <= place <= last else Fraction(0)) for place, weight in taps]
    return [(min(max(place, 0), last), weight) for place, weight in taps]


def _point(node: ir.Node, resized: ResizedAxis, at: int) -> Fraction:
    """Return the coordinate before that an element is read at."""
    half = Fraction(1, 2)
    points: dict[str, Callable[[], Fraction]] = {
        "half_pixel": lambda: (at + half) / resized.scale - half,
        "pytorch_half_pixel": lambda: (at + half) / resized.scale - half if resized.after > 1 else Fraction(0),
        "asymmetric": lambda: at / resized.scale,
        "align_corners": lambda: Fraction(at * (resized.before - 1), resized.after - 1 or 1),
    }
    kind = node.attr("coordinate_transformation_mode", "half_pixel")
    if kind not in points:
        raise Inexpressible(f"reads at points ({kind}) that version 10 does not know")
    return points[kind]()


_MARGIN = Fraction(1, 1 << 12)
"""How far a coordinate has to be from where the nearest place changes, so that no rounding of float32 decides it."""


def _nearest(node: ir.Node, resized: ResizedAxis, point: Fraction) -> int:
    """Return the nearest place. Raises Inexpressible if float32 may come to another one."""
    mode, half = node.attr("nearest_mode", "round_prefer_floor"), Fraction(1, 2)
    edge = point - half if mode.startswith("round") else point
    distance = abs(edge - round(edge))
    if 0 < distance < _MARGIN or not (distance or _is_exact(node, resized, point)):
        raise Inexpressible(f"reads at {float(point):.7g}, where rounding decides between two neighbours")
    places = {
        "floor": math.floor(point),
        "ceil": math.ceil(point),
        "round_prefer_floor": math.ceil(point - half),
        "round_prefer_ceil": math.floor(point + half),
    }
    if mode not in places:
        raise Inexpressible(f"has nearest_mode={mode!r}, which its text does not know")
    return places[mode]


def _is_exact(node: ir.Node, resized: ResizedAxis, point: Fraction) -> bool:
    """Whether float32 computes a coordinate that it can hold without an error: then the scale has to be one, too."""
    divisor = resized.scale.denominator
    has_scale = divisor & (divisor - 1) == 0
    return has_scale or not point or node.attr("coordinate_transformation_mode") == "align_corners"


def _cubic(a: Fraction, away: Fraction) -> list[Fraction]:
    """Return the weights of the places at -1, 0, 1, 2 for a point ``away`` from place 0."""

    def near(x: Fraction) -> Fraction:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Fraction) -> Fraction:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(away + 1), near(away), near(1 - away), far(2 - away)]
