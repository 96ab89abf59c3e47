"""Sizes for the axes of what a part is fed that neither its weights nor its operators determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from bnfold import ir
from bnfold.ir.value import Known
from bnfold.reference.operators import RESHAPING
from bnfold.reference.sizing import SymbolicSize
from bnfold.verification.inputs.choices import ChosenShapes
from bnfold.verification.inputs.shapes import elements
from bnfold.verification.inputs.unification import UnifiedDims
from bnfold.verification.subgraphs.windows import reach_of

BATCH = 3

_FREE_BATCH = "batch"

_MANY = 1 << 16
"""Elements of activations beyond which axis 1 is opened where channels are the last."""


def opened(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], full: Mapping[str, Known], least: int
) -> dict[str, Known]:
    """Return the shapes with all sizes free but those of channels.

    Channels are axis 1. Where that makes many elements, if free ones are ``least`` or more, they are the last axis if
    weights tell its size and not that of axis 1, as in transformers.
    """
    small = {name: _but_axis_1(inputs[name], shape) for name, shape in full.items()}
    if any(node.has_trait(RESHAPING) for node in nodes):  # what asks for a shape may ask for that size
        return small
    if elements(concrete(inferred_of(inputs, nodes, small, by_axis=False), least)) <= _MANY:
        return small
    every: dict[str, Known] = {
        name: [f"{dim}" if axis == 1 and dim != 1 else dim for axis, dim in enumerate(shape)]
        if not inputs[name].is_initializer
        else shape
        for name, shape in small.items()
    }
    learned = inferred_of(inputs, nodes, every, by_axis=False)
    is_place = {name: len(dims) > 2 and isinstance(dims[1], str) for name, dims in learned.items()}
    places = {small[name][1] for name, dims in learned.items() if is_place[name] and isinstance(dims[-1], int)}
    return {name: every[name] if is_place[name] and shape[1] in places else shape for name, shape in small.items()}


def _but_axis_1(value: ir.Value, known: Known) -> Known:
    """Open all sizes but axis 1 (channels), for what is 1, which may be there to be broadcast, and for weights."""
    return [
        dim if dim == 1 or axis == 1 or value.is_initializer or not isinstance(dim, int) else f"{dim}"
        for axis, dim in enumerate(known)
    ]


def inferred_of(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], shapes: Mapping[str, Known], *, by_axis: bool
) -> dict[str, list[SymbolicSize]]:
    """Return the shapes with what weights dictate in the region.

    Axes that are declared alike, by number or by symbol, stay alike, so that what is added still fits; with
    ``by_axis``, all axes at one place do.
    """
    dims = UnifiedDims(declared=False)
    for name, shape in shapes.items():
        names = [_FREE_BATCH if axis == 0 and len(shape) > 1 else f"{axis}" for axis in range(len(shape))]
        dims.tell(
            inputs[name],
            [
                dim if isinstance(dim, int) else own if by_axis or own == _FREE_BATCH else f"{own} {dim}"
                for own, dim in zip(names, shape, strict=True)
            ],
        )
    dims.follow(nodes)
    return {name: dims.of(inputs[name]) or [] for name in shapes}


def concrete(
    learned: Mapping[str, Sequence[SymbolicSize]], least: int, *, step: int = 1, more: int = 0, batch: int = BATCH
) -> ChosenShapes:
    """Return different sizes for open axes: multiples of ``step``, at least as large as ``least``, plus ``more``.

    If axis 1 is one of them, none is the number of rows: rows and places are easily exchanged, which has to show.
    """
    names = dict.fromkeys(dim for shape in learned.values() for dim in shape if isinstance(dim, str))
    free = (name for name in names if name != _FREE_BATCH)
    taken = batch if any(name.split()[0] == "1" for name in names) else None
    others = (size for size in count(step * -(-least // step) + more, step) if size != taken)
    sizes = {**dict(zip(free, others, strict=False)), _FREE_BATCH: batch}
    return {
        name: tuple(dim if isinstance(dim, int) else sizes[dim] for dim in shape) for name, shape in learned.items()
    }


def one_axis_longer(
    learned: Mapping[str, Sequence[SymbolicSize]], usual: ChosenShapes, size: int
) -> list[ChosenShapes]:
    """Return the usual shapes with one open axis after the other set to ``size``."""
    names = dict.fromkeys(dim for shape in learned.values() for dim in shape if isinstance(dim, str))
    placed = {name: [*zip(shape, usual[name], strict=True)] for name, shape in learned.items()}
    return [
        {name: tuple(size if dim == longer else known for dim, known in dims) for name, dims in placed.items()}
        for longer in names
    ]


def of_few_rows(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], known: Mapping[str, Known | None], rows: int
) -> ChosenShapes:
    """Return the smallest shapes in which windows slide, but none larger than declared; none if a rank is unknown."""
    full = {name: shape for name, shape in known.items() if shape is not None}
    if len(full) < len(known):
        return {}
    small = {name: _but_axis_1(inputs[name], shape) for name, shape in full.items()}
    shapes = concrete(inferred_of(inputs, nodes, small, by_axis=False), 3 + reach_of(nodes), batch=rows)
    return {
        name: tuple(
            min(size, dim) if axis and isinstance(dim, int) else size
            for axis, (size, dim) in enumerate(zip(shapes[name], shape, strict=True))
        )
        for name, shape in full.items()
    }
