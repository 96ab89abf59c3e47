"""Pooling with ``ceil_mode``: versions below 10 lack it, and from 22 on no window begins in the padding behind."""

from __future__ import annotations

from bnfold.converting.context import FIX_SHAPES, Inexpressible
from bnfold.converting.node_conversion import NodeConversion


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
        if not isinstance(size, int):
            raise Inexpressible(f"may have a window in the padding of axis {axis + 2} by the older rule: {FIX_SHAPES}")
        last = -(-(size + before + behind - window) // stride) * stride
        if last >= size + before:
            raise Inexpressible(f"has a window less along axis {axis + 2} than by the older rule")


def even_windows(conversion: NodeConversion) -> None:
    """Convert MaxPool, AveragePool 10 → 8, 7: drop dilations of 1, and ``ceil_mode`` of even windows."""
    node = conversion.node
    if set(node.attr("dilations", [1])) == {1}:
        node.del_attr("dilations")
    if not node.attr("ceil_mode", 0):
        return
    kernel = node.attr("kernel_shape", [])
    rank = len(kernel)
    strides, dilations = node.attr("strides", [1] * rank), node.attr("dilations", [1] * rank)
    pads, is_padded_to_fit = node.attr("pads", [0] * (2 * rank)), node.attr("auto_pad", "NOTSET") != "NOTSET"
    sizes = (conversion.shape(conversion.input(0)) or [None] * (rank + 2))[2:]
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if stride == 1 and not is_padded_to_fit:
            continue
        if not isinstance(size, int) or is_padded_to_fit:
            raise Inexpressible(f"may have a window that is cut off along axis {axis + 2}: {FIX_SHAPES}")
        if (size + pads[axis] + pads[rank + axis] - (kernel[axis] - 1) * dilations[axis] - 1) % stride:
            raise Inexpressible(f"has a window that is cut off along axis {axis + 2}")
    node.del_attr("ceil_mode")
