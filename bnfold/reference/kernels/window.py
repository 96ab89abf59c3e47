"""Geometry shared by convolution and pooling: padding, output sizes, and strided views of the input.

Source: the operator texts of Conv, ConvTranspose, AveragePool, MaxPool and LpPool, all versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.registry import Call, require

Index = Any


def last_axes(*picks: int | slice) -> Index:
    """Return an index into the last axes of an array, all of the others."""
    return (..., *picks)


class Window(NamedTuple):
    """A sliding window over the spatial axes; every tuple has one entry a spatial axis.

    ``begin`` and ``end`` are the padding in force; ``size`` is the number of window positions.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    size: tuple[int, ...]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """Return every index into the kernel, in row-major order."""
        return product(*(range(k) for k in self.kernel))

    def view(self, padded: Array, offset: Sequence[int]) -> Array:
        """Return the elements of ``padded`` (N, C, spatial…) that meet the kernel element ``offset``.

        Shape (N, C, *size).
        """
        return padded[last_axes(*self.slices(offset))]

    def slices(self, offset: Sequence[int]) -> tuple[slice, ...]:
        """Return the padded positions that the kernel element ``offset`` visits, a slice an axis."""
        return tuple(
            slice(o * d, o * d + s * (n - 1) + 1, s) if n else slice(0, 0)
            for o, d, s, n in zip(offset, self.dilations, self.strides, self.size, strict=True)
        )

    def padded(self, x: Array, fill: float) -> Array:
        """Pad ``x`` with ``fill``, as far as the windows reach (beyond the end padding under ceil_mode)."""
        ends = [max(r - b - n, 0) for r, b, n in zip(self.reach(), self.begin, x.shape[2:], strict=True)]
        if not any((*self.begin, *ends)):
            return x
        sizes = [sum(sized) for sized in zip(self.begin, x.shape[2:], ends, strict=True)]
        padded = np.full((*x.shape[:2], *sizes), fill, x.dtype)  # numpy.pad takes as long as the convolution
        padded[last_axes(*(slice(b, b + n) for b, n in zip(self.begin, x.shape[2:], strict=True)))] = x
        return padded

    def reach(self) -> tuple[int, ...]:
        """Return how many padded elements the windows touch on each axis; may pass the end under ceil_mode."""
        return tuple(
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.size, self.strides, self.kernel, self.dilations, strict=True)
        )


def window(call: Call, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
    """Return the window of a Conv or pooling node over an input with these spatial dims."""
    rank = len(spatial)
    require(len(kernel) == rank and min(kernel, default=1) > 0, f"a kernel {list(kernel)} over {rank} spatial axes")
    is_stated = call.attr("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    require(0 not in spatial or is_stated, f"nothing in a spatial axis of {list(spatial)}")
    strides = per_axis(call, "strides", rank, 1)
    dilations = per_axis(call, "dilations", rank, 1)
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    begin, end = paddings(call, spatial, extent, strides)
    size = tuple(
        output_size(call, n + b + e - x, s, b, n)
        for n, b, e, x, s in zip(spatial, begin, end, extent, strides, strict=True)
    )
    return Window(tuple(kernel), strides, dilations, begin, end, size)


def per_axis(call: Call, name: str, rank: int, default: int) -> tuple[int, ...]:
    """Return an attribute of one integer a spatial axis, not less than its default."""
    values = tuple(call.attr(name) or (default,) * rank)
    require(len(values) == rank and min(values, default=default) >= default, f"{name} {list(values)} for {rank} axes")
    return values


def paddings(
    call: Call, spatial: Sequence[int], extent: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return padding before and after each axis.

    SAME_* covers ceil(size / stride) positions, the odd one at the named end.
    """
    rank = len(spatial)
    mode = call.attr("auto_pad") or "NOTSET"
    if mode == "VALID":
        return (0,) * rank, (0,) * rank
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [max((-(-n // s) - 1) * s + x - n, 0) for n, x, s in zip(spatial, extent, strides, strict=True)]
        small, large = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        return (small, large) if mode == "SAME_UPPER" else (large, small)
    pads = tuple(call.attr("pads") or (0,) * (2 * rank))
    if call.version == 1 and len(pads) == rank:
        return pads, pads  # before onnx 1.0 the attribute had one entry an axis, for both ends
    require(len(pads) == 2 * rank and min(pads, default=0) >= 0, f"pads {list(pads)} for {rank} spatial axes")
    return pads[:rank], pads[rank:]


def output_size(call: Call, room: int, stride: int, begin: int, length: int) -> int:
    """Return window positions where the last one may start at ``room``.

    ceil_mode admits one that sticks out at the end, but not one that starts in the end padding. It does not act with
    auto_pad, whose own formulas are the same for both modes.
    """
    require(room >= 0, "a window larger than the padded input")
    size = room // stride + 1
    if not call.attr("ceil_mode", 0) or (call.attr("auto_pad") or "NOTSET") != "NOTSET":
        return size
    sticks_out = room % stride != 0 and size * stride < length + begin
    return size + 1 if sticks_out else size
