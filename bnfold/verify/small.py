"""Shapes for the activations of a region: what weights dictate stays, everything else becomes small and unlike its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bnfold import ir
from bnfold.verify.shapes import Known, Sizing, fixed_axes, known_shape

Shapes = dict[str, tuple[int, ...]]

_BATCH = 2
_FREE = (5, 7, 11, 6, 13)


def declared_shapes(inputs: Mapping[str, ir.Value]) -> Shapes | None:
    """The shapes that values are declared to have, open dims small; None where a rank is unknown."""
    known = _known_shapes(inputs)
    sizing = Sizing(_BATCH, (8, 9, 10), _FREE)
    return None if known is None else {name: sizing.concrete(shape) for name, shape in known.items()}


def small_shapes(inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node]) -> Shapes | None:
    """Shapes whose free axes are small; None where a rank is unknown.

    Axes with the same declared size or symbol get the same small one at the same place, so that values that are added
    still fit; different places get different sizes. Axis 1 (channels) keeps its declared size.
    """
    known = _known_shapes(inputs)
    if known is None:
        return None
    chosen: dict[tuple[int, int | str | None], int] = {}
    base = 3 + _reach(nodes)

    def size(axis: int, dim: int | str | None, rank: int) -> int:
        if isinstance(dim, int) and (dim == 1 or (axis == 1 and rank > 1)):
            return dim
        if (axis, dim) not in chosen:
            chosen[axis, dim] = _BATCH if axis == 0 and rank > 1 else base + sum(place > 0 for place, _ in chosen)
        return chosen[axis, dim]

    shapes: Shapes = {}
    for name, shape in known.items():
        fixed = fixed_axes(inputs[name], len(shape))
        shapes[name] = tuple(fixed.get(axis) or size(axis, dim, len(shape)) for axis, dim in enumerate(shape))
    return shapes


def _known_shapes(inputs: Mapping[str, ir.Value]) -> dict[str, Known] | None:
    known = {name: known_shape(value) for name, value in inputs.items()}
    found = {name: shape for name, shape in known.items() if shape is not None}
    return found if len(found) == len(known) else None


def _reach(nodes: Sequence[ir.Node]) -> int:
    """How many elements the windows of a region span beyond one, one after the other."""
    reach, stride = 0, 1
    for node in nodes:
        window = _window(node)
        dilations = node.attr("dilations") or [1] * len(window)
        reach += stride * max(((size - 1) * step for size, step in zip(window, dilations, strict=False)), default=0)
        stride *= max(node.attr("strides") or [1]) if window else 1
    return reach


def _window(node: ir.Node) -> list[int]:
    if node.domain or node.op_type not in {"Conv", "MaxPool", "AveragePool", "LpPool"}:
        return []
    weight = node.input(1)
    shape = weight.shape if node.is_op("Conv") and weight is not None else None
    spatial = [dim for dim in (shape or ())[2:] if isinstance(dim, int)]
    return list(node.attr("kernel_shape") or spatial)
