"""Sizes for the dims a model leaves open: what its operators demand, else small, pairwise different numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from bnfold import ir
from bnfold.classes import mutable

Known = list[int | str | None]
"""A shape as far as it is known; a string is a symbol that has one size wherever it stands."""

_SAME_SHAPE = frozenset(
    [
        "Identity",
        "Cast",
        "Dropout",
        "Relu",
        "LeakyRelu",
        "PRelu",
        "Sigmoid",
        "Tanh",
        "Clip",
        "Elu",
        "Selu",
        "Softplus",
        "HardSigmoid",
        "HardSwish",
        "Neg",
        "Abs",
        "Exp",
        "Sqrt",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "LRN",
        "Softmax",
        "QuantizeLinear",
        "DequantizeLinear",
        "BatchNormalization",
        "InstanceNormalization",
    ]
)
_BROADCASTING = frozenset({"Add", "Sub", "Mul", "Div"})
_ANY_RANK = frozenset({"MatMul", "BatchNormalization", "InstanceNormalization"})
_LOOKAHEAD = 32
"""Readers looked at on the way to an operator that says how large its input must be."""


@mutable
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


def sizings() -> tuple[Sizing, ...]:
    """The choices worth trying for a whole model, most telling first: odd batch and unlike sides before the usual ones.

    The first sides are multiples of 32, because encoders that halve five times must meet their decoders again.
    Detectors of speech take frames of 512 samples and no others.
    """
    return (
        Sizing(2, (64, 96, 32), (7, 5, 11, 9, 13)),
        Sizing(1, (224,), (16,)),
        Sizing(1, (299,), (128,)),
        Sizing(1, (32,), (3,)),
        Sizing(1, (32,), (1,)),
        Sizing(1, (32,), (512,)),
    )


def further_sizings() -> tuple[Sizing, ...]:
    """Further choices beside the first: at a size of 1, which may come next, broadcasting hides what an axis is.

    Each may take an evaluation, so they are for models of small inputs.
    """
    batches = (Sizing(batch, (64, 96, 32), (7, 5, 11, 9, 13)) for batch in range(3, 9))
    sides = (Sizing(2, (32,), (side,)) for side in (2, 3, 4, 5, 6, 8))
    return (*batches, *sides)


def known_shape(value: ir.Value, *, guess: bool = True) -> Known | None:
    """The declared shape, or else what its maker tells, with what readers demand; None where nothing tells a rank.

    Dims that exporters wrote as 0 or less count as unknown. What is declared wins over what a reader demands. An
    operator that takes any rank is read as demanding the usual one, unless ``guess`` is False.
    """
    declared = value.shape
    known = _made(value)
    if declared is not None:
        known = [dim if not isinstance(dim, int) or dim > 0 else None for dim in declared]
    for node, slot in readers(value):
        if known is None and not guess and node.op_type in _ANY_RANK:
            continue
        known = _meet(known, demand(node, slot, None if known is None else len(known)))
    return known


def fixed_axes(value: ir.Value, rank: int) -> dict[int, int]:
    """Axis → size, for the axes whose size a reader's weights dictate; the nearest reader's word counts."""
    fixed: dict[int, int] = {}
    for node, slot in readers(value):
        wanted = demand(node, slot, rank)
        if wanted is not None and len(wanted) == rank:
            fixed = {**{axis: dim for axis, dim in enumerate(wanted) if isinstance(dim, int)}, **fixed}
    return fixed


def _made(value: ir.Value) -> Known | None:
    """What the weight of a convolution says about its result, whatever it is fed; None of any other value."""
    node = value.producer
    weight = node.input(1) if node is not None and node.is_op("Conv", "ConvTranspose") else None
    if node is None or weight is None or weight.shape is None or len(weight.shape) < 3:
        return None
    channels = weight.shape[0] if node.is_op("Conv") else None  # of the other they depend on its groups
    return [None, channels or None, *[None] * (len(weight.shape) - 2)]


def readers(value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """The uses of a value, and those of what keeps its shape, nearest first."""
    queue, seen = [value], {value}
    while queue and len(seen) < _LOOKAHEAD:
        for node, slot in queue.pop(0).uses:
            yield node, slot
            follow = node.output(0) if _keeps_shape(node, slot) else None
            if follow is not None and follow not in seen:
                seen.add(follow)
                queue.append(follow)


def _keeps_shape(node: ir.Node, slot: int) -> bool:
    return not node.domain and node.op_type in (_SAME_SHAPE if slot == 0 else _BROADCASTING)


def demand(node: ir.Node, slot: int, rank: int | None) -> Known | None:
    """What an operator says about the shape of its input ``slot``, whose rank may be known; None if nothing."""
    rule = _DEMANDS.get(node.op_type) if not node.domain else None
    other = node.input(1 - slot) if slot < 2 else None
    shape = other.shape if rule is not None and other is not None else None
    if rule is None or not shape or not all(isinstance(dim, int) and dim > 0 for dim in shape):
        return None
    return rule(node, slot, [dim for dim in shape if isinstance(dim, int)], rank)


def _conv(node: ir.Node, slot: int, weight: list[int], _: int | None) -> Known | None:
    group = int(node.attr("group", 1))
    if slot != 0 or len(weight) < 3 or group < 1:
        return None
    channels = weight[0] if node.is_op("ConvTranspose") else weight[1] * group
    return [None, channels, *[None] * (len(weight) - 2)]


def _gemm(node: ir.Node, slot: int, weight: list[int], _: int | None) -> Known | None:
    if slot != 0 or len(weight) != 2:
        return None
    inner = weight[1] if node.attr("transB", 0) else weight[0]
    return [inner, None] if node.attr("transA", 0) else [None, inner]


def _matmul(_: ir.Node, slot: int, other: list[int], rank: int | None) -> Known | None:
    if slot == 0:
        return _placed(rank or 2, -1, other[-2] if len(other) > 1 else other[0])
    return _placed(rank or 2, -2, other[-1])


def _per_channel(node: ir.Node, slot: int, scale: list[int], rank: int | None) -> Known | None:
    if slot != 0 or len(scale) != 1 or rank == 1 or not node.attr("spatial", 1):
        return None
    return _placed(rank or 4, 1, scale[0])


def _recurrent(_: ir.Node, slot: int, weight: list[int], __: int | None) -> Known | None:
    return [None, None, weight[2]] if slot == 0 and len(weight) == 3 else None


def _with_weight(node: ir.Node, slot: int, other: list[int], rank: int | None) -> Known | None:
    """Axes that a weight would otherwise be broadcast against; 1 may be broadcast itself, so it demands nothing."""
    weight, value = node.input(1 - slot), node.input(slot)
    if rank is None or rank < len(other) or weight is None or weight.tensor_proto is None:
        return None
    declared = None if value is None else value.shape
    behind = rank - len(other)
    first = int(node.attr("axis", behind)) if node.attr("broadcast", 0) else behind  # as Caffe2 had it, before opset 7
    if not 0 <= first <= behind:
        return None
    wanted: Known = [*[None] * first, *(dim if dim > 1 else None for dim in other), *[None] * (behind - first)]
    if declared is None or len(declared) != rank:
        return wanted
    return [None if isinstance(own, int) and own > 0 else dim for own, dim in zip(declared, wanted, strict=True)]


_DEMANDS: dict[str, Callable[[ir.Node, int, list[int], int | None], Known | None]] = {
    "Conv": _conv,
    "ConvTranspose": _conv,
    "Gemm": _gemm,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _with_weight),
    "MatMul": _matmul,
    "BatchNormalization": _per_channel,
    "InstanceNormalization": _per_channel,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}


def _placed(rank: int, axis: int, size: int) -> Known | None:
    """A shape of which one axis is known."""
    if not -rank <= axis < rank:
        return None
    known: Known = [None] * rank
    known[axis] = size
    return known


def _meet(known: Known | None, wanted: Known | None) -> Known | None:
    if known is None or wanted is None or len(known) != len(wanted):
        return known if known is not None else wanted
    return [
        dim if isinstance(dim, int) else (want if want is not None else dim)
        for dim, want in zip(known, wanted, strict=True)
    ]
