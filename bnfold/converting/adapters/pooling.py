"""Pooling: ``ceil_mode``, which versions below 10 lack and 22 changed, and dilations, which older versions lack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx

from bnfold.converting.context import Inexpressible, numeric_type
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down


@down("AveragePool LpPool MaxPool", 22)
def last_windows(conversion: NodeConversion) -> None:
    """Keep the node where no window of ``ceil_mode`` begins behind the input, whichever rule holds."""
    node = conversion.node
    if not node.attr("ceil_mode", 0) or node.attr("auto_pad", "NOTSET").startswith("SAME"):
        return
    kernel = node.attr("kernel_shape", [])
    rank = len(kernel)
    strides, dilations = node.attr("strides", [1] * rank), node.attr("dilations", [1] * rank)
    pads = node.attr("pads", [0] * (2 * rank))
    sizes = (conversion.shape(conversion.input(0)) or [None] * (rank + 2))[2:]
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        window, before, behind = (kernel[axis] - 1) * dilations[axis] + 1, pads[axis], pads[rank + axis]
        if behind + stride <= window:
            continue  # the last window begins before the padding, however large the input is
        if not isinstance(size, int) or not size:
            raise Inexpressible(f"may have a window in the padding of axis {axis + 2} by the older rule")
        last = -(-(size + before + behind - window) // stride) * stride
        if last >= size + before:
            raise Inexpressible(f"has a window less along axis {axis + 2} than by the older rule")


@down("LpPool", 18, by_form=True)
def without_dilations(conversion: NodeConversion) -> None:
    """Drop dilations of 1, which say nothing, where the older version has none (LpPool 18 → 11)."""
    if set(conversion.node.attr("dilations", [])) == {1}:
        conversion.node.del_attr("dilations")


@down("AveragePool MaxPool", 10)
def even_windows(conversion: NodeConversion) -> None:
    """Convert MaxPool, AveragePool 10 → 8, 7: drop dilations of 1, and ``ceil_mode``.

    Where a window is cut off, it gets padding instead, which no maximum returns and no average need count.
    """
    node = conversion.node
    without_dilations(conversion)
    if not node.attr("ceil_mode", 0):
        return
    kernel = node.attr("kernel_shape", [])
    rank = len(kernel)
    strides, dilations = node.attr("strides", [1] * rank), node.attr("dilations", [1] * rank)
    pads, is_padded_to_fit = [*node.attr("pads", [0] * (2 * rank))], node.attr("auto_pad", "NOTSET") != "NOTSET"
    sizes = (conversion.shape(conversion.input(0)) or [None] * (rank + 2))[2:]
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if stride == 1 and not is_padded_to_fit:
            continue
        if not isinstance(size, int) or not size or is_padded_to_fit:
            raise Inexpressible(f"may have a window that is cut off along axis {axis + 2}")
        window = (kernel[axis] - 1) * dilations[axis] + 1
        cut = -(size + pads[axis] + pads[rank + axis] - window) % stride
        pads[rank + axis] += cut
        if cut and (node.attr("count_include_pad", 0) or pads[rank + axis] >= kernel[axis]):
            raise Inexpressible(f"has a window that is cut off along axis {axis + 2}")
    if any(pads):
        node.set_attr("pads", pads)
    node.del_attr("ceil_mode")


@down("AveragePool", 19, by_form=True)
def dilated_average(conversion: NodeConversion) -> None:
    """Convert AveragePool 19 → 11, which has no dilations: a Conv of ones sums, and the numbers of summands divide."""
    node, data = conversion.node, conversion.input(0)
    dilations = conversion.take("dilations", [1])
    if set(dilations) == {1}:
        return
    kernel, ceil_mode = node.attr("kernel_shape", []), bool(node.attr("ceil_mode", 0))
    rank, kind = len(kernel), conversion.dtype(data)
    shape = conversion.shape(data) or (None,) * (rank + 2)
    if node.attr("auto_pad", "NOTSET") != "NOTSET":
        raise Inexpressible("has dilations, and pads that follow from sizes")
    if not isinstance(channels := shape[1], int) or not channels:
        raise Inexpressible("has dilations, and channels that are not known")
    strides, pads = node.attr("strides", [1] * rank), node.attr("pads", [0] * (2 * rank))
    axes = [
        _WindowedAxis(size, kernel[axis], strides[axis], dilations[axis], pads[axis], pads[rank + axis])
        for axis, size in enumerate(shape[2:])
    ]
    beyond = [axis.beyond if ceil_mode else 0 for axis in axes]
    counts = np.ones((), np.float64)
    for axis, extra in zip(axes, beyond, strict=True):
        counts = np.multiply.outer(counts, axis.counts(extra, of_padding=bool(node.attr("count_include_pad", 0))))
    if not counts.all():
        raise Inexpressible("has dilations, and a window of nothing but padding")
    if kind == onnx.TensorProto.FLOAT16:  # the sum is rounded once
        data = conversion.add("Cast", [data], "float", to=onnx.TensorProto.FLOAT)
    weight = np.ones((channels, 1, *kernel), numeric_type(conversion.dtype(data)))
    ends = [after + extra for after, extra in zip(pads[rank:], beyond, strict=True)]
    summed = conversion.add(
        "Conv", [data, conversion.constant(weight, "ones")], "sum",
        kernel_shape=kernel, strides=strides, dilations=dilations, pads=[*pads[:rank], *ends], group=channels,
    )  # fmt: skip
    divisor = conversion.constant(counts.astype(weight.dtype), "counts")
    if kind != onnx.TensorProto.FLOAT16:
        conversion.become("Div", [summed, divisor])
        return
    conversion.become("Cast", [conversion.add("Div", [summed, divisor], "average")], to=kind)


class _WindowedAxis(NamedTuple):
    """An axis that windows slide along, and what is padded before and behind it."""

    size: int | str | None
    kernel: int
    stride: int
    dilation: int
    before: int
    behind: int

    @property
    def beyond(self) -> int:
        """How far the last window of ``ceil_mode`` reaches over the padding."""
        beyond = 0 if self.stride == 1 else -self._room % self.stride
        if beyond and isinstance(self.size, int) and self._room + beyond >= self.size + self.before:
            raise Inexpressible("has dilations, and a window that begins in the padding")
        return beyond

    @property
    def _room(self) -> int:
        """How far a window can be moved."""
        if not isinstance(self.size, int) or not self.size:
            raise Inexpressible("has dilations, and windows that depend on sizes")
        return self.size + self.before + self.behind - (self.kernel - 1) * self.dilation - 1

    def counts(self, beyond: int, *, of_padding: bool) -> np.ndarray[Any, Any]:
        """Return how many elements each window takes: of the input, and of its padding if that counts."""
        if not beyond and (of_padding or not (self.before or self.behind)):
            return np.array([self.kernel])
        starts = np.arange(0, self._room + beyond + 1, self.stride)
        taken = starts[:, None] + np.arange(self.kernel) * self.dilation - self.before
        assert isinstance(self.size, int)
        low, high = (-self.before, self.size + self.behind) if of_padding else (0, self.size)
        return np.asarray(((taken >= low) & (taken < high)).sum(1))
