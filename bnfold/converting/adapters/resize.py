"""Upsample 1, 7, 9 and Resize 10 to Resize 11.

Before 11 the coordinate is ``x / scale``. The nearest neighbour is the one below where an axis grows and the one above
where it shrinks (onnx's own test data and onnxruntime's kernel agree); Resize-11 has one choice for all axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters.attributes import respell
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down, new_values, up

TP = onnx.TensorProto

new_values("Resize", "coordinate_transformation_mode", half_pixel_symmetric=19)


class ResizedAxis(NamedTuple):
    """An axis, its size before and after, and the scale that coordinates are divided by."""

    axis: int
    before: int
    after: int
    scale: Fraction


Taps = list[tuple[int, Fraction]]
"""The places that one element is made of, and the weight of each."""


def decompose_points(conversion: NodeConversion) -> None:
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


@up("Upsample", 7)
def height_and_width(conversion: NodeConversion) -> None:
    """Convert Upsample 1 → 7: two scales become four."""
    height, width = conversion.take("height_scale"), conversion.take("width_scale")
    if height is None or width is None:
        if conversion.node.has_attr("scales"):
            return
        raise Inexpressible("has no height_scale or no width_scale")
    conversion.node.set_attr("scales", [1.0, 1.0, float(height), float(width)])
    plain_mode(conversion)


@up("Upsample", 9)
def scales_input(conversion: NodeConversion) -> None:
    """Convert Upsample 7 → 9: ``scales`` is an input."""
    scales = conversion.take("scales")
    if scales is not None:
        conversion.node.set_inputs([conversion.input(0), _scales(conversion, scales)])
    elif conversion.node.input(1) is None:
        raise Inexpressible("has no scales")
    plain_mode(conversion)


@up("Upsample", 10)
def upsample_to_resize(conversion: NodeConversion) -> None:
    """Convert Upsample 9 → Resize: no axis of an Upsample shrinks."""
    if conversion.node.has_attr("scales"):
        scales_input(conversion)
    plain_mode(conversion)
    conversion.node.set_op_type("Resize")
    if conversion.target >= 11:
        _at_asymmetric_points(conversion, conversion.input(0), conversion.input(1), "floor")
        conversion.finished = True  # the later versions of Resize only add to this form


@up("Resize", 11)
def coordinates(conversion: NodeConversion) -> None:
    """Convert Resize 10 → 11: state the coordinates and rounding that version 10 always uses.

    If some axes grow and others shrink, there is one Resize for each kind.
    """
    if len(conversion.node.inputs) > 2:
        return  # written in the later form already
    data, scales = conversion.input(0), conversion.input(1)
    grow, shrink = (
        _directions(conversion, scales) if conversion.node.attr("mode", "nearest") == "nearest" else (scales, None)
    )
    if grow is not None and shrink is not None:
        points = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        data = conversion.add("Resize", [data, _roi(conversion), grow], "grown", mode="nearest", **points)
    _at_asymmetric_points(conversion, data, shrink or grow or scales, "ceil" if shrink else "floor")


@up("Resize", 13)
def scales_or_sizes(conversion: NodeConversion) -> None:
    """Convert Resize 11 → 13, which takes scales or sizes: the empty one of the two is left out.

    Version 11 allows sizes only beside empty scales: if sizes have elements, then scales are empty, even fed ones.
    """
    node, given = conversion.node, (conversion.node.input(2), conversion.node.input(3))
    has_elements, is_empty = ([holds(conversion, value) for value in given] for holds in (_has_elements, _is_empty))
    if None in given or all(has_elements):
        return  # one is left out already, or it is an error in either version
    if has_elements[1] or is_empty[0]:
        node.set_input(2, None)
    elif has_elements[0] or is_empty[1]:
        node.set_inputs(node.inputs[:3])
    else:
        raise Inexpressible("has scales and sizes, and it is not known which of them is empty")


def _has_elements(conversion: NodeConversion, value: ir.Value | None) -> bool:
    shape = None if value is None else conversion.shape(value)
    return bool(shape) and all(isinstance(size, int) and size for size in shape or ())


def _is_empty(conversion: NodeConversion, value: ir.Value | None) -> bool:
    """Whether a value has no elements in any run: an input that declares a size of 0 may mean an open one."""
    return value is not None and not value.is_input and conversion.shape(value) == (0,)


def _at_asymmetric_points(conversion: NodeConversion, data: ir.Value, scales: ir.Value, neighbour: str) -> None:
    conversion.node.set_inputs([data, _roi(conversion), scales])
    conversion.node.set_attr("coordinate_transformation_mode", "asymmetric")
    if conversion.node.attr("mode", "nearest") == "nearest":
        conversion.node.set_attr("nearest_mode", neighbour)


def _directions(conversion: NodeConversion, scales: ir.Value) -> tuple[ir.Value | None, ir.Value | None]:
    """Return the scales of the growing and of the shrinking axes, 1 elsewhere.

    None where there are none of the kind.
    """
    tensor = conversion.known(scales)
    if tensor is None:
        one = conversion.constant(np.array(1.0, np.float32), "one")
        return conversion.add("Max", [scales, one], "grow"), conversion.add("Min", [scales, one], "shrink")
    values = tensor.numpy().astype(np.float32)
    grow = _scales(conversion, np.maximum(values, 1)) if (values > 1).any() else None
    shrink = _scales(conversion, np.minimum(values, 1)) if (values < 1).any() else None
    return grow, shrink


def _scales(conversion: NodeConversion, values: object) -> ir.Value:
    return conversion.constant(np.asarray(values, np.float32), "scales")


def _roi(conversion: NodeConversion) -> ir.Value | None:
    """Give a Resize its roi: version 11 demands the input that only tf_crop_and_resize reads.

    From 13 on it may be left out.
    """
    return None if conversion.target >= 13 else conversion.constant(np.zeros(0, np.float32), "roi")


plain_mode = partial(respell, "mode", {"bilinear": "linear", "trilinear": "linear"})
"""Rename the modes of linear interpolation that were named after the number of axes."""


@down("Resize", 13)
def empty_inputs(conversion: NodeConversion) -> None:
    """Convert Resize 13 → 11: it demands the roi that nothing reads, and empty scales beside sizes."""
    node = conversion.node
    for slot in (1, 2):
        if node.input(slot) is None:
            node.set_input(slot, conversion.constant(np.zeros(0, np.float32), "none"))


@down("Resize", 18)
def every_axis(conversion: NodeConversion) -> None:
    """Convert Resize 18 → 13: ``axes`` go, and there are scales or sizes for every axis."""
    node, axes = conversion.node, conversion.take("axes")
    if not axes:
        return
    rank = conversion.rank(conversion.input(0))
    places = [axis % rank for axis in axes]
    if node.input(1) is not None and node.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Inexpressible("crops along axes of its own")
    if (scales := node.input(2)) is not None and conversion.shape(scales) != (0,):
        node.set_input(2, _full(conversion, scales, places, rank, None))
    if (sizes := node.input(3)) is not None:
        node.set_input(3, _full(conversion, sizes, places, rank, conversion.input(0)))


def _full(conversion: NodeConversion, given: ir.Value, places: list[int], rank: int, data: ir.Value | None) -> ir.Value:
    """Return numbers for every axis, from those of some; the others keep the size of ``data``, or are scaled by 1."""
    tensor = conversion.known(given)
    shape = (1.0,) * rank if data is None else (conversion.shape(data) or ())
    if tensor is None or not all(isinstance(size, (int, float)) and size for size in shape):
        others = _scales(conversion, shape) if data is None else conversion.add("Shape", [data], "shape")
        table = [places.index(axis) if axis in places else len(places) + axis for axis in range(rank)]
        longer = conversion.add("Concat", [given, others], "given_and_others", axis=0)
        return conversion.add("Gather", [longer, conversion.ints(table, "places")], "every_axis", axis=0)
    full = np.array(shape, np.float32 if data is None else np.int64)
    full[places] = tensor.numpy()
    return conversion.constant(full, "every_axis")


_MIDDLES = ("half_pixel", "pytorch_half_pixel")


@down("Resize", 11)
def fixed_points(conversion: NodeConversion) -> None:
    """Convert Resize 11 → 10, whose points are ``x / scale``; the nearest one is below where all grows, else above."""
    node, scales = conversion.node, _known_scales(conversion)
    if scales is None or not _has_fixed_points(node, scales):
        decompose_points(conversion)
        return
    for name in [name for name in node.attrs if name != "mode"]:
        node.del_attr(name)
    node.set_inputs([conversion.input(0), _scales(conversion, scales)])


def _has_fixed_points(node: ir.Node, scales: np.ndarray[Any, np.dtype[np.float32]]) -> bool:
    mode, points = node.attr("mode", "nearest"), node.attr("coordinate_transformation_mode", "half_pixel")
    if mode != "nearest":
        return bool(mode == "linear" and points == "asymmetric")
    grows, is_whole = bool((scales >= 1).all()), bool((scales == np.floor(scales)).all())
    neighbour = node.attr("nearest_mode", "round_prefer_floor")
    is_plain = points == "asymmetric" and neighbour == ("floor" if grows else "ceil")
    # Between whole multiples, the middle of no pixel lies half way between two.
    is_middle = points in _MIDDLES and neighbour.startswith("round") and is_whole
    return (grows and (is_plain or is_middle)) or (is_plain and bool((scales <= 1).all()))


def _known_scales(conversion: NodeConversion) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    """Return the scales of every axis, if they are known; sizes count as scales if they are whole multiples."""
    given, sizes = conversion.known(conversion.node.input(2)), conversion.known(conversion.node.input(3))
    if given is not None and given.size:
        return given.numpy().astype(np.float32)
    shape = conversion.shape(conversion.input(0))
    if sizes is None or shape is None or not all(isinstance(size, int) and size for size in shape):
        return None
    wanted, own = sizes.numpy(), np.array(shape, np.int64)
    if wanted.shape != own.shape or (wanted % own).any() or (wanted < own).any():
        return None
    return (wanted // own).astype(np.float32)


@down("Resize", 10)
def to_upsample(conversion: NodeConversion) -> None:
    """Convert Resize 10 → Upsample, which scales no axis down: the points of one that shrinks are read one by one."""
    tensor, data = conversion.known(conversion.input(1)), conversion.input(0)
    if tensor is None:
        raise Inexpressible("has scales that are not known, which needs opset 10")
    if (tensor.numpy() < 1).any():
        coordinates(conversion)
        decompose_points(conversion)
        return
    conversion.become("Upsample", [data, conversion.input(1)], mode=conversion.node.attr("mode", "nearest"))


@down("Upsample", 9)
def stated_scales(conversion: NodeConversion) -> None:
    """Convert Upsample 9 → 7: ``scales`` is an attribute."""
    tensor = conversion.known(conversion.input(1))
    if tensor is None or tensor.dtype != onnx.TensorProto.FLOAT or not tensor.size:
        raise Inexpressible("has scales that are not constant, which needs opset 9")
    conversion.node.set_inputs([conversion.input(0)])
    conversion.node.set_attr("scales", [float(scale) for scale in tensor.numpy().reshape(-1)])
