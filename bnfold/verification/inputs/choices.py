"""Choose input sizes at which a model is tried: first sizes that fit together, then others that may reveal a fault.

This serves integers and sizes: what depends on a size has to differ between two of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, permutations
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.ir.value import Known
from bnfold.verification.inputs.bounds import MOST_BOUND, Kinds, bounds, kinds_of
from bnfold.verification.inputs.shapes import (
    ChosenShapes,
    Places,
    Sizing,
    broadcast_sizes,
    elements,
    exchanged_sizes,
    further_sizings,
    is_broadcast_inside,
    least_size,
    longer,
    open_places,
    other_sizings,
    paired_sizings,
    resized,
    searched_sizings,
    sizes_beside,
    sizings,
)
from bnfold.verification.inputs.sized import MANY_NODES, fitted, sized

_LARGEST_GUESS = 1 << 25
"""Elements of all inputs beyond which a second choice of dynamic sizes takes more time than it is worth."""

_SMALL_GUESS = 1 << 14
"""The same limit for the choices after that: fewer elements than any image has."""

_LARGEST_SEARCHED = 1 << 20
_MOST_INFERRED = 8_000
"""Nodes for which the search for sizes may infer shapes, in total; that takes about two seconds."""

_MOST_NUMBERS = 24
_MOST_SEARCHED = 100
"""Sizes from the search that are evaluated: inference may miss a reason against each of them."""

_MOST_NARROWED = 8


class Choice(NamedTuple):
    """Shapes of the inputs, and the model with the sizes that follow from them."""

    shapes: ChosenShapes
    model: ir.Model

    @property
    def elements(self) -> int:
        return elements(self.shapes)


def choices(model: ir.Model, known: Mapping[str, Known], followed: ir.Model | None = None) -> Iterator[Choice]:
    """Yield the sizes worth trying until the model runs; those without a contradiction in inference come first.

    A model without dynamic sizes has one choice. ``followed`` is a copy at the ``known`` shapes.
    """
    tried: list[ChosenShapes] = []
    doubtful: list[ChosenShapes] = []
    sound = _followed(model, known, followed)
    names = list(dict.fromkeys(dim for shape in known.values() for dim in shape if isinstance(dim, str)))
    nodes = [*model.nodes()]
    for shapes in _distinct(known, _usual(nodes, names if sound is not None else ()), tried):
        is_as_known = all(shapes[name] == tuple(shape) for name, shape in known.items())
        copy = sound if sound is None or is_as_known else fitted(model, shapes)
        if copy is not None:
            yield Choice(shapes, copy)
        else:
            doubtful.append(shapes)
    if sound is not None and names:
        searched = ((sizing, _LARGEST_SEARCHED) for sizing in searched_sizings(names, _numbers_in(model)))
        most = _MOST_INFERRED // (len(nodes) + 1)
        found = (_choice(model, shapes) for shapes in islice(_distinct(known, searched, tried), most))
        yield from islice((choice for choice in found if choice is not None), _MOST_SEARCHED)
    for shapes in doubtful:
        yield Choice(shapes, sized(model, shapes))


def _numbers_in(model: ir.Model) -> list[int]:
    """Return numbers that sizes may depend on.

    These are the integers in attributes and small constants, their products, and the divisors of both.
    """
    lists = [
        np.frombuffer(held, np.int64) for _, stated in kinds_of(model.nodes()) for held in stated if len(held) % 8 == 0
    ]
    sizes = {*np.concatenate([np.zeros(0, np.int64), *lists]).tolist()}
    sizes |= {abs(math.prod(numbers.tolist())) for numbers in lists}
    found = {size for size in sizes if 1 < size <= MOST_BOUND}
    found |= {size for number in found for size in range(2, number) if number % size == 0}
    return sorted(found)[:_MOST_NUMBERS]


def other_choices(
    model: ir.Model, known: Mapping[str, Known], main: Choice, changed: Kinds, turns: Iterator[int]
) -> Iterator[Iterator[Choice]]:
    """Yield, for each kind of size that may reveal a difference in the ``changed`` operators, the choices that show it.

    The best choice of a kind comes first. The last one changes the batch alone, because all other sizes may have to
    stay. Each inference of shapes takes one of the ``turns`` (`turns_for`).
    """
    tried = [main.shapes]
    batches = {shape[0] for shape in known.values() if shape}
    sizes = chain.from_iterable(zip(shape, main.shapes[name], strict=True) for name, shape in known.items())
    kept = {dim: size for dim, size in sizes if isinstance(dim, str) and dim not in batches}
    for goal in other_sizings(max([0, *bounds(changed)])):
        same = Sizing(goal[0].batch, goal[0].spatial, goal[0].other, dict(kept))
        shapes = _distinct(known, ((sizing, _LARGEST_SEARCHED) for sizing in (*goal, same)), tried)
        yield (choice for one, _ in zip(shapes, turns, strict=False) if (choice := _choice(model, one)) is not None)


def inferred_sizes(declared: Mapping[str, Known | None], known: Mapping[str, Known]) -> list[Places]:
    """Return the axes of inputs whose sizes, or whose equality with another axis, only the operators determine.

    Axes with one declared name are together.
    """
    found: dict[str, Places] = {}
    sizes: dict[str, int | str | None] = {}
    for name, shape in known.items():
        own = declared[name]
        if own is None or len(own) != len(shape):
            own = [None] * len(shape)
        for axis, (dim, size) in enumerate(zip(own, shape, strict=True)):
            if not (isinstance(dim, int) and dim > 0) and size not in (0, 1):
                called = dim if isinstance(dim, str) else f"{name} {axis}"
                found.setdefault(called, []).append((name, axis))
                sizes[called] = size
    shared = Counter(sizes.values())
    return [found[called] for called, size in sizes.items() if isinstance(size, int) or (size and shared[size] > 1)]


def further_choices(
    model: ir.Model,
    known: Mapping[str, Known],
    main: Choice,
    inferred: Sequence[Places],
    changed: Kinds,
    turns: Iterator[int],
) -> Iterator[Iterator[Choice]]:
    """Yield groups of choices beside the main one; trying one choice of each group is enough.

    ``inferred`` are the axes that `inferred_sizes` returns. Each inference of shapes takes one of the ``turns``.
    """
    at_sizes = partial(_resized, model, main, turns)
    # A broadcast operand may have size 1 on any such axis.
    yield from (at_sizes(places, lambda _: 1) for places in inferred[:_MOST_NARROWED])
    open_ = open_places(known)[:_MOST_NARROWED]
    stored = broadcast_sizes(model.nodes()) if any(1 in shape for shape in main.shapes.values()) else set()
    hides = bool(open_) and is_broadcast_inside(main.model, model)
    for places in open_:
        name, axis = places[0]
        if changed or hides or main.shapes[name][axis] == 1:  # at size 1 a sum equals a mean
            larger = islice(longer(main.shapes, places), None if hides else 2)
            yield chain.from_iterable(_at(model, shapes, turns) for shapes in larger)
        for size in sizes_beside(main.shapes, places, stored)[:_MOST_NARROWED]:
            yield at_sizes(places, partial(max, size))
    yield from other_choices(model, known, main, changed, turns)
    if changed:  # an Expand may accept size 1, although inference does not say so
        yield from (at_sizes(places, lambda _: 1) for places in open_ if places not in inferred)
        for others in (_exchanged(main.shapes, open_), exchanged_sizes(main.shapes, open_)):
            yield from (_at(model, shapes, turns) for shapes in islice(others, _MOST_NARROWED))


def turns_for(model: ir.Model) -> Iterator[int]:
    """Return as many turns as shapes may be inferred for other sizes of a model: fewer of a large one."""
    return iter(range(_MOST_INFERRED // (sum(1 for _ in model.nodes()) + 1)))


def _exchanged(shapes: ChosenShapes, open_: Iterable[Places]) -> Iterator[ChosenShapes]:
    """Yield the shapes with the sizes of two dynamic axes of two inputs exchanged, if one of the sizes is 1.

    An operator that broadcasts its inputs to each other then broadcasts the other one.
    """
    for one, other in permutations(open_, 2):
        (name, axis), (second, place) = one[0], other[0]
        small, large = shapes[name], shapes[second]
        if name != second and axis - len(small) == place - len(large) and small[axis] == 1 < large[place]:
            yield resized(shapes, {**dict.fromkeys(one, large[place]), **dict.fromkeys(other, 1)})


def _resized(
    model: ir.Model, main: Choice, turns: Iterator[int], places: Places, change: Callable[[int], int]
) -> Iterator[Choice]:
    return _at(model, resized(main.shapes, {place: change(main.shapes[place[0]][place[1]]) for place in places}), turns)


def _at(model: ir.Model, shapes: ChosenShapes, turns: Iterator[int]) -> Iterator[Choice]:
    has_turn = next(turns, None) is not None
    choice = _choice(model, shapes) if has_turn else None
    return iter(() if choice is None else (choice,))


def _usual(nodes: Sequence[ir.Node], names: Sequence[str]) -> Iterator[tuple[Sizing, int]]:
    """Yield the usual sizes; after the first, those at which two of the dynamic sizes (``names``) are equal."""
    first, *others = ((sizing, _LARGEST_GUESS) for sizing in sizings(nodes))
    paired = ((sizing, _LARGEST_SEARCHED) for sizing in paired_sizings(names, least_size(nodes)))
    return chain([first], paired, ((sizing, _SMALL_GUESS) for sizing in further_sizings()), others)


def united(nodes: Sequence[ir.Node], known: Mapping[str, Known], main: Choice) -> Mapping[str, Known]:
    """Give one name to the two dynamic sizes that have to be equal: it runs at the ``main`` sizes, not at the first."""
    first = sizings(nodes)[0]
    if all(first.concrete(shape) == main.shapes[name] for name, shape in known.items()):
        return known
    sizes = {
        dim: size
        for name, shape in known.items()
        for dim, size in zip(shape, main.shapes[name], strict=True)
        if isinstance(dim, str)
    }
    pair = [dim for dim, size in sizes.items() if [*sizes.values()].count(size) > 1]
    if len(pair) != 2:
        return known
    return {name: [pair[0] if dim in pair else dim for dim in shape] for name, shape in known.items()}


def apart(
    model: ir.Model, known: Mapping[str, Known], main: Choice, turns: Iterator[int]
) -> Iterator[Iterator[Choice]]:
    """Yield groups of choices with one other dynamic size than in the main one, and all others as there.

    The first sizes may have been too large for a table, and need not be equal: one is larger. What has size 1 may be
    stretched.
    """
    at_sizes = partial(_resized, model, main, turns)
    open_ = open_places(known)[:_MOST_NARROWED]
    yield chain.from_iterable(at_sizes(places, lambda size: size + 1) for places in open_)
    yield from (at_sizes(places, lambda _: 1) for places in open_)


def _distinct(
    known: Mapping[str, Known], found: Iterable[tuple[Sizing, int]], tried: list[ChosenShapes]
) -> Iterator[ChosenShapes]:
    """Yield shapes that were not tried.

    Shapes with more elements than their sizing is worth are left out, except for the very first.
    """
    for sizing, most in found:
        shapes = {name: sizing.concrete(shape) for name, shape in known.items()}
        if shapes not in tried and not (tried and elements(shapes) > most):
            tried.append(shapes)
            yield shapes


def _followed(model: ir.Model, known: Mapping[str, Known], followed: ir.Model | None) -> ir.Model | None:
    """Return the model with inferred shapes; None if inference cannot follow it.

    If it cannot, its objections to some sizes mean nothing.
    """
    if len(model.graph.nodes) > MANY_NODES:
        return None
    return fitted(model, known) if followed is None else followed


def _choice(model: ir.Model, shapes: ChosenShapes) -> Choice | None:
    """Return the choice; None if inference finds a contradiction at these sizes."""
    copy = fitted(model, shapes)
    return None if copy is None else Choice(shapes, copy)
