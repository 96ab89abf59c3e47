"""Sizes for unknown dims: small, pairwise different numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from bnfold import ir, reference
from bnfold.ir.schemas import MACHINE_LEARNING
from bnfold.ir.value import Known
from bnfold.reference.forest import TREES
from bnfold.reference.operators import BROADCASTING
from bnfold.reference.shapes import ShapeWalk
from bnfold.verification.inputs.bounds import BEYOND
from bnfold.verification.inputs.learned import ROWS, branches_by_features

_LARGE = 8
"""What is larger is among the other sizes only if it is asked for."""

_MOST_COMBINED = 1000
_MOST_PAIRED = 5
_OTHERS = (7, 5, 11, 9, 13)
_SHORTEST = min(_OTHERS)


@dataclass(slots=True, eq=False)
class Sizing:
    """One choice of sizes: ``batch`` for a free axis 0, ``spatial`` in turn for free image axes, ``other`` elsewhere.

    The same symbol gets the same size everywhere; unnamed dims get the next number, so that they differ pairwise.
    """

    batch: int
    spatial: tuple[int, ...]
    other: tuple[int, ...]
    symbols: dict[str, int] = field(default_factory=dict)
    taken: int = 0

    def concrete(self, known: Known) -> tuple[int, ...]:
        return tuple(self._size(dim, axis, len(known)) for axis, dim in enumerate(known))

    def _size(self, dim: int | str | None, axis: int, rank: int) -> int:
        if isinstance(dim, int):
            return dim
        if dim is None:
            return self._next(axis, rank)
        if dim not in self.symbols:
            self.symbols[dim] = self._next(axis, rank)
        return self.symbols[dim]

    def _next(self, axis: int, rank: int) -> int:
        if axis == 0 and rank > 1:
            return self.batch
        if rank >= 4 and axis >= 2:  # of volumes less than of images: they have one more side
            return max(self.spatial[(axis - 2) % len(self.spatial)] >> (rank - 4), 1)
        self.taken += 1
        return self.other[(self.taken - 1) % len(self.other)]


_LONGER = 7
"""Less than so many elements more are tried."""

ChosenShapes = dict[str, tuple[int, ...]]
Places = list[tuple[str, int]]
"""Axes of inputs."""


def open_places(shapes: Mapping[str, Known]) -> list[Places]:
    """Return the axes whose sizes are open; those of one name together."""
    rows: dict[str, Places] = {}
    for name, shape in shapes.items():
        for axis, dim in enumerate(shape):
            if not isinstance(dim, int):
                rows.setdefault(dim or f"{name} {axis}", []).append((name, axis))
    return [*rows.values()]


def resized(shapes: ChosenShapes, sizes: Mapping[tuple[str, int], int]) -> ChosenShapes:
    """Return the shapes with other ``sizes`` at some places."""
    return {
        name: tuple(sizes.get((name, axis), size) for axis, size in enumerate(shape)) for name, shape in shapes.items()
    }


def sizes_beside(shapes: ChosenShapes, same: Places, stored: Iterable[tuple[int, int]]) -> list[int]:
    """Return the sizes that axes of size 1 may have as well: those of other inputs on the same axes.

    With ``stored`` come those of constants, each with its axis counted from the end. An axis that is broadcast holds
    equal numbers, whose order does not show.
    """
    if any(shapes[name][axis] != 1 for name, axis in same):
        return []
    ends = {len(shapes[name]) - axis for name, axis in same}
    sizes = [size for size, end in stored if end in ends]
    sizes += [shape[-end] for shape in shapes.values() for end in ends if end <= len(shape)]
    return sorted({size for size in sizes if size > 1})


def longer(shapes: ChosenShapes, same: Places) -> Iterator[ChosenShapes]:
    """Yield the shapes with a dynamic size a little larger, or twice as large: a Reshape may take multiples only."""
    for more in (1, None, *range(2, _LONGER)):
        sizes = {(name, axis): shapes[name][axis] for name, axis in same}
        yield resized(shapes, {place: 2 * size if more is None else size + more for place, size in sizes.items()})


def is_broadcast_inside(at_sizes: ir.Model, model: ir.Model) -> bool:
    """Whether nodes broadcast a computed axis at these sizes that the model leaves open: equal numbers hide faults."""
    axes = [found for node in at_sizes.graph.nodes for found in _broadcast_axes(node)]
    if not axes:
        return False
    walk = ShapeWalk(model)
    known = ((walk.dims(model.graph.values.get(name)), end) for name, end in axes)
    return any(dims is not None and not isinstance(dims[-end], int) for dims, end in known)


def _broadcast_axes(node: ir.Node) -> Iterator[tuple[str, int]]:
    """Yield the computed values that a node broadcasts, with each such axis, counted from the end."""
    made = node.output(0)
    if not node.has_trait(BROADCASTING) or made is None:
        return
    for value in node.inputs:
        if value is not None and value.producer is not None:
            sides = zip(reversed(value.shape or ()), reversed(made.shape or ()), strict=False)
            yield from ((value.name, end) for end, (size, whole) in enumerate(sides, 1) if size == 1 != whole)


def exchanged_sizes(shapes: ChosenShapes, open_: Iterable[Places]) -> Iterator[ChosenShapes]:
    """Yield the shapes with two dynamic sizes of one input exchanged: some operators only fix their product."""
    for one, other in combinations(open_, 2):
        (name, axis), (second, place) = one[0], other[0]
        sizes = shapes[name][axis], shapes[second][place]
        if name == second and sizes[0] != sizes[1]:
            yield resized(shapes, {**dict.fromkeys(one, sizes[1]), **dict.fromkeys(other, sizes[0])})


def broadcast_sizes(nodes: Iterable[ir.Node]) -> set[tuple[int, int]]:
    """Return the sizes that operands are broadcast to by constants, each with its axis counted from the end."""
    dims: list[Sequence[int]] = []
    for node in nodes:
        held = [reference.constant(value) for value in node.inputs] if node.has_trait(BROADCASTING | {"MatMul"}) else []
        dims += [tensor.dims for tensor in held if tensor is not None]
        target = reference.constant(node.input(1)) if node.is_op("Expand") else None
        dims += [target.numpy().reshape(-1).tolist()] if target is not None else []
    return {(size, len(each) - axis) for each in dims for axis, size in enumerate(each) if size > 1}


def elements(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the number of elements of all inputs."""
    return sum(map(math.prod, shapes.values()))


