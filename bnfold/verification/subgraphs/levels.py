"""Small sizes for what a part is fed from several levels of a network, in the proportions that are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bnfold import ir
from bnfold.verification.inputs.choices import ChosenShapes
from bnfold.verification.inputs.shapes import elements
from bnfold.verification.subgraphs.shapes import LARGEST_OTHER, Trial, needs_other_sizes

_LEAST = 3
_LARGEST_RATIO = 8
"""Beyond, what the whole model makes of small images is as small."""


class _Levels(NamedTuple):
    """How many times as large as each open axis its largest kin are: inputs of a part at the same place."""

    ratios: dict[tuple[str, int], int]
    most: dict[int, int]


def at_levels(fed: Mapping[str, ir.Value], nodes: Sequence[ir.Node], usual: ChosenShapes) -> Trial | None:
    """Return sizes that halve where declared ones do, once or several times; None if all are alike or do not fit.

    Strides in front of the part made them. The ``usual`` shapes say which axes are open. Other sizes than multiples are
    rounded as pooling does or as convolutions do; the one that does not fit does not run.
    """
    levels = _levels(fed, usual)
    if levels is None:
        return None
    shapes = _at(levels, usual, 0)
    others = [{name: (1, *shape[1:]) for name, shape in shapes.items()}]
    others += [_at(levels, usual, more) for more in (-1, 1)] if needs_other_sizes(nodes) else []
    small = (other for other in others if elements(other) <= LARGEST_OTHER)
    return (
        Trial(shapes, passing_is_conclusive=False, others=tuple(small)) if elements(shapes) <= LARGEST_OTHER else None
    )


def _levels(fed: Mapping[str, ir.Value], usual: ChosenShapes) -> _Levels | None:
    declared = {
        (name, axis): dim
        for name, value in fed.items()
        for axis, dim in enumerate(value.shape or ())
        if axis > 1 and isinstance(dim, int) and usual[name][axis] != dim > 1
    }
    largest: dict[int, int] = {}
    for (_, axis), dim in declared.items():
        largest[axis] = max(dim, largest.get(axis, 0))
    ratios = {place: round(largest[place[1]] / dim) for place, dim in declared.items()}
    most = {axis: max(ratio for (_, at), ratio in ratios.items() if at == axis) for axis in largest}
    fits = all(
        declared[place] in (_divided(largest[place[1]], ratio, is_up=is_up) for is_up in (False, True))
        for place, ratio in ratios.items()
    )
    return _Levels(ratios, most) if fits and 1 < max(most.values(), default=1) <= _LARGEST_RATIO else None


def _at(levels: _Levels, usual: ChosenShapes, more: int) -> ChosenShapes:
    """Return the shapes with open axes a multiple of all ratios, or so many ``more``: the others are rounded then."""
    sizes = {axis: ratio * (_LEAST + axis - 2) + more for axis, ratio in levels.most.items()}
    return {
        name: tuple(
            _divided(sizes[axis], levels.ratios[name, axis], is_up=more < 0) if (name, axis) in levels.ratios else size
            for axis, size in enumerate(shape)
        )
        for name, shape in usual.items()
    }


def _divided(size: int, ratio: int, *, is_up: bool) -> int:
    return -(-size // ratio) if is_up else size // ratio
