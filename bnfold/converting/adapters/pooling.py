"""AveragePool, LpPool and MaxPool 22 → 19, 18, 12: from 22 on no window begins in the padding behind the input."""

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
