"""Small sizes for what a part is fed: dims that weights fix stay, all others become small and different.

They cost next to nothing, whatever the model's own sizes are, and show most faults. They are a guess: a difference at
them has to be confirmed in recorded sizes (`comparing.recording`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from onnx import TensorProto

from bnfold import ir, reference
from bnfold.analysis.shapes.unification import UnifiedDims
from bnfold.ir.value import Known
from bnfold.reference.operators import BROADCASTING, COMPARING, KEEPS_SHAPE, RESHAPING, WINDOWED
from bnfold.reference.sizing import SymbolicSize
from bnfold.verification.changes.extract import constant_of
from bnfold.verification.inputs.bounds import (
    BEYOND,
    chooses_by_sizes,
    depend_on_sizes,
    follow_from_sizes,
    largest_bound,
)
from bnfold.verification.inputs.domains import InputShapeOf
from bnfold.verification.inputs.learned import ROWS, branches_by_features
from bnfold.verification.inputs.shapes import elements, open_places

Shapes = dict[str, tuple[int, ...]]

BATCH = 3

_LONGER = 4

_FEW_ROWS = 2
"""Where each takes long."""

_FREE_BATCH = "batch"

_RANKS = (4, 3, 2, 1, 5)
"""Of inputs whose rank is unknown."""

_MANY = 1 << 16
"""Elements of activations beyond which axis 1 is opened where channels are the last."""

LARGEST_FEED = 1 << 23
"""Elements of activations that a part may be fed; with more, even a part is no small matter."""

LARGEST_OTHER = 1 << 20
"""Elements of activations at further sizes, at which several samples are compared."""

LARGEST_ROW = 1 << 16
"""Places of an image up to which more than two rows are compared at once."""


class SmallSizes(NamedTuple):
    """Small shapes, and ``others`` at which a part that passes there may differ.

    Free axes are one larger: if strides skip elements, padding may show only then, and a stored index may be right at
    one size by chance. If operators depend on sizes, there is one row, and axes longer than any bound. If an axis
    decides how many rows of a table are read, it is as long as the table. ``quick`` takes the place of ``others`` where
    a part takes long: one row, of the largest sizes.
    """

    shapes: Shapes
    others: tuple[Shapes, ...] = ()
    quick: tuple[Shapes, ...] = ()
    many: Shapes | None = None
    """More elements, for faults that few of them show: rows and axes are longer."""
    deciding: tuple[Shapes, ...] = ()
    """Single elements, and one axis empty, if comparing a size decides what is computed."""


def small_sizes(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], added: Sequence[ir.Node] = ()
) -> Iterator[SmallSizes]:
    """Yield small sizes for a part: one choice, or one for each usual rank if that of an input is unknown.

    What is ``added`` to its nodes by a rewrite may differ at other sizes as well. What makes a constant behaves alike
    at all sizes.
    """
    nodes, added = ([node for node in each if constant_of(node.output(0)) is None] for each in (nodes, added))
    known = {name: [dim or None for dim in value.shape] for name, value in inputs.items() if value.shape is not None}
    ranks = dict.fromkeys([*sorted(map(len, known.values()), reverse=True), *_RANKS])
    tried: list[Shapes] = []
    for rank in ranks if len(known) < len(inputs) else (0,):
        like: Known = next((shape for shape in known.values() if len(shape) == rank), [None] * rank)
        found = _of_shapes(inputs, nodes, added, {name: known.get(name, like) for name in inputs})
        if found is not None and found.shapes not in tried:
            tried.append(found.shapes)
            yield found


def _of_shapes(
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], added: Sequence[ir.Node], full: Mapping[str, Known]
) -> SmallSizes | None:
    both = [*nodes, *added]
    usual = _usual_rows(full, ROWS if branches_by_features(both) else BATCH)
    reach, is_large = reach_of(nodes), any(map(_makes_large, nodes))
    rows = _FEW_ROWS if is_large else usual
    further: list[dict[str, int]] = [{"batch": 1}] if is_large else []
    further += [{"least": largest_bound(both) + 1}, {"least": 2}] if any(map(chooses_by_sizes, both)) else []
    further += [{"more": 1}] if not is_large and (has_strides(both) or _reads_places(both)) else []
    still = [node for node in both if not node.has_trait(WINDOWED)]  # no window slides along the batch
    beyond, many = _behind(largest_bound(both)), _behind(largest_bound(still))
    if depend_on_sizes(both):
        further += [{"batch": 1}, {"least": beyond}, {"batch": max(many, usual) + max(many, usual) % 2}]
    reads_sizes = any(node.is_op("Shape", "Size") for node in both)  # a size beside another one is then a number
    small = full if reads_sizes else opened(inputs, nodes, full, 3 + reach)
    inferred = inferred_of(inputs, nodes, small)
    shapes = concrete(inferred, 3 + reach, batch=rows)
    others = [concrete(inferred, **{"least": 3 + reach, "batch": usual, **changed}) for changed in further]
    if any(elements(other) > LARGEST_OTHER for other in others):
        others += one_axis_longer(inferred, shapes, beyond)
    distinct = (other for place, other in enumerate(others) if other not in (shapes, *others[:place]))
    single = concrete(inferred, max(3 + reach, beyond), more=1, batch=1)
    quick = (single,) if further and elements(single) <= LARGEST_OTHER else ()
    small_others = tuple(other for other in distinct if elements(other) <= LARGEST_OTHER)
    deciding = tuple(_deciding(full, shapes)) if any(map(_compares_sizes, both)) else ()
    longer = concrete(inferred, _LONGER * (3 + reach), batch=_LONGER * usual)
    larger = longer if elements(longer) <= LARGEST_OTHER else None
    return SmallSizes(shapes, small_others, quick, larger, deciding) if may_be_fed_at(shapes) else None


def _deciding(full: Mapping[str, Known], usual: Shapes) -> Iterator[Shapes]:
    """Yield shapes of single elements, and with one axis empty; sizes that are declared stay as they are."""
    places = open_places(full)
    for emptied, size in (([place for same in places for place in same], 1), *((same, 0) for same in places)):
        yield {
            name: tuple(size if (name, axis) in emptied else dim for axis, dim in enumerate(shape))
            for name, shape in usual.items()
        }


def _compares_sizes(node: ir.Node) -> bool:
    made = node.output(0)
    return node.has_trait(COMPARING) and made is not None and follow_from_sizes([made])


def _behind(bound: int) -> int:
    return bound + BEYOND if bound else 1


def _usual_rows(full: Mapping[str, Known], least: int) -> int:
    """Return a number of rows that no other axis is declared to have, and that cannot be mistaken for its size."""
    declared = {dim for shape in full.values() for dim in shape[1:]}
    return next(size for size in count(least, 2) if size not in declared)  # an even one is split in halves


def may_be_fed_at(shapes: Shapes) -> bool:
    """Whether a part may be fed as many activations."""
    return elements(shapes) <= LARGEST_FEED


def contradict(declared: Mapping[str, Known | None], shapes: Shapes) -> bool:
    """Whether a size is not the declared one."""
    pairs = (pair for name, known in declared.items() for pair in zip(known or (), shapes[name], strict=False))
    return any(isinstance(dim, int) and dim and dim != size for dim, size in pairs)


def fed_shapes(shapes: Shapes) -> InputShapeOf:
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
    if elements(concrete(inferred_of(inputs, nodes, small), least)) <= _MANY:
        return small
    every: dict[str, Known] = {
        name: [f"{dim}" if axis == 1 and dim != 1 else dim for axis, dim in enumerate(shape)]
        if not inputs[name].is_initializer
        else shape
        for name, shape in small.items()
    }
    learned = inferred_of(inputs, nodes, every)
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
    inputs: Mapping[str, ir.Value], nodes: Sequence[ir.Node], shapes: Mapping[str, Known]
) -> dict[str, list[SymbolicSize]]:
    """Return the shapes with what weights dictate in the region.

    Axes that are declared alike, by number or by symbol, stay alike, so that what is added still fits.
    """
    dims = UnifiedDims(declared=False)
    for name, shape in shapes.items():
        names = [_FREE_BATCH if axis == 0 and len(shape) > 1 else f"{axis}" for axis in range(len(shape))]
        dims.tell(
            inputs[name],
            [
                dim if isinstance(dim, int) else own if own == _FREE_BATCH else f"{own} {dim}"
                for own, dim in zip(names, shape, strict=True)
            ],
        )
    dims.follow(nodes)
    return {name: dims.of(inputs[name]) or [] for name in shapes}


def concrete(learned: Mapping[str, Sequence[SymbolicSize]], least: int, *, more: int = 0, batch: int = BATCH) -> Shapes:
    """Return different sizes for open axes, at least as large as ``least``, plus ``more``.

    If axis 1 is one of them, none is the number of rows: rows and places are easily exchanged, which has to show.
    """
    names = dict.fromkeys(dim for shape in learned.values() for dim in shape if isinstance(dim, str))
    free = (name for name in names if name != _FREE_BATCH)
    taken = batch if any(name.split()[0] == "1" for name in names) else None
    others = (size for size in count(least + more) if size != taken)
    sizes = {**dict(zip(free, others, strict=False)), _FREE_BATCH: batch}
    return {
        name: tuple(dim if isinstance(dim, int) else sizes[dim] for dim in shape) for name, shape in learned.items()
    }


def one_axis_longer(learned: Mapping[str, Sequence[SymbolicSize]], usual: Shapes, size: int) -> list[Shapes]:
    """Return the usual shapes with one open axis after the other set to ``size``."""
    names = dict.fromkeys(dim for shape in learned.values() for dim in shape if isinstance(dim, str))
    placed = {name: [*zip(shape, usual[name], strict=True)] for name, shape in learned.items()}
    return [
        {name: tuple(size if dim == longer else known for dim, known in dims) for name, dims in placed.items()}
        for longer in names
    ]


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


def broadcast_sizes(nodes: Iterable[ir.Node]) -> set[tuple[int, int]]:
    """Return the sizes that operands are broadcast to by constants, each with its axis counted from the end."""
    dims: list[Sequence[int]] = []
    for node in nodes:
        held = [reference.constant(value) for value in node.inputs] if node.has_trait(BROADCASTING | {"MatMul"}) else []
        dims += [tensor.dims for tensor in held if tensor is not None]
        target = reference.constant(node.input(1)) if node.is_op("Expand") else None
        dims += [target.numpy().reshape(-1).tolist()] if target is not None else []
    return {(size, len(each) - axis) for each in dims for axis, size in enumerate(each) if size > 1}
