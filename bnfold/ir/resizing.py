"""Sizes that runtimes may compute differently: a factor whose product lies on the edge of an integer, a ceil_mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

import numpy as np
from onnx import TypeProto

from bnfold.errors import ReferenceAttribute
from bnfold.ir.constants import constant
from bnfold.ir.node import Node
from bnfold.ir.value import Dim

_EDGE = 2.0**-20
"""Relative distance from an integer within which a product in float32 may fall on its other side."""
RESIZING = ("Resize", "Upsample")
POOLING = ("MaxPool", "AveragePool", "LpPool")


def scales(node: Node) -> list[float] | None:
    """The factors of a Resize or Upsample, by axis; None where sizes are given instead, or factors are computed."""
    if node.has_attr("scales"):
        return [float(scale) for scale in node.attr("scales")]
    if node.has_attr("width_scale"):
        return [1.0, 1.0, float(node.attr("height_scale")), float(node.attr("width_scale"))]
    held = constant(node.input(scales_slot(node)))
    return None if held is None else [float(scale) for scale in held.float64().reshape(-1)] or None


def scales_slot(node: Node) -> int:
    """Which input the factors come in at: Resize-11 put a region before them."""
    return 2 if node.op_type == "Resize" and node.graph.opset() >= 11 else 1


def may_be_unsure(node: Node) -> bool:
    """Whether the size of what a node makes may take arithmetic that runtimes do differently."""
    if node.is_op(*POOLING):
        return node.has_attr("ceil_mode")
    return node.is_op(*RESIZING)


def unsure_axes(node: Node, dims: Sequence[Dim]) -> set[int]:
    """The axes of the first output whose size runtimes may disagree about, where the input has these dims."""
    if not may_be_unsure(node):
        return set()
    try:
        return set(_resized(node, dims) if node.is_op(*RESIZING) else _pooled(node, dims))
    except (ValueError, LookupError, ZeroDivisionError, ReferenceAttribute):
        return set(range(len(dims)))  # a damaged node


def _pooled(node: Node, dims: Sequence[Dim]) -> Iterator[int]:
    """Some make a window that starts behind the last element, and others leave it out."""
    taps = node.attr("kernel_shape", [])
    if not node.attr("ceil_mode", 0) or node.attr("auto_pad", "NOTSET") not in ("NOTSET", ""):
        return
    ones, pads = [1] * len(taps), node.attr("pads", [0] * 2 * len(taps))
    rows = zip(taps, node.attr("strides", ones), node.attr("dilations", ones), strict=True)
    for axis, (tap, stride, dilation) in enumerate(rows):
        size, first, last = dims[2 + axis], pads[axis], pads[len(taps) + axis]
        if isinstance(size, int):
            steps = -(-(size + first + last - (tap - 1) * dilation - 1) // stride)
            if steps * stride >= size + first:
                yield 2 + axis


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


def without_sizes(kind: TypeProto, axes: set[int]) -> TypeProto:
    """A copy of a tensor's type that leaves the sizes of some axes open."""
    copy = deepcopy(kind)
    for axis, dim in enumerate(copy.tensor_type.shape.dim):
        if axis in axes:
            dim.Clear()
    return copy


def is_on_edge(product: float) -> bool:
    """Whether rounding in float32 may move a product across an integer; an integer itself stays where it is."""
    distance = abs(product - round(product))
    return 0 < distance <= product * _EDGE
