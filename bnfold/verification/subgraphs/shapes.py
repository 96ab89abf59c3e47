"""Choose input shapes for a part: dims that weights fix stay, all others become small and different.

This serves integers and sizes: what depends on a size has to differ between two of them. So windows have to slide, rows
have to be told apart if operators mix them, and sizes have to lie on both sides of each bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from onnx import TensorProto

from bnfold import ir, reference
from bnfold.ir.value import Known
from bnfold.reference.operators import BROADCASTING, KEEPS_SHAPE, RESHAPING, WINDOWED
from bnfold.reference.sizing import SymbolicSize
from bnfold.verification.changes.extract import constant_of
from bnfold.verification.inputs.bounds import BEYOND, chooses_by_sizes, depend_on_sizes, largest_bound
from bnfold.verification.inputs.domains import InputShapeOf
from bnfold.verification.inputs.learned import ROWS, branches_by_features
from bnfold.verification.inputs.shapes import ChosenShapes, elements, is_resized
from bnfold.verification.inputs.unification import UnifiedDims

LARGEST_FEED = 1 << 23
"""Elements of activations that a region may be fed; with more, even a region is no small matter."""

_TIMES_AS_LARGE = 4
"""How many times as many elements two rows may have: without them, a part is compared from far in front of it."""

LARGEST_OTHER = 1 << 20
"""Elements of activations at further sizes, at which several samples are compared."""

LARGEST_ROW = 1 << 16
"""Places of an image up to which more than two rows are compared at once."""

_MUCH = 1 << 20
"""Elements of a row beyond which one of them does, where no operator mixes rows."""

_EVEN = 8
"""What halves three times must meet again what did not."""

_OTHER_BATCHES = (4, 5, 6, 7, 8, 2)
"""A Reshape to fixed sizes takes one batch only. In one row the last is the first."""

_NEW_BATCH = 10
"""None of the above; an even number, which halves show."""

_GUESSED_RANKS = (4, 3, 2, 1, 5)

BATCH = 3

_FREE_BATCH = "batch"

_MANY = 1 << 16
"""Elements of activations beyond which axis 1 is opened where channels are the last."""


class Trial(NamedTuple):
    """Shapes to try, and whether equal results at them are conclusive.

    ``others`` are further sizes, at which a part that passes here may differ. Free axes are one larger: if strides skip
    elements, padding may show only then, and a stored index may be right at one size by chance. If operators depend on
    sizes, there is a trial with one row, and one with axes longer than any bound. If only some batches fit, one row and
    twice the batch are tried. If an axis decides how many rows of a table are read, it is as long as the table.
    """

    shapes: ChosenShapes
    passing_is_conclusive: bool
    others: tuple[ChosenShapes, ...] = ()
    is_another_batch: bool = False
    quick: tuple[ChosenShapes, ...] = ()
    """In place of ``others`` where a region takes long: one row, of the largest sizes."""


def subgraph_shapes(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], added: Sequence[ir.Node] = ()
) -> Iterator[Trial]:
    """Yield shapes to try until the part runs: small ones first, then the declared ones.

    What is ``added`` to its nodes by a rewrite may differ at other sizes as well.

    A rewrite may rely on the declared shapes (no padding at this size, one row). So a difference at other sizes does
    not count if the declared sizes are all that can occur and show none. Without a known rank, the usual ranks are
    tried. A difference at a wrong guess means nothing. What makes a constant behaves alike at all sizes.
    """
    nodes, added = ([node for node in each if constant_of(node.output(0)) is None] for each in (nodes, added))
    known = {name: _known(value) for name, value in inputs.items()}
    tried: list[ChosenShapes] = []
    for full in _guesses(known):
        for trial in _trials(inputs, nodes, added, full, is_guess=None in known.values()):
            if trial.shapes not in tried and may_be_fed_at(trial.shapes):
                tried.append(trial.shapes)
                yield trial
    if tried or not inputs:
        return
    shapes = of_few_rows(inputs, nodes, known, _few_rows((*nodes, *added)))
    if shapes and elements(shapes) <= _TIMES_AS_LARGE * LARGEST_FEED:
        yield Trial(shapes, passing_is_conclusive=False)


def needs_other_sizes(nodes: Sequence[ir.Node]) -> bool:
    """Whether operators may agree at some sizes and differ at others."""
    return has_strides(nodes) or _reads_places(nodes) or depend_on_sizes(nodes)


def _trials(
    inputs: Mapping[str, ir.Value],
    nodes: Sequence[ir.Node],
    added: Sequence[ir.Node],
    full: Mapping[str, Known],
    *,
    is_guess: bool,
) -> Iterator[Trial]:
    both = [*nodes, *added]
    usual = _usual_rows(full, ROWS if branches_by_features(both) else BATCH)
    reach, is_large = reach_of(nodes), any(map(_makes_large, nodes))
    rows = _few_rows(both) if is_large else usual
    further: list[dict[str, int]] = [{"batch": 1}] if is_large else []
    further += [{"more": 1}] if not is_large and (has_strides(both) or _reads_places(both)) else []
    still = [node for node in both if not node.has_trait(WINDOWED)]  # no window slides along the batch
    beyond, many = _behind(largest_bound(both)), _behind(largest_bound(still))
    if depend_on_sizes(both):
        further += [{"batch": 1}, {"least": beyond}, {"batch": max(many, usual) + max(many, usual) % 2}]
    is_static = all(isinstance(dim, int) for shape in full.values() for dim in shape[1:])
    reads_sizes = any(node.is_op("Shape", "Size") for node in both)  # a size beside another one is then a number
    small = full if reads_sizes else opened(inputs, nodes, full, 3 + reach)
    for by_axis, steps in ((False, (1,)), (True, (1, _EVEN))):
        inferred = inferred_of(inputs, nodes, small, by_axis=by_axis)
        for step in steps:
            shapes = concrete(inferred, 3 + reach, step=step, batch=rows)
            others = [
                concrete(inferred, **{"least": 3 + reach, "step": step, "batch": usual, **changed})
                for changed in further
            ]
            if any(elements(other) > LARGEST_OTHER for other in others):
                others += one_axis_longer(inferred, shapes, beyond)
            distinct = (other for place, other in enumerate(others) if other not in (shapes, *others[:place]))
            single = concrete(inferred, max(3 + reach, beyond), step=step, more=1, batch=1)
            quick = (single,) if further and elements(single) <= LARGEST_OTHER else ()
            yield Trial(
                shapes,
                is_guess or (small is full and is_static),
                tuple(other for other in distinct if elements(other) <= LARGEST_OTHER),
                quick=quick,
            )
    inferred = inferred_of(inputs, nodes, full, by_axis=True)
    is_much = _is_much(inferred, both)
    first = 1 if is_much else usual
    for batch in (first, *(size for size in (BATCH, *_OTHER_BATCHES) if size != first)):
        more = (1, 2 * batch) if batch != BATCH else (1,) if any(node.has_trait(RESHAPING) for node in nodes) else ()
        more = () if is_much and batch == first else more
        shapes, *rest = (concrete(inferred, 3 + reach, step=_EVEN, batch=size) for size in (batch, *more))
        others = [other for other in rest if other != shapes and may_be_fed_at(other)]
        yield Trial(shapes, is_guess or is_static, tuple(others), is_another_batch=True)
    if any(map(chooses_by_sizes, both)):
        every, few = (concrete(inferred, least, step=1) for least in (largest_bound(both) + 1, 2))
        yield Trial(every, is_guess or is_static, (few,) if few != every else ())
        yield Trial(few, is_guess or is_static)
    if depend_on_sizes(both):  # what lies behind a bound is empty at the sizes above
        beyond_each = concrete(inferred, max(3 + reach, beyond), batch=max(many + many % 2, _NEW_BATCH))
        yield Trial(beyond_each, is_guess or is_static, is_another_batch=True)


def _behind(bound: int) -> int:
    return bound + BEYOND if bound else 1


def _usual_rows(full: Mapping[str, Known], least: int) -> int:
    """Return a number of rows that no other axis is declared to have, and that cannot be mistaken for its size."""
    declared = {dim for shape in full.values() for dim in shape[1:]}
    return next(size for size in count(least, 2) if size not in declared)  # an even one is split in halves


def _few_rows(nodes: Iterable[ir.Node]) -> int:
    """Return how many rows are enough where each takes long. One shows as much as two if no operator mixes them."""
    return 2 if any(map(mixes_rows, nodes)) else 1


def _is_much(inferred: Mapping[str, Sequence[SymbolicSize]], nodes: Sequence[ir.Node]) -> bool:
    """Whether a row is large, and one is enough."""
    return _few_rows(nodes) == 1 and elements(concrete(inferred, 1, batch=1)) > _MUCH


def may_be_fed_at(shapes: ChosenShapes) -> bool:
    """Whether a part may be fed as many activations."""
    return elements(shapes) <= LARGEST_FEED


def lacks_rank(inputs: Mapping[str, ir.Value]) -> bool:
    """Whether an input has an unknown rank."""
    return any(value.shape is None for value in inputs.values())


def has_guesses(inputs: Mapping[str, ir.Value], shapes: ChosenShapes) -> bool:
    """Whether the rank of an input is unknown, or a size is not the declared one."""
    return any(value.shape is None or is_resized(value.shape, shapes[name]) for name, value in inputs.items())


def says_more(value: ir.Value, others: Mapping[str, ir.Value]) -> bool:
    """Whether the shape of a value is known, or ``others`` have no shape for its name."""
    return value.shape is not None or value.name not in others or others[value.name].shape is None


def fed_shapes(shapes: ChosenShapes) -> InputShapeOf:
    """Return a function for the shapes of values that a part is fed, of weights, and behind nodes that keep shapes."""

    def shape_of(value: ir.Value | None) -> Sequence[int | str | None] | None:
        if value is None or value.name in shapes:
            return None if value is None else shapes[value.name]
        held, producer = reference.constant(value), value.producer
        if held is not None or producer is None:
            return held.dims if held is not None else None
        if not producer.has_trait(KEEPS_SHAPE | BROADCASTING):
            return None
        known = [
            shape_of(read) for read in (producer.inputs if producer.has_trait(BROADCASTING) else producer.inputs[:1])
        ]
        return max((shape for shape in known if shape is not None), key=len, default=None)

    return shape_of


def updates_of(nodes: Sequence[ir.Node]) -> dict[str, ir.Node]:
    """Return the nodes by the name of the updates that they scatter."""
    scattering = (node for node in nodes if node.is_op("ScatterND"))
    return {value.name: node for node in scattering for value in node.inputs[2:] if value is not None}


def _known(value: ir.Value) -> Known | None:
    """Return the shape; 0 is what exporters write for an unknown size."""
    return None if value.shape is None else [dim or None for dim in value.shape]


def _guesses(known: Mapping[str, Known | None]) -> Iterator[dict[str, Known]]:
    """Yield the known shapes, and for the others those of their neighbours, then the usual ranks."""
    ranked = [shape for shape in known.values() if shape is not None]
    ranks = (
        dict.fromkeys([*sorted(map(len, ranked), reverse=True), *_GUESSED_RANKS])
        if None in known.values()
        else {0: None}
    )
    for rank in ranks:
        like: Known = next((shape for shape in ranked if len(shape) == rank), [None] * rank)
        yield {name: shape if shape is not None else like for name, shape in known.items()}


def _makes_large(node: ir.Node) -> bool:
    """Whether a result is large, however small the activations are; then even a few rows take long."""
    return node.is_op("ConvTranspose") and math.prod(node.attr("output_shape", [0])) > LARGEST_ROW


def _reads_places(nodes: Sequence[ir.Node]) -> bool:
    stored = (
        value for node in nodes for value in node.inputs if value is not None and reference.constant(value) is not None
    )
    return any(value.dtype in (TensorProto.INT64, TensorProto.INT32) for value in stored)


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


def mixes_rows(node: ir.Node) -> bool:
    """Whether a row of results may be made of other rows, or depend on how many there are.

    What broadcasts a constant of several rows shows on one row.
    """
    if node.has_trait(WINDOWED) or node.has_trait(BROADCASTING) or node.is_op("Crop", "InstanceNormalization"):
        return False
    if node.is_op("Concat"):
        return bool(node.attr("axis", 0) <= 0)
    if node.is_op("Slice"):
        shape = node.inputs[0].shape if node.inputs[0] is not None else None
        axes = [axis % len(shape) if shape else axis for axis in _integers(node, "axes", 3)]
        return not axes or min(axes) <= 0
    if node.is_op("Pad"):
        pads = _integers(node, "pads", 1)
        return not pads or node.input(3) is not None or any((pads[0], pads[len(pads) // 2]))
    return True


def _integers(node: ir.Node, name: str, slot: int) -> list[int]:
    """Return the numbers of an attribute, or of the constant that later versions read; none if they are unknown."""
    held = reference.constant(node.input(slot))
    return [int(number) for number in (node.attr(name, ()) if held is None else held.numpy().reshape(-1))]
