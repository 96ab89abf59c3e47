"""Other shapes that callers may feed to a part than those that it is compared at first.

All of them serve integers and sizes: two operators may agree at one size and differ at another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bnfold import ir
from bnfold.ir.value import Known
from bnfold.reference.operators import BROADCASTING, COMPARING, RESHAPING
from bnfold.verification.inputs.bounds import BEYOND, follow_from_sizes, largest_bound
from bnfold.verification.inputs.shapes import (
    ChosenShapes,
    broadcast_sizes,
    exchanged_sizes,
    is_broadcast_inside,
    longer,
    open_places,
    resized,
    sizes_beside,
)
from bnfold.verification.inputs.sized import sized
from bnfold.verification.subgraphs.shapes import may_be_fed_at


def further_shapes(
    fed: Mapping[str, ir.Value],
    usual: ChosenShapes,
    nodes: Iterable[ir.Node],
    inferred: Callable[[ir.Value], Known | None],
) -> Iterator[ChosenShapes]:
    """Yield other shapes that callers may feed.

    Dynamic sizes as 1 beside another input or a constant of that size, and in place of a 1 such a size; one axis where
    the rank is unknown.
    """
    for name, value in fed.items():
        if value.is_input and value.shape is None and len(usual[name]) > 1:
            yield {**usual, name: (math.prod(usual[name]),)}
    places = open_places({name: [dim or None for dim in inferred(value) or ()] for name, value in fed.items()})
    stored = broadcast_sizes(nodes) if places else set()
    for same in places:
        for size in sizes_beside(usual, same, stored):
            shapes = resized(usual, dict.fromkeys(same, size))
            if may_be_fed_at(shapes):
                yield shapes
        is_beside = len(usual) > 1 and all(fed[name].is_input for name, _ in same)
        if not (is_beside or any((usual[name][axis], len(usual[name]) - axis) in stored for name, axis in same)):
            continue
        shapes = resized(usual, dict.fromkeys(same, 1))
        if shapes != usual:
            yield shapes


def shapes_of_inputs(
    part: ir.Model,
    fed: Mapping[str, ir.Value],
    usual: ChosenShapes,
    inferred: Callable[[ir.Value], Known | None],
    declared: Iterable[Known | None],
) -> Iterator[ChosenShapes]:
    """Yield shapes with a dynamic size of the model's inputs as 1, with two of them exchanged, and with larger ones.

    Nodes outside the part may broadcast one, or fix the product of two; or the model cannot run there. There are none
    where the part is fed other values whose sizes follow in another way.
    """
    named = {dim for dims in declared for dim in dims or () if isinstance(dim, str)}
    known = {name: inferred(value) for name, value in fed.items()}
    for name, dims in known.items():
        if not fed[name].is_input and (dims is None or any(not isinstance(it, int) and it not in named for it in dims)):
            return
    open_ = open_places({name: dims or () for name, dims in known.items()})
    for same in open_:
        if all(usual[name][axis] > 1 for name, axis in same):
            yield resized(usual, dict.fromkeys(same, 1))
    yield from exchanged_sizes(usual, open_)
    may_broadcast = open_ and any(node.has_trait(BROADCASTING) for node in part.graph.nodes)
    if may_broadcast and is_broadcast_inside(sized(part, usual), part):
        for same in open_:
            yield from longer(usual, same)


def deciding_shapes(
    fed: Mapping[str, ir.Value], usual: ChosenShapes, nodes: Sequence[ir.Node]
) -> Iterator[ChosenShapes]:
    """Yield shapes of single elements, and with one axis empty, if comparing a size decides what is computed.

    Sizes that are declared stay as they are.
    """
    if not any(map(_compares_sizes, nodes)):
        return
    known = {name: value.shape or [None] * len(usual[name]) for name, value in fed.items()}
    places = open_places(known)
    yield resized(usual, {place: 1 for same in places for place in same})
    for same in places:
        yield resized(usual, dict.fromkeys(same, 0))


def _compares_sizes(node: ir.Node) -> bool:
    made = node.output(0)
    return node.has_trait(COMPARING) and made is not None and follow_from_sizes([made])


def beyond_bounds(
    fed: Mapping[str, ir.Value], passed: Sequence[ChosenShapes], nodes: Sequence[ir.Node], inputs: Iterable[ir.Value]
) -> Iterator[ChosenShapes]:
    """Yield the first shapes with a dynamic size of the model's inputs behind all places at which nodes may end.

    Where results differ at sizes that are not declared, no such size has been compared.
    """
    last = largest_bound(nodes) + BEYOND
    named = {dim for value in inputs for dim in value.shape or () if isinstance(dim, str)}
    for same in open_places({name: value.shape or () for name, value in fed.items()}):
        is_named = (fed[same[0][0]].shape or ())[same[0][1]] in named
        if not is_named or any(shapes[name][axis] >= last for shapes in passed for name, axis in same):
            continue
        shapes = resized(passed[0], dict.fromkeys(same, last))
        if may_be_fed_at(shapes):
            yield shapes


def nearby(usual: ChosenShapes, known: Mapping[str, Known | None]) -> Iterator[ChosenShapes]:
    """Yield shapes with one open axis of what is ``known`` one smaller, or twice as large.

    A smaller one fits a table with more rows than are read; a Reshape may accept multiples only.
    """
    for name, dims in known.items():
        for axis, size in enumerate(usual[name]):
            for other in (size - 1, 2 * size) if dims is None or not isinstance(dims[axis], int) else ():
                shapes = resized(usual, {(name, axis): other})
                if other and may_be_fed_at(shapes):
                    yield shapes


def doubled(
    passed: Sequence[ChosenShapes], known: Mapping[str, Known | None], nodes: Iterable[ir.Node]
) -> Iterator[ChosenShapes]:
    """Yield the first shapes with a dynamic size twice as large that was the same in all: a Reshape may take multiples.

    Axes of one name are one size. One without a name may depend on other inputs, if there are some, and sizes inside a
    network on what makes them.
    """
    if known.keys() != passed[0].keys() or not any(node.has_trait(RESHAPING) for node in nodes):
        return
    places: dict[str, list[tuple[str, int]]] = {}
    for name, dims in known.items():
        for axis, dim in enumerate(dims or ()):
            if isinstance(dim, str) or (not dim and len(known) == 1):
                places.setdefault(dim or f"{name} {axis}", []).append((name, axis))
    for open_ in places.values():
        if len({shapes[name][axis] for shapes in passed for name, axis in open_}) == 1:
            shapes = resized(passed[0], {(name, axis): 2 * passed[0][name][axis] for name, axis in open_})
            if may_be_fed_at(shapes):
                yield shapes
