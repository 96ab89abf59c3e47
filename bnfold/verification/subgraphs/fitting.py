"""Sizes of inner values that fit together: those that follow, in the original, from small inputs of the whole model.

If a part is fed values from several levels of a network, nodes outside the part relate their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import tee
from typing import NamedTuple

from bnfold import ir
from bnfold.errors import BadInput, Unsupported
from bnfold.ir.value import Known
from bnfold.reference.operators import BROADCASTING, KEEPS_SHAPE
from bnfold.verification.changes.boundaries import visible
from bnfold.verification.changes.extract import Subgraph, constant_of
from bnfold.verification.comparing.sizes import sizes_of_original
from bnfold.verification.inputs.bounds import kinds_of, size_changes
from bnfold.verification.inputs.choices import Choice, other_choices, turns_for
from bnfold.verification.inputs.shapes import ChosenShapes, elements, sizings
from bnfold.verification.inputs.sized import fitted, sized
from bnfold.verification.request import Request
from bnfold.verification.subgraphs.shapes import (
    LARGEST_OTHER,
    Trial,
    may_be_fed_at,
    needs_other_sizes,
    subgraph_shapes,
    updates_of,
)
from bnfold.verification.subgraphs.trials import SubgraphTrials

_MEETING = BROADCASTING | {"Concat", "Reshape"}
"""Operators that read values of equal sizes, or a value and a shape for it."""
_MOST_MET = 8
"""Inputs of a part up to which they are fitted to each other; each takes an inference of the part."""

_LARGE = 128
"""Sides of images that are longer are tried shorter first, although they are declared; so are batches of several."""

FittedGraphs = dict[str, ir.Graph]

_LEAST = 3

_LARGEST_RATIO = 8
"""Beyond, what the whole model makes of small images is as small."""


class SizedGraphs(NamedTuple):
    """The graphs of the original by path, at its ``main`` sizes, and at ``others`` that may reveal a difference."""

    main: FittedGraphs
    others: Callable[[], Sequence[FittedGraphs]]


def sizes_in_turn(
    request: Request, path: str, fed: Mapping[str, ir.Value], sides: tuple[Subgraph, Subgraph], attempts: SubgraphTrials
) -> Iterator[Trial]:
    """Yield sizes for a part; if it does not run at the first, then those that follow from it, or from the whole."""
    part, rewritten = sides
    known = kinds_of(part.nodes).keys()
    added = [node for node in rewritten.nodes if not kinds_of([node]).keys() <= known]
    trials = subgraph_shapes(fed, part.nodes, added)
    first = next(trials, None)
    if first is not None:
        yield first
    if not attempts.has_run:
        if first is not None and (other := _meeting(part, first)) != first:
            yield other
        scaled = at_levels(fed, part.nodes, first.shapes) if first is not None and not attempts.has_run else None
        if scaled is not None:
            yield scaled
        if not attempts.has_passed:  # they are guesses
            yield from _fitting(request, path, fed, [*part.nodes, *added])
    yield from trials


def _meeting(part: Subgraph, trial: Trial) -> Trial:
    """Return the trial with inputs as large as values that they meet inside the part, behind a stride perhaps."""
    return trial._replace(
        shapes=_met(part, trial.shapes),
        others=tuple(_met(part, shapes) for shapes in trial.others),
        quick=tuple(_met(part, shapes) for shapes in trial.quick),
    )


def _met(part: Subgraph, shapes: ChosenShapes) -> ChosenShapes:
    """Return the shapes with that of one operand taken from another one, which the part computes."""
    found, met = {**shapes}, set[str]()
    for node in part.nodes if 1 < len(shapes) <= _MOST_MET else ():
        is_meant = node.has_trait(_MEETING) and not node.has_references
        read = [_behind(value, found) for value in node.inputs if value is not None] if is_meant else []
        given = [value for value in read if value.name in found]
        made = next((value for value in read if value.name not in found and constant_of(value) is None), None)
        if len(given) == 1 and made is not None and given[0].name not in met:
            met.add(given[0].name)
            found[given[0].name] = _as_met(part, node, given[0], made, found)
    return found


def _as_met(part: Subgraph, node: ir.Node, given: ir.Value, made: ir.Value, shapes: ChosenShapes) -> tuple[int, ...]:
    """Return the shape of a ``given`` value that a node reads beside one that the part has ``made``."""
    own, is_target = shapes[given.name], node.is_op("Reshape")
    at = node.output(0) if is_target else made
    opened = _opened_last(given, own) if is_target else [None] * len(own)
    sizes = sized(part.model, {**shapes, given.name: opened}).graph.values[at.name].shape if at is not None else None
    if sizes is None or not own:
        return own
    return _as_many(opened, own, sizes) if is_target else _as_large(node, own, sizes)


def _behind(value: ir.Value, fed: Collection[str]) -> ir.Value:
    """Return the value that a part is fed and that has the same shape, or else the value itself."""
    at: ir.Value | None = value
    while at is not None and at.name not in fed:
        at = at.producer.input(0) if at.producer is not None and at.producer.has_trait(KEEPS_SHAPE) else None
    return value if at is None else at


def _as_large(node: ir.Node, own: tuple[int, ...], sizes: Known) -> tuple[int, ...]:
    """Return a shape with these sizes, as far as they are known; what is 1 may be broadcast."""
    if len(sizes) != len(own):
        return own
    apart = node.attr("axis", 0) % len(own) if node.is_op("Concat") else None
    return tuple(
        size if isinstance(size, int) and axis != apart and (old != 1 or apart is not None) else old
        for axis, (old, size) in enumerate(zip(own, sizes, strict=True))
    )


def _opened_last(value: ir.Value, own: tuple[int, ...]) -> Known:
    """Return a value's sizes with the last of those open that its type leaves so, behind the batch."""
    dims = value.shape or own
    last = max((axis for axis, dim in enumerate(dims) if axis and not isinstance(dim, int)), default=None)
    return [None if axis == last else size for axis, size in enumerate(own)]


