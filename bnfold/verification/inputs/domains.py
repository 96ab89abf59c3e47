"""Numbers that an operator accepts where it reads places, counts and sizes; any others it would refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.ir.elements import TP, Array
from bnfold.reference.operators import REDUCING
from bnfold.verification.inputs.roles import uses
from bnfold.verification.tolerance.floats import is_float

InputShape = Sequence[int | str | None] | None
InputShapeOf = Callable[[ir.Value | None], InputShape]

_LARGE = 2**31 - 1
_USUAL_LENGTH = 9


def declared_shape(value: ir.Value | None) -> InputShape:
    """Return the shape as the model says it."""
    return None if value is None else value.shape


@dataclass(frozen=True, slots=True)
class _Ask:
    """An array of ``shape`` for the input ``slot`` of a node."""

    node: ir.Node
    slot: int
    shape: tuple[int, ...]
    rng: np.random.Generator
    shape_of: InputShapeOf = field(default=declared_shape)
    sample: int = 0

    @property
    def count(self) -> int:
        return int(np.prod(self.shape))

    def dims(self, slot: int = 0) -> list[int]:
        """Return the sizes of an input, with 1 for unknown ones."""
        return [dim if isinstance(dim, int) and dim > 0 else 1 for dim in self.shape_of(self.node.input(slot)) or ()]

    def size(self, axis: int, slot: int = 0) -> int:
        dims = self.dims(slot)
        return dims[axis] if -len(dims) <= axis < len(dims) else 1

    def made(self) -> list[int] | None:
        """Return the shape of the result; None if it is not known."""
        dims = self.shape_of(self.node.output(0))
        known = [dim for dim in dims or () if isinstance(dim, int)]
        return known if dims is not None and len(known) == len(dims) == self.count else None


def legal(
    value: ir.Value, shape: tuple[int, ...], rng: np.random.Generator, shape_of: InputShapeOf, sample: int = 0
) -> Array | None:
    """Return numbers that the first known consumer accepts; None if no consumer needs numbers of its own."""
    for node, slot in uses(value):
        place = node.op_type, slot
        rule = _RULES.get(place) or (None if is_float(value.dtype) else _OF_INTEGERS.get(place))
        if rule is not None:
            return np.asarray(rule(_Ask(node, slot, shape, rng, shape_of, sample))).reshape(shape)
    return None


def _place(ask: _Ask) -> Array:
    return ask.rng.integers(0, ask.size(int(ask.node.attr("axis", 0))), size=ask.shape)


def _places_once(ask: _Ask) -> Array:
    """Draw no place twice along the axis: the order of two updates is undefined."""
    lines, axis = [*ask.shape] or [1], int(ask.node.attr("axis", 0))
    place = max(-len(lines), min(axis, len(lines) - 1))  # the node may read it with more axes
    count = lines[place]
    lines[place] = max(ask.size(axis), count)
    return np.take(ask.rng.random(lines).argsort(axis=place), range(count), axis=place)


def _tuples(ask: _Ask) -> Array:
    """Return rows that are places along the first axes, each at most once if there are enough."""
    first, width = int(ask.node.attr("batch_dims", 0)), ask.shape[-1] if ask.shape else 1
    sizes = (ask.dims() + [1] * width)[first : first + width]
    rows, places = ask.count // max(width, 1), int(np.prod(sizes))
    flat = ask.rng.permutation(places)[:rows] if rows <= places else ask.rng.integers(0, places, rows)
    return np.stack(np.unravel_index(flat, sizes), axis=-1) if width else np.zeros(ask.shape)


def _below(axis: int) -> Callable[[_Ask], Array]:
    """Draw numbers less than the size of an axis of the first input."""
    return lambda ask: ask.rng.integers(0, ask.size(axis), size=ask.shape)


def _depth(ask: _Ask) -> Array:
    held = reference.constant(ask.node.input(1))
    return ask.rng.integers(0, int(held.numpy().reshape(-1)[0]) if held is not None else 2, size=ask.shape)


def _lengths(ask: _Ask) -> Array:
    """Draw lengths of at least 1, one of them all there is."""
    node = ask.node
    axis = int(node.attr("time_axis", 0)) if node.is_op("ReverseSequence") else int(bool(node.attr("layout", 0)))
    found = ask.rng.integers(1, ask.size(axis), size=ask.shape, endpoint=True)
    found.reshape(-1)[:1] = ask.size(axis)
    return found


def _largest(ask: _Ask) -> Array:
    return np.full(ask.shape, (ask.size(int(ask.node.attr("axis", -1))) + 1) // 2)


def _target(ask: _Ask) -> Array:
    """Return the shape of the result; else ones, the last one open."""
    made = ask.made()
    return np.array(made if made is not None else [1] * (ask.count - 1) + [-1] * min(ask.count, 1), np.int64)


def _expanded(ask: _Ask) -> Array:
    """Return the shape of the result; else that of the data, so far as it is known."""
    dims = ask.dims()[-ask.count :] if ask.count else []
    made = ask.made()
    return np.array(made if made is not None else [1] * (ask.count - len(dims)) + dims, np.int64)


def _result_dims(ask: _Ask) -> Array:
    dims = ask.shape_of(ask.node.output(0))
    known = [dim if isinstance(dim, int) else 4 + axis for axis, dim in enumerate(dims or ())]
    return np.array((known + [2 + axis for axis in range(ask.count)])[: ask.count], np.int64)


def _shares(ask: _Ask) -> Array:
    """Return parts of an axis that make up all of it."""
    size, parts = ask.size(int(ask.node.attr("axis", 0))), max(ask.count, 1)
    return np.array([size // parts] * (ask.count - 1) + [size - size // parts * (parts - 1)][: ask.count], np.int64)


def _sliced_from(ask: _Ask) -> Array:
    return np.array([size // 4 for size in _sliced(ask)], np.int64)


def _sliced_to(ask: _Ask) -> Array:
    return np.array([size - size // 4 if size > 1 else _LARGE for size in _sliced(ask)], np.int64)


def _sliced(ask: _Ask) -> list[int]:
    """Return the sizes of the axes of a Slice: those that are stored, else the first."""
    held = reference.constant(ask.node.input(3))
    axes = held.numpy().reshape(-1).tolist() if held is not None else range(ask.count)
    return [ask.size(axis) for axis in axes][: ask.count] + [1] * (ask.count - len(axes))


def _boxes(ask: _Ask) -> Array:
    """Return corners in the image, the second behind the first; MaxRoiPool's begin with the number of the image."""
    if len(ask.shape) != 2:
        return np.zeros(ask.shape)
    scale = float(ask.node.attr("spatial_scale", 1.0))
    ends = [(ask.size(axis) - 1) / scale for axis in (3, 2)]
    corners = np.sort(ask.rng.uniform(0.0, 1.0, (ask.shape[0], 2, 2)), axis=1) * ends
    boxes = corners.reshape(-1, 4)
    if ask.node.is_op("RoiAlign"):
        return boxes
    return np.concatenate([ask.rng.integers(0, ask.size(0), (ask.shape[0], 1)), np.floor(boxes)], axis=1)


