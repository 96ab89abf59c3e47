"""Shapes for the activations that a region is fed: what weights dictate stays, all else becomes small and unlike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from bnfold import ir
from bnfold.classes import frozen
from bnfold.verification.shapes import Known, fixed_axes, known_shape

Shapes = dict[str, tuple[int, ...]]

LARGEST_FEED = 1 << 23
"""Elements of activations that a region may be fed; with more, even a region is no small matter."""

_EVEN = 8
"""What halves three times must meet again what did not."""

_BATCH = 3
_OTHER_BATCHES = (4, 5, 6, 7, 8, 2)
"""A Reshape to fixed sizes takes one batch only. In one row the last is the first."""

_GUESSED_RANKS = (4, 3, 2, 1, 5)


@frozen
class Trial:
    """Shapes to try, and whether equality at them can acquit.

    ``odd`` are the same with free axes one larger: where strides skip elements, padding may show at those alone.
    """

    shapes: Shapes
    acquits: bool
    odd: Shapes | None = None


def region_shapes(inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node]) -> Iterator[Trial]:
    """Shapes to try until the region runs: small ones, then those that are declared.

    A rewrite may rely on what the model declares (no padding at this size, one row), so a difference at other sizes is
    not held against it if the declared ones, being all there can be, show none. Where nothing tells a rank, the usual
    ones are guessed, and a difference at a wrong guess means nothing.
    """
    known = {name: known_shape(value, guess=False) for name, value in inputs.items()}
    strided = _has_strides(nodes)
    tried: list[Shapes] = []
    for full in _guesses(inputs, known):
        is_static = all(isinstance(dim, int) for shape in full.values() for dim in shape[1:])
        is_guess = None in known.values()
        for trial in (
            *(
                Trial(
                    _small(inputs, full, _Sizes(nodes, by_axis=by_axis, step=step)),
                    is_guess,
                    _small(inputs, full, _Sizes(nodes, by_axis=by_axis, step=step, more=1)) if strided else None,
                )
                for by_axis, step in ((False, 1), (True, 1), (True, _EVEN))
            ),
            *(
                Trial(_declared(full, _Sizes(nodes, by_axis=True, step=_EVEN, batch=batch)), is_guess or is_static)
                for batch in (_BATCH, *_OTHER_BATCHES)
            ),
        ):
            if trial.shapes not in tried and sum(map(math.prod, trial.shapes.values())) <= LARGEST_FEED:
                tried.append(trial.shapes)
                yield Trial(trial.shapes, trial.acquits) if trial.odd == trial.shapes else trial


def lacks_rank(inputs: Mapping[str, ir.Value]) -> bool:
    """Whether the rank of an input is told by nothing."""
    return any(known_shape(value, guess=False) is None for value in inputs.values())


def has_guesses(inputs: Mapping[str, ir.Value], shapes: Shapes) -> bool:
    """Whether the shape of an input is told by nothing but its readers, or a size is not the declared one."""
    return any(
        known is None
        or value.shape is None
        or any(isinstance(dim, int) and dim != size for dim, size in zip(known, shapes[name], strict=True))
        for name, value in inputs.items()
        for known in [known_shape(value, guess=False)]
    )


def _guesses(inputs: Mapping[str, ir.Value], known: Mapping[str, Known | None]) -> Iterator[dict[str, Known]]:
    """The known shapes, and for the others those of their neighbours, then the usual ranks."""
    told = [shape for shape in known.values() if shape is not None]
    ranks = (
        dict.fromkeys([*sorted(map(len, told), reverse=True), *_GUESSED_RANKS]) if None in known.values() else {0: None}
    )
    for rank in ranks:
        like: Known = next((shape for shape in told if len(shape) == rank), [None] * rank)
        yield {name: shape if shape is not None else _demanded(inputs[name], like) for name, shape in known.items()}


class _Sizes:
    """Small sizes for free axes, other ones at other places.

    Axes that are declared alike, by number or by symbol, get the same size, so that what is added still fits; with
    ``by_axis``, all axes at one place do. Sizes are multiples of ``step``, and ``more``.
    """

    def __init__(
        self, nodes: Sequence[ir.Node], *, by_axis: bool = False, step: int = 1, more: int = 0, batch: int = _BATCH
    ) -> None:
        self._base = -(-(3 + _reach(nodes)) // step)
        self._by_axis, self._step, self._batch = by_axis, step, batch
        self._more = more
        self._chosen: dict[tuple[int, int | str | None], int] = {}

    def of(self, axis: int, dim: int | str | None, rank: int) -> int:
        """The size of an axis declared as ``dim``."""
        if axis == 0 and rank > 1:
            return self._batch
        key = (axis, None if self._by_axis else dim)
        if key not in self._chosen:
            self._chosen[key] = self._step * (self._base + len(self._chosen)) + self._more
        return self._chosen[key]


def _small(inputs: Mapping[str, ir.Value], known: Mapping[str, Known], sizes: _Sizes) -> Shapes:
    """Axis 1 (channels) keeps its declared size, and so does what is 1, which may be there to be broadcast."""
    shapes: Shapes = {}
    for name, shape in known.items():
        is_weight = inputs[name].is_initializer  # a default that a caller may override
        told = {axis: dim for axis, dim in enumerate(shape) if isinstance(dim, int)}
        kept = {axis: dim for axis, dim in told.items() if is_weight or dim == 1 or axis == 1}
        dictated = {**kept, **fixed_axes(inputs[name], len(shape))}
        shapes[name] = tuple(dictated.get(axis) or sizes.of(axis, dim, len(shape)) for axis, dim in enumerate(shape))
    return shapes


def _declared(known: Mapping[str, Known], sizes: _Sizes) -> Shapes:
    return {
        name: tuple(dim if isinstance(dim, int) else sizes.of(axis, dim, len(shape)) for axis, dim in enumerate(shape))
        for name, shape in known.items()
    }


def _demanded(value: ir.Value, like: Known) -> Known:
    """The shape of a neighbour, corrected by what the value's own readers demand."""
    fixed = fixed_axes(value, len(like))
    return [fixed.get(axis, dim) for axis, dim in enumerate(like)]


def _reach(nodes: Sequence[ir.Node]) -> int:
    """How many elements the windows of a region span beyond one, one after the other."""
    reach, stride = 0, 1
    for node in nodes:
        if not (window := _window(node)):
            continue
        dilations = node.attr("dilations") or [1] * len(window)
        reach += stride * max(((size - 1) * step for size, step in zip(window, dilations, strict=False)), default=0)
        stride *= max(node.attr("strides") or [1])
    return reach


def _has_strides(nodes: Sequence[ir.Node]) -> bool:
    return any(_window(node) and max(node.attr("strides") or [1]) > 1 for node in nodes)


def _window(node: ir.Node) -> list[int]:
    if node.domain or node.op_type not in {"Conv", "MaxPool", "AveragePool", "LpPool"}:
        return []
    weight = node.input(1)
    shape = weight.shape if node.is_op("Conv") and weight is not None else None
    spatial = [dim for dim in (shape or ())[2:] if isinstance(dim, int)]
    return list(node.attr("kernel_shape") or spatial)
