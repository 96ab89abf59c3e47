"""Sizes that inference and runtimes may compute differently.

A factor whose product lies on the edge of an integer, a ceil_mode, an auto_pad beside what its formula does not know, a
Slice that goes backward to the largest integer, or Slice-10 along an axis of dynamic size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bnfold.analysis.constants import constant
from bnfold.analysis.traits import WINDOWED
from bnfold.errors import ReferenceAttribute
from bnfold.ir.node import Node
from bnfold.ir.value import Dim

_EDGE = 2.0**-20
"""Relative distance from an integer within which a product in float32 may fall on its other side."""
RESIZING = ("Resize", "Upsample")
POOLING = ("MaxPool", "AveragePool", "LpPool")

LARGEST_END = 2**31 - 1
"""From here on an end stands for the last element, which backward only some take for the first one."""


def scales(node: Node) -> list[float] | None:
    """Return the factors of a Resize or Upsample, by axis.

    None where sizes are given instead, or factors are computed.
    """
    if node.has_attr("scales"):
        return [float(scale) for scale in node.attr("scales")]
    if node.has_attr("width_scale"):
        return [1.0, 1.0, float(node.attr("height_scale")), float(node.attr("width_scale"))]
    held = constant(node.input(scales_slot(node)))
    return None if held is None else [float(scale) for scale in held.float64().reshape(-1)] or None


def scales_slot(node: Node) -> int:
    """Say which input the factors come in at: Resize-11 put a region before them."""
    return 2 if node.op_type == "Resize" and node.graph.opset() >= 11 else 1


_TELLING = frozenset({"auto_pad", "ceil_mode", "output_shape"})
"""The attributes without which every runtime counts the windows alike."""


def may_be_unsure(node: Node) -> bool:
    """Whether the size of what a node makes may take arithmetic that runtimes do differently."""
    try:
        if node.has_trait(WINDOWED):
            if _TELLING.isdisjoint([attribute.name for attribute in node.proto.attribute[:]]):
                return False  # as nearly all
            stated = node.attr("ceil_mode", 0) or node.attr("output_shape")
            return bool(stated) or _is_ambiguous(node) or any(_is_padded_oddly(node))
        is_slice = node.is_op("Slice")
        return node.is_op(*RESIZING) or (is_slice and (_keeps_letters(node) or any(_backward_to_the_largest(node))))
    except (ValueError, LookupError, ReferenceAttribute):
        return True  # a damaged node


def unsure_axes(node: Node, dims: Sequence[Dim]) -> set[int]:
    """Return the axes of the first output whose size runtimes may disagree about, where the input has these dims."""
    if not may_be_unsure(node):
        return set()
    find = _windowed if node.has_trait(WINDOWED) else _sliced if node.is_op("Slice") else _resized
    try:
        return set(find(node, dims))
    except (ValueError, LookupError, ZeroDivisionError, ReferenceAttribute):
        return set(range(len(dims)))  # a damaged node


def _is_ambiguous(node: Node) -> bool:
    """Whether both auto_pad and pads are given."""
    return node.attr("auto_pad", "NOTSET") not in ("NOTSET", "") and node.has_attr("pads")


def _is_padded_oddly(node: Node) -> list[bool]:
    """Say by axis whether some runtimes pad to the SAME size as if there were no dilations or output_padding."""
    if not node.attr("auto_pad", "NOTSET").startswith("SAME"):
        return []
    if node.is_op("ConvTranspose"):
        return [extra > 0 for extra in node.attr("output_padding", [])]
    return [dilation > 1 for dilation in node.attr("dilations", [])] if node.is_op(*POOLING) else []


def _windowed(node: Node, dims: Sequence[Dim]) -> Iterator[int]:
    """Say by axis what runtimes differ about.

    Under ceil_mode some leave a window out that starts behind the last element, and round up where VALID does
    not.

    With SAME, they count a step more. Of an ``output_shape`` below the input's, inference knows not even the rank.
    """
    wanted = zip(node.attr("output_shape", []), dims[2:], strict=False)
    if _is_ambiguous(node) or any(isinstance(size, int) and made < size for made, size in wanted):
        yield from range(2, len(dims))
        return
    yield from (2 + axis for axis, is_odd in enumerate(_is_padded_oddly(node)) if is_odd)
    if not node.attr("ceil_mode", 0):
        return
    taps, mode = node.attr("kernel_shape", []), node.attr("auto_pad", "NOTSET")
    ones, pads = [1] * len(taps), node.attr("pads", [0] * 2 * len(taps))
    rows = zip(taps, node.attr("strides", ones), node.attr("dilations", ones), strict=True)
    for axis, (tap, stride, dilation) in enumerate(rows):
        size, first, last = dims[2 + axis], pads[axis], pads[len(taps) + axis]
        if mode.startswith("SAME"):
            if stride > 1:
                yield 2 + axis
        elif isinstance(size, int):
            room = size + first + last - (tap - 1) * dilation - 1
            if -(-room // stride) * stride >= size + first or (mode == "VALID" and room % stride):
                yield 2 + axis


def _sliced(node: Node, dims: Sequence[Dim]) -> Iterator[int]:
    axes = constant(node.input(3))
    places = range(len(dims)) if axes is None else axes.numpy().reshape(-1).tolist()
    if _keeps_letters(node):
        yield from (place % len(dims) for place in places if not isinstance(dims[place % len(dims)], int))
    yield from (
        place % len(dims) for place, is_odd in zip(places, _backward_to_the_largest(node), strict=False) if is_odd
    )


def _keeps_letters(node: Node) -> bool:
    """Whether inference gives the axes that are sliced the dynamic size that they had: that of version 10 does."""
    return node.graph.opset() == _KEEPS_LETTERS


_KEEPS_LETTERS = 10


def _backward_to_the_largest(node: Node) -> list[bool]:
    """Say by place whether elements are taken backward up to an end that for some stands for the first one."""
    steps = constant(node.input(4))
    if steps is None or not (steps.numpy() < 0).any() or (ends := constant(node.input(2))) is None:
        return []
    rows = zip(ends.numpy().reshape(-1).tolist(), steps.numpy().reshape(-1).tolist(), strict=False)
    return [step < 0 and end >= LARGEST_END for end, step in rows]


def _resized(node: Node, dims: Sequence[Dim]) -> Iterator[int]:
    factors = scales(node)
    axes = [axis % len(dims) for axis in node.attr("axes", range(len(dims)))]
    crops = node.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    if crops or (factors is None and node.attr("keep_aspect_ratio_policy", "stretch") != "stretch"):
        yield from axes
    for axis, factor in zip(axes, factors or (), strict=False):
        size = dims[axis]
        if isinstance(size, int) and is_on_edge(size * float(np.float32(factor))):
            yield axis


def is_on_edge(product: float) -> bool:
    """Whether rounding in float32 may move a product across an integer; an integer itself stays where it is."""
    distance = abs(product - round(product))
    return 0 < distance <= product * _EDGE