def _transformed(ask: _Ask) -> Array:
    """Return as many points as the axis has."""
    return np.full(ask.shape, max(ask.size(int(ask.node.attr("axis", 1))), 1))


def _pooled_places(ask: _Ask) -> Array:
    """Return places in what MaxUnpool makes, none twice: as many as its windows span."""
    kernel, pads = ask.node.attr("kernel_shape") or [1], ask.node.attr("pads") or []
    strides, rank = ask.node.attr("strides") or [1] * len(kernel), len(kernel)
    sides = zip(ask.shape[-rank:], strides, kernel, strict=False)
    spanned = [(size - 1) * stride + side for size, stride, side in sides]
    made = [size - sum(pads[axis::rank]) for axis, size in enumerate(spanned)]
    total = int(np.prod(ask.shape[:-rank])) * int(np.prod(made))
    return ask.rng.permutation(max(total, ask.count))[: ask.count]


def _blocks(ask: _Ask) -> Array:
    """Return Col2Im's image of as many blocks as there are, each of one element."""
    stride = (ask.node.attr("strides") or [1])[0]
    return np.array([(ask.size(-1) - 1) * stride + 1, *[1] * (ask.count - 1)][: ask.count], np.int64)


def _free_place(ask: _Ask) -> Array:
    """Return where TensorScatter's update still fits."""
    axis = int(ask.node.attr("axis", -2))
    return ask.rng.integers(0, max(ask.size(axis) - ask.size(axis, 1), 0), size=ask.shape, endpoint=True)


def _filled(ask: _Ask) -> Array:
    """Return how many of its keys each row of an Attention has: at least one, and at most all."""
    return ask.rng.integers(1, ask.size(-2, 1), size=ask.shape, endpoint=True)


def _between(least: int, most: int) -> Callable[[_Ask], Array]:
    return lambda ask: ask.rng.integers(least, most, size=ask.shape, endpoint=True)


def _limit(ask: _Ask) -> Array:
    """Draw where a Range ends: in the direction of its step."""
    step, found = reference.constant(ask.node.input(2)), ask.rng.integers(5, 9, size=ask.shape, endpoint=True)
    return -found if step is not None and (step.numpy() < 0).any() else found


def _full(number: int) -> Callable[[_Ask], Array]:
    return lambda ask: np.full(ask.shape, number, np.int64)


