"""Choose input shapes for a region: dims that weights fix stay, all others become small and different."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from onnx import TensorProto

from bnfold import ir
from bnfold.ir.shapes.rules import Dim
from bnfold.ir.shapes.unification import Dims, Known
from bnfold.ir.traits import BROADCASTING, KEEPS_SHAPE, RESHAPING, WINDOWED
from bnfold.verification.changes.extract import constant_of
from bnfold.verification.inputs.bounds import chooses_by_sizes, depend_on_sizes, largest_bound
from bnfold.verification.inputs.domains import ShapeOf
from bnfold.verification.inputs.shapes import elements, open_places
from bnfold.verification.subgraphs.windows import has_strides, reach_of

Shapes = dict[str, tuple[int, ...]]

LARGEST_FEED = 1 << 23
"""Elements of activations that a region may be fed; with more, even a region is no small matter."""

LARGEST_OTHER = 1 << 20
"""Elements of activations at further sizes, at which several samples are compared."""

LARGEST_ROW = 1 << 16
"""Places of an image up to which several rows are compared at once."""

_EVEN = 8
"""What halves three times must meet again what did not."""

_BATCH = 3
_OTHER_BATCHES = (4, 5, 6, 7, 8, 2)
"""A Reshape to fixed sizes takes one batch only. In one row the last is the first."""

_FREE_BATCH = "batch"
_GUESSED_RANKS = (4, 3, 2, 1, 5)


class Trial(NamedTuple):
    """Shapes to try, and whether equal results at them are conclusive.

    ``others`` are further sizes, at which a part that passes here may differ. Free axes are one larger: if strides skip
    elements, padding may show only then, and a stored index may be right at one size by chance. If operators depend on
    sizes, there is a trial with one row, and one with axes longer than any bound. If only some batches fit, one row and
    twice the batch are tried. If an axis decides how many rows of a table are read, it is as long as the table.
    """

    shapes: Shapes
    passing_is_conclusive: bool
    others: tuple[Shapes, ...] = ()
    is_another_batch: bool = False
    quick: tuple[Shapes, ...] = ()
    """In place of ``others`` where a region takes long: one row, of the largest sizes."""


def subgraph_shapes(inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node]) -> Iterator[Trial]:
    """Yield shapes to try until the part runs: small ones first, then the declared ones.

    A rewrite may rely on the declared shapes (no padding at this size, one row). So a difference at other sizes does
    not count if the declared sizes are all that can occur and show none. Without a known rank, the usual ranks are
    tried. A difference at a wrong guess means nothing. What makes a constant behaves alike at all sizes.
    """
    nodes = [node for node in nodes if constant_of(node.output(0)) is None]
    known = {name: _known(value) for name, value in inputs.items()}
    tried: list[Shapes] = []
    for full in _guesses(known):
        for trial in _trials(inputs, nodes, full, is_guess=None in known.values()):
            if trial.shapes not in tried and may_be_fed_at(trial.shapes):
                tried.append(trial.shapes)
                yield trial


def needs_other_sizes(nodes: Sequence[ir.Node]) -> bool:
    """Whether operators may agree at some sizes and differ at others."""
    return has_strides(nodes) or _reads_places(nodes) or depend_on_sizes(nodes)


def _trials(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], full: Mapping[str, Known], *, is_guess: bool
) -> Iterator[Trial]:
    usual = _usual_rows(full)
    reach, rows = reach_of(nodes), 1 if any(map(_makes_large, nodes)) else usual
    further: list[dict[str, int]] = [{"batch": 2}] if rows == 1 else []
    further += [{"more": 1}] if rows > 1 and (has_strides(nodes) or _reads_places(nodes)) else []
    still = [node for node in nodes if not node.has_trait(WINDOWED)]  # no window slides along the batch
    beyond, many = largest_bound(nodes) + 1, largest_bound(still) + 1
    if depend_on_sizes(nodes):
        further += [{"batch": 1}, {"least": beyond}, {"batch": max(many, usual) + max(many, usual) % 2}]
    is_static = all(isinstance(dim, int) for shape in full.values() for dim in shape[1:])
    reads_sizes = any(node.is_op("Shape", "Size") for node in nodes)  # a size beside another one is then a number
    small = full if reads_sizes else {name: _small(inputs[name], shape) for name, shape in full.items()}
    for by_axis, steps in ((False, (1,)), (True, (1, _EVEN))):
        inferred = _inferred(inputs, nodes, small, by_axis=by_axis)
        for step in steps:
            shapes = _sizes(inferred, 3 + reach, step=step, batch=rows)
            others = [
                _sizes(inferred, **{"least": 3 + reach, "step": step, "batch": usual, **changed}) for changed in further
            ]
            if any(elements(other) > LARGEST_OTHER for other in others):
                others += _one_axis_longer(inferred, shapes, beyond)
            distinct = (other for place, other in enumerate(others) if other not in (shapes, *others[:place]))
            single = _sizes(inferred, max(3 + reach, beyond), step=step, more=1, batch=1 if rows > 1 else 2)
            quick = (single,) if further and elements(single) <= LARGEST_OTHER else ()
            yield Trial(
                shapes,
                is_guess or (small is full and is_static),
                tuple(other for other in distinct if elements(other) <= LARGEST_OTHER),
                quick=quick,
            )
    inferred = _inferred(inputs, nodes, full, by_axis=True)
    for batch in (usual, *(size for size in (_BATCH, *_OTHER_BATCHES) if size != usual)):
        more = (1, 2 * batch) if batch != _BATCH else (1,) if any(node.has_trait(RESHAPING) for node in nodes) else ()
        shapes, *rest = (_sizes(inferred, 3 + reach, step=_EVEN, batch=size) for size in (batch, *more))
        others = [other for other in rest if other != shapes]
        yield Trial(shapes, is_guess or is_static, tuple(others), is_another_batch=True)
    if any(map(chooses_by_sizes, nodes)):
        every, few = (_sizes(inferred, least, step=1) for least in (largest_bound(nodes) + 1, 2))
        yield Trial(every, is_guess or is_static, (few,) if few != every else ())
        yield Trial(few, is_guess or is_static)
    if depend_on_sizes(nodes):  # what lies behind a bound is empty at the sizes above
        beyond_each = _sizes(inferred, max(3 + reach, beyond), batch=max(many, _BATCH))
        yield Trial(beyond_each, is_guess or is_static, is_another_batch=True)


def _usual_rows(full: Mapping[str, Known]) -> int:
    """Return a number of rows that no other axis is declared to have, and that cannot be mistaken for its size."""
    declared = {dim for shape in full.values() for dim in shape[1:]}
    return next(size for size in count(_BATCH, 2) if size not in declared)  # an even one is split in halves


def further_shapes(
    fed: Mapping[str, ir.Value], usual: Shapes, nodes: Iterable[ir.Node], inferred: Callable[[ir.Value], Known | None]
) -> Iterator[Shapes]:
    """Yield other shapes that callers may feed.

    Dynamic sizes as 1 beside another input or a constant of that size, one axis where the rank is unknown.
    """
    for name, value in fed.items():
        if value.is_input and value.shape is None and len(usual[name]) > 1:
            yield {**usual, name: (math.prod(usual[name]),)}
    places = open_places({name: [dim or None for dim in inferred(value) or ()] for name, value in fed.items()})
    stored = _broadcast_sizes(nodes) if places else set()
    for same in places:
        is_beside = len(usual) > 1 and all(fed[name].is_input for name, _ in same)
        if not (is_beside or any((usual[name][axis], len(usual[name]) - axis) in stored for name, axis in same)):
            continue
        shapes = {
            name: tuple(1 if (name, axis) in same else dim for axis, dim in enumerate(shape))
            for name, shape in usual.items()
        }
        if shapes != usual:
            yield shapes


def _broadcast_sizes(nodes: Iterable[ir.Node]) -> set[tuple[int, int]]:
    """Return the sizes that operands are broadcast to by constants, each with its axis counted from the end."""
    dims: list[Sequence[int]] = []
    for node in nodes:
        held = [ir.constant(value) for value in node.inputs] if node.has_trait(BROADCASTING | {"MatMul"}) else []
        dims += [tensor.dims for tensor in held if tensor is not None]
        target = ir.constant(node.input(1)) if node.is_op("Expand") else None
        dims += [target.numpy().reshape(-1).tolist()] if target is not None else []
    return {(size, len(each) - axis) for each in dims for axis, size in enumerate(each) if size > 1}


def may_be_fed_at(shapes: Shapes) -> bool:
    """Whether a part may be fed as many activations."""
    return elements(shapes) <= LARGEST_FEED


def lacks_rank(inputs: Mapping[str, ir.Value]) -> bool:
    """Whether an input has an unknown rank."""
    return any(value.shape is None for value in inputs.values())


def has_guesses(inputs: Mapping[str, ir.Value], shapes: Shapes) -> bool:
    """Whether the rank of an input is unknown, or a size is not the declared one."""
    return any(
        known is None
        or any(isinstance(dim, int) and dim != size for dim, size in zip(known, shapes[name], strict=True))
        for name, value in inputs.items()
        for known in [_known(value)]
    )


def is_static(inputs: Mapping[str, ir.Value]) -> bool:
    """Whether all sizes are declared."""
    shapes = [value.shape for value in inputs.values()]
    return all(shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes)


def says_more(value: ir.Value, others: Mapping[str, ir.Value]) -> bool:
    """Whether the shape of a value is known, or ``others`` have no shape for its name."""
    return value.shape is not None or value.name not in others or others[value.name].shape is None


def fed_shapes(shapes: Shapes) -> ShapeOf:
    """Return a function for the shapes of values that a part is fed, of weights, and behind nodes that keep shapes."""

    def shape_of(value: ir.Value | None) -> Sequence[int | str | None] | None:
        if value is None or value.name in shapes:
            return None if value is None else shapes[value.name]
        held, producer = ir.constant(value), value.producer
        if held is not None or producer is None:
            return held.dims if held is not None else None
        if not producer.has_trait(KEEPS_SHAPE | BROADCASTING):
            return None
        known = [
            shape_of(read) for read in (producer.inputs if producer.has_trait(BROADCASTING) else producer.inputs[:1])
        ]
        return max((shape for shape in known if shape is not None), key=len, default=None)

    return shape_of


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


def _small(value: ir.Value, known: Known) -> Known:
    """Open all sizes but axis 1 (channels), for what is 1, which may be there to be broadcast, and for weights."""
    return [
        dim if dim == 1 or axis == 1 or value.is_initializer or not isinstance(dim, int) else f"{dim}"
        for axis, dim in enumerate(known)
    ]


def _inferred(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], shapes: Mapping[str, Known], *, by_axis: bool
) -> dict[str, list[Dim]]:
    """Return the shapes with what weights dictate in the region.

    Axes that are declared alike, by number or by symbol, stay alike, so that what is added still fits; with
    ``by_axis``, all axes at one place do.
    """
    dims = Dims(declared=False)
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


def _sizes(
    learned: Mapping[str, Sequence[Dim]], least: int, *, step: int = 1, more: int = 0, batch: int = _BATCH
) -> Shapes:
    """Return different sizes for open axes: multiples of ``step``, at least as large as ``least``, plus ``more``."""
    names = dict.fromkeys(dim for shape in learned.values() for dim in shape if isinstance(dim, str))
    free = (name for name in names if name != _FREE_BATCH)
    least = -(-least // step)
    sizes = {name: step * (least + place) + more for place, name in enumerate(free)}
    sizes[_FREE_BATCH] = batch
    return {
        name: tuple(dim if isinstance(dim, int) else sizes[dim] for dim in shape) for name, shape in learned.items()
    }


def _one_axis_longer(learned: Mapping[str, Sequence[Dim]], usual: Shapes, size: int) -> list[Shapes]:
    """Return the usual shapes with one open axis after the other set to ``size``."""
    names = dict.fromkeys(dim for shape in learned.values() for dim in shape if isinstance(dim, str))
    placed = {name: [*zip(shape, usual[name], strict=True)] for name, shape in learned.items()}
    return [
        {name: tuple(size if dim == longer else known for dim, known in dims) for name, dims in placed.items()}
        for longer in names
    ]


def _makes_large(node: ir.Node) -> bool:
    """Whether a result is large, however small the activations are; then even a few rows take long."""
    return node.is_op("ConvTranspose") and math.prod(node.attr("output_shape", [0])) > LARGEST_ROW


def _reads_places(nodes: Sequence[ir.Node]) -> bool:
    stored = (value for node in nodes for value in node.inputs if value is not None and ir.constant(value) is not None)
    return any(value.dtype in (TensorProto.INT64, TensorProto.INT32) for value in stored)