def _as_many(opened: Known, own: tuple[int, ...], sizes: Known) -> tuple[int, ...]:
    """Return the opened shape with as many elements as the sizes have."""
    total = math.prod(size if isinstance(size, int) else 0 for size in sizes)
    rest = math.prod(size for size in opened if isinstance(size, int))
    if None not in opened or not rest or not total or total % rest:
        return own
    return tuple(size if isinstance(size, int) else total // rest for size in opened)


def _fitting(request: Request, path: str, fed: Mapping[str, ir.Value], nodes: Sequence[ir.Node]) -> Iterator[Trial]:
    """Yield sizes for the values ``fed`` to a part of the graph at ``path``; none if they do not follow."""
    counted = updates_of(nodes)
    for group in copy(request.once(_kept)):
        shapes = _shapes(group.main, path, fed, counted)
        if shapes is None or not may_be_fed_at(shapes):
            continue
        known = (_shapes(graphs, path, fed, counted) for graphs in (group.others() if needs_other_sizes(nodes) else ()))
        found = [other for other in known if other is not None] or [_with_batch(shapes, factor) for factor in (0, 2)]
        small = (other for other in found if elements(other) <= LARGEST_OTHER)
        yield Trial(shapes, passing_is_conclusive=False, others=tuple(small))


def _with_batch(shapes: ChosenShapes, factor: int) -> ChosenShapes:
    """Return the shapes with so many times the batch, but at least one row."""
    return {
        name: (max(shape[0] * factor, 1), *shape[1:]) if len(shape) > 1 else shape for name, shape in shapes.items()
    }


def _shapes(
    graphs: FittedGraphs, path: str, fed: Mapping[str, ir.Value], counted: Collection[str]
) -> ChosenShapes | None:
    """Return the sizes of these values, unless one is unknown, or has another rank than is declared.

    Those that are ``counted`` have as many elements as the part finds indices for: they are left empty.
    """
    found: ChosenShapes = {}
    for name, known in fed.items():
        value = visible(graphs[path], name) if path in graphs else None
        sizes = [dim for dim in value.shape or () if isinstance(dim, int)] if value is not None else []
        if value is None or value.shape is None or len(sizes) < len(value.shape):
            if name not in counted or not known.shape:
                return None
            sizes = [0] * len(known.shape)
        if known.shape is not None and len(known.shape) != len(sizes):
            return None
        found[name] = tuple(sizes)
    return found


def _kept(request: Request) -> Iterator[SizedGraphs]:
    """Return the groups, which are found on demand; every copy begins with the first."""
    (kept,) = tee(_groups(request), 1)
    return kept


def _groups(request: Request) -> Iterator[SizedGraphs]:
    try:
        known, usual = sizes_of_original(request)
    except (BadInput, Unsupported):
        return
    opened = {name: shape if name in request.checks.inputs else _opened(shape) for name, shape in known.items()}
    if opened != known:
        sizing, *_ = sizings(request.before.nodes())
        shapes = {name: sizing.concrete(shape) for name, shape in opened.items()}
        if (smaller := fitted(request.before, shapes)) is not None:
            yield _group(request, opened, Choice(shapes, smaller))
    if (first := next(usual, None)) is not None:
        yield _group(request, known, first)


def _opened(shape: Known) -> Known:
    """Return the shape with a batch of several images and their long sides as dynamic sizes.

    Equal sides stay equal.
    """
    most = (1, math.inf, *[_LARGE] * len(shape))
    return [
        f"{dim}" if len(shape) > 3 and isinstance(dim, int) and dim > limit else dim
        for dim, limit in zip(shape, most, strict=False)
    ]


def _group(request: Request, known: Mapping[str, Known], main: Choice) -> SizedGraphs:
    @cache
    def others() -> Sequence[FittedGraphs]:
        """Infer the other sizes, for the first part that asks for them."""
        changed = size_changes(request.before, request.after)
        groups = other_choices(request.before, known, main, changed, turns_for(request.before))
        found = (next(choices, None) for choices in groups)
        return [_by_path(choice) for choice in found if choice is not None]

    return SizedGraphs(_by_path(main), others)


def _by_path(choice: Choice) -> FittedGraphs:
    return {graph.path: graph for graph in choice.model.graphs()}


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
