"""How far the windows of a region reach."""

from __future__ import annotations

from collections.abc import Sequence

from bnfold import ir
from bnfold.reference.operators import WINDOWED


def reach_of(nodes: Sequence[ir.Node]) -> int:
    """Return how many elements the windows of a region span beyond one, one after the other."""
    reach, stride = 0, 1
    for node in nodes:
        if not (window := _window(node)):
            continue
        dilations = node.attr("dilations") or [1] * len(window)
        reach += stride * max(((size - 1) * step for size, step in zip(window, dilations, strict=False)), default=0)
        stride *= max(node.attr("strides") or [1])
    return reach


def has_strides(nodes: Sequence[ir.Node]) -> bool:
    """Whether a window moves by more than one element."""
    return any(_window(node) and max(node.attr("strides") or [1]) > 1 for node in nodes)


def _window(node: ir.Node) -> list[int]:
    if not node.has_trait(WINDOWED) or node.is_op("ConvTranspose"):
        return []
    weight = node.input(1)
    shape = weight.shape if node.is_op("Conv") and weight is not None else None
    spatial = [dim for dim in (shape or ())[2:] if isinstance(dim, int)]
    return list(node.attr("kernel_shape") or spatial)