def least_size(nodes: Iterable[ir.Node]) -> int:
    """Return how long a signal has to be for each operator by itself: its window, its frame, what it reflects."""
    return max((_needed(node) for node in nodes), default=0)


def _needed(node: ir.Node) -> int:
    if node.domain == MACHINE_LEARNING and node.op_type in TREES and not node.has_references:
        return int(max(node.attr("nodes_featureids", None) or [-1])) + 1
    if node.has_references or not node.is_op("Pad", "Conv", "STFT", "AveragePool", "MaxPool"):
        return 0
    if node.is_op("Pad"):
        told = reference.constant(node.input(1))
        pads = told.numpy().reshape(-1).tolist() if told is not None else node.attr("pads", [])
        return max(pads, default=-1) + 1 if node.attr("mode", "constant") == "reflect" else 0
    if node.is_op("STFT"):
        told, window = reference.constant(node.input(3)), reference.constant(node.input(2))
        return int(told.numpy().item()) if told is not None else window.size if window is not None else 0
    weight = node.input(1) if node.is_op("Conv") else None
    dims = weight.shape[2:] if weight is not None and weight.shape else node.attr("kernel_shape", [])
    step = max(node.attr("dilations", []) or [1])
    return (dims[0] - 1) * step + 1 if len(dims) == 1 and isinstance(dims[0], int) else 0


def sizings(nodes: Iterable[ir.Node] = ()) -> tuple[Sizing, ...]:
    """Return the choices worth trying for a whole model, most telling first; signals as long as its ``nodes`` need.

    Odd batch and unlike sides before the usual ones.

    The first sides are multiples of 32, because encoders that halve five times must meet their decoders again.
    Detectors of speech take frames of 512 samples and no others. Trees get many rows, because each takes one way.
    """
    nodes = [*nodes]
    least, many = least_size(nodes), branches_by_features(nodes)
    return (
        Sizing(
            ROWS if many else 2, (64, 96, 32), tuple(size + (least if least > _SHORTEST else 0) for size in _OTHERS)
        ),
        Sizing(1, (224,), (16,)),
        Sizing(1, (299,), (128,)),
        Sizing(1, (32,), (3,)),
        Sizing(1, (32,), (1,)),
        Sizing(1, (32,), (512,)),
    )