def _axes(ask: _Ask) -> Array:
    """Draw axes of the first input, none twice, counted from either end."""
    shape = ask.shape_of(ask.node.input(0))
    if shape is None or len(shape) < ask.count:
        return _counting(ask)
    return ask.rng.permutation(len(shape))[: ask.count] - len(shape) * ask.rng.integers(0, 2, ask.count)


def _shifts(ask: _Ask) -> Array:
    """Draw numbers of bits to shift by; signed ones may be too many, or less than none, as their version 28 says."""
    value = ask.node.input(0)
    dtype = TP.UINT8 if value is None or value.dtype is None else value.dtype
    kind = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    beyond = int(kind.min < 0)
    return np.resize(ask.rng.permutation(np.arange(-beyond, kind.bits + beyond)), ask.shape)


def _in_sequence(ask: _Ask) -> Array:
    """Return the position of another element of a sequence in each sample: one proves nothing about the others."""
    return np.full(ask.shape, ask.sample % max(_length(ask.node.input(0)), 1))


def _between_elements(ask: _Ask) -> Array:
    """Draw positions in front of elements of a sequence, or behind the last one."""
    return ask.rng.integers(0, _length(ask.node.input(0)), size=ask.shape, endpoint=True)


def _length(sequence: ir.Value | None) -> int:
    """Return how many elements a sequence has, so far as the nodes that put it together tell."""
    more = 0
    while (maker := sequence.producer if sequence is not None else None) is not None:
        if not maker.is_op("SequenceInsert", "SequenceErase", "Identity"):
            break
        more += maker.is_op("SequenceInsert") - maker.is_op("SequenceErase")
        sequence = maker.input(0)
    is_told = maker is not None and maker.is_op("SequenceConstruct", "SequenceEmpty")
    return max((len(maker.inputs) if maker is not None and is_told else _USUAL_LENGTH) + more, 0)


def _counting(ask: _Ask) -> Array:
    return np.arange(ask.count, dtype=np.int64)


_RULES: dict[tuple[str, int], Callable[[_Ask], Array]] = {
    ("Gather", 1): _place,
    ("GatherElements", 1): _place,
    ("ScatterElements", 1): _places_once,
    ("Scatter", 1): _places_once,
    ("GatherND", 1): _tuples,
    ("ScatterND", 1): _tuples,
    ("OneHot", 0): _depth,
    ("OneHot", 1): _full(5),
    ("NegativeLogLikelihoodLoss", 1): _below(1),
    ("SoftmaxCrossEntropyLoss", 1): _below(1),
    ("RoiAlign", 1): _boxes,
    ("RoiAlign", 2): _below(0),
    ("MaxRoiPool", 1): _boxes,
    ("DFT", 1): _transformed,
    ("DFT", 2): _full(1),
    ("STFT", 1): _full(2),
    ("STFT", 3): _full(4),
    ("Reshape", 1): _target,
    ("Expand", 1): _expanded,
    ("Tile", 1): _full(2),
    ("ConstantOfShape", 0): _result_dims,
    ("AffineGrid", 1): _result_dims,
    ("CenterCropPad", 1): _result_dims,
    ("Resize", 3): _result_dims,
    ("Slice", 1): _sliced_from,
    ("Slice", 2): _sliced_to,
    ("Slice", 3): _counting,
    ("Slice", 4): _full(1),
    ("Split", 1): _shares,
    ("SplitToSequence", 1): _shares,
    **dict.fromkeys([("SequenceAt", 1), ("SequenceErase", 1)], _in_sequence),
    ("SequenceInsert", 2): _between_elements,
    ("MaxUnpool", 1): _pooled_places,
    ("Col2Im", 1): _blocks,
    ("Col2Im", 2): _full(1),
    ("TensorScatter", 2): _free_place,
    ("Attention", 6): _filled,
    ("Pad", 1): _full(1),
    ("Pad", 3): _counting,
    ("TopK", 1): _largest,
    ("Trilu", 1): _full(1),
    **dict.fromkeys([("CumSum", 1), ("CumProd", 1)], _full(0)),
    ("NonMaxSuppression", 2): _full(3),
    ("Loop", 0): _between(1, 6),
    ("Range", 0): _between(0, 2),
    ("Range", 1): _limit,
    ("Range", 2): _full(1),
    ("Squeeze", 1): _counting,
    ("Unsqueeze", 1): _counting,
    **{(name, 1): _axes for name in REDUCING},
    **dict.fromkeys([("LSTM", 4), ("GRU", 4), ("RNN", 4)], _lengths),
    ("ReverseSequence", 1): _lengths,
    ("Dropout", 2): _full(0),
}

_OF_INTEGERS: dict[tuple[str, int], Callable[[_Ask], Array]] = {
    ("Div", 1): _between(1, 9),
    ("Mod", 1): _between(1, 9),
    ("Pow", 1): _between(0, 3),
    ("BitShift", 1): _shifts,
}
