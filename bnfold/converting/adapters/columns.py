"""Col2Im where it does not exist: each element of the image gathers the columns' elements that fall on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down

TP = onnx.TensorProto


@down("Col2Im", 18)
def to_image(conversion: NodeConversion) -> None:
    """Decompose Col2Im of an image and blocks of known sizes."""
    node, data = conversion.node, conversion.input(0)
    image, block = (conversion.numbers(conversion.input(index), f"its {what}_shape") for index, what in _SHAPES)
    rank, shape = len(image), conversion.shape(data)
    dilations, strides = node.attr("dilations", [1] * rank), node.attr("strides", [1] * rank)
    pads, size = node.attr("pads", [0] * (2 * rank)), math.prod(block)
    if shape is None or len(shape) != 3 or not isinstance(shape[1], int):
        raise Inexpressible("has channels that are not known")
    if not image or len(block) != rank or not size or shape[1] % size:
        raise Inexpressible(f"has blocks of {block} in an image of {image} from {shape[1]} rows")
    axes = [
        _places(image[axis], block[axis], dilations[axis], strides[axis], pads[axis], pads[rank + axis])
        for axis in range(rank)
    ]
    sources = _sources(axes, image)
    columns = math.prod(place.size for place in axes)
    flat = conversion.reshape(data, [-1, columns], "columns")
    taken = conversion.add("Gather", [_with_zero(conversion, flat), conversion.constant(sources, "sources")], "taken",
                           axis=1)  # fmt: skip
    summed = conversion.along("ReduceSum", taken, [1], "pixels", keepdims=0)
    conversion.become("Reshape", [summed, conversion.ints([-1, shape[1] // size, *image], "shape")])


_SHAPES = ((1, "image"), (2, "block"))


def _places(size: int, block: int, dilation: int, stride: int, before: int, behind: int) -> npt.NDArray[np.int64]:
    """Return where along an axis each element of a block falls, for each block; outside the image it is -1."""
    count = (size + before + behind - dilation * (block - 1) - 1) // stride + 1
    places = np.arange(block)[:, None] * dilation + np.arange(max(count, 0)) * stride - before
    return np.where((places >= 0) & (places < size), places, -1)


def _sources(axes: Sequence[npt.NDArray[np.int64]], image: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return for each pixel the elements that fall on it, in rows that end with the place behind the last element."""
    rank = len(image)
    pixels = np.zeros((1,) * (2 * rank), np.int64)
    is_inside = np.ones((1,) * (2 * rank), bool)
    for axis, places in enumerate(axes):  # all elements of a block come before the blocks
        spread = np.expand_dims(places, [place for place in range(2 * rank) if place not in (axis, rank + axis)])
        pixels = pixels * image[axis] + spread
        is_inside = is_inside & (spread >= 0)
    flat = np.where(is_inside, pixels, -1).reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[flat[order] >= 0]
    counts = np.bincount(flat[order], minlength=math.prod(image))
    rows = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    sources = np.full((int(counts.max(initial=1)) or 1, counts.size), flat.size)
    sources[rows, flat[order]] = order
    return sources


def _with_zero(conversion: NodeConversion, flat: ir.Value) -> ir.Value:
    """Append a column of zeros."""
    pads = [0, 0, 0, 1]
    return conversion.add("Pad", [flat, conversion.ints(pads, "pads")], "columns_and_0")