def further_sizings() -> tuple[Sizing, ...]:
    """Return further choices beside the first: at a size of 1, which may come next, broadcasting hides what an axis is.

    Each may take an evaluation, so they are for models of small inputs.
    """
    batches = (Sizing(batch, (64, 96, 32), (7, 5, 11, 9, 13)) for batch in range(3, 9))
    sides = (Sizing(2, (32,), (side,)) for side in (2, 3, 4, 5, 6, 8))
    return (*batches, *sides)


def paired_sizings(names: Sequence[str], least: int) -> Iterator[Sizing]:
    """Yield choices in which two dynamic sizes are equal, a batch perhaps, and all others a bit above the ``least``."""
    for pair in combinations(names[:_MOST_PAIRED], 2):
        sizes = {name: least + 7 + 2 * place for place, name in enumerate(names)}
        yield Sizing(3, (1,), (1,), {**sizes, **dict.fromkeys(pair, 3)})


def searched_sizings(names: Sequence[str], numbers: Sequence[int]) -> Iterator[Sizing]:
    """Yield choices to look through where none of the above runs.

    What the model's ``numbers`` suggest, and alike ones.
    """
    rng = np.random.default_rng(0)
    pool = [1, *numbers, *range(2, 11)]
    if len(pool) ** len(names) <= _MOST_COMBINED:
        combined: Iterable[Sequence[int]] = product(pool, repeat=len(names))
    else:
        combined = rng.choice(pool, (_MOST_COMBINED, len(names))).tolist()
    for sizes in combined:
        yield Sizing(1, (1,), (1,), dict(zip(names, sizes, strict=True)))
    for size in range(1, 129):
        yield Sizing(1, (size,), (size,))
        yield Sizing(size, (64, 96, 32), (7, 5, 11, 9, 13))
        yield Sizing(1, (32,), (size,))
        yield Sizing(2, (size,), (7, 5, 11, 9, 13))


def other_sizings(bound: int) -> tuple[tuple[Sizing, ...], ...]:
    """Return groups of choices at which operators differ that agree at the first choices.

    One choice of each group is enough, the first that fits. The groups: a batch of one, with sides that stay odd
    however often they are halved, rounded down or up; sizes beyond a ``bound`` at which operators may end; an odd
    batch; and size 1 for all open dims.
    """
    evens, usual, last = (6, 4, 10, 8, 12), (7, 5, 11, 9, 13), bound + BEYOND
    is_large = last > _LARGE
    batch = 3 if is_large or not bound else last
    beyond = tuple(last + more for more in (0, 2, 1, 4, 3))
    large = (
        (Sizing(batch, beyond, beyond), Sizing(1, (last, 35, 21), beyond)),
        (Sizing(1, (35, last, last + 1), evens), Sizing(1, (32,), beyond)),
        (Sizing(last, (35, 51, 21), evens),),
    )
    return (
        (
            Sizing(1, (63, 47, 31), evens),
            Sizing(1, (35, 51, 21), evens),
            Sizing(1, (32, 64, 96), evens),
            Sizing(1, (64, 96, 32), usual),
        ),
        *(large if is_large else ()),
        (
            Sizing(batch, (65, 97, 33), (8, 3, 14, 10, 2)),
            Sizing(batch, (49, 81, 25), (8, 3, 14, 10, 2)),
            Sizing(batch, (96, 32, 64), (9, 3, 8)),
        ),
        (Sizing(2, (1,), (1,)), Sizing(1, (32,), (1,)), Sizing(2, (32,), (1,))),
    )


def is_resized(declared: Known, shape: Sequence[int]) -> bool:
    """Whether a size is not the declared one; 0 is what exporters write for an unknown size."""
    return any(isinstance(dim, int) and 0 < dim != size for dim, size in zip(declared, shape, strict=False))


def is_static(values: Iterable[ir.Value]) -> bool:
    """Whether all sizes are declared."""
    shapes = [value.shape for value in values]
    return all(shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes)
