"""Which slices of a weight are zero: one number of each is looked at first, the rest of a slice only if that is 0."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.derived import Derived
from bnfold.analysis.evaluators import INTEGERS
from bnfold.ir.elements import Array, Bools, Float64
from bnfold.ir.taken import rows
from bnfold.ir.tensor import CHUNK, Computed, Scaled

_SMALL = 1 << 14
"""Bytes from one probed number to the next up to which reading all of them takes no longer than reading each."""


Zeros = dict[tuple[ir.Value, int], Bools]
"""By a weight and one of its axes, which slices are zero."""


class Weight(NamedTuple):
    """A constant factor of a layer: what is stored, and the integer that stands for 0 if that is quantized.

    ``centre`` broadcasts onto ``tensor`` and has its rank.
    """

    tensor: ir.Tensor
    centre: Array | None = None

    @property
    def dims(self) -> tuple[int, ...]:
        return self.tensor.dims

    def above_centre(self, piece: Array, start: int) -> Array:
        """Return rows of the tensor, from ``start`` on, as differences from what stands for 0."""
        if self.centre is None:
            return piece
        centre = self.centre[start : start + len(piece)] if self.centre.shape[0] > 1 else self.centre
        return piece.astype(np.int64) - centre.astype(np.int64)


def dequantizing(value: ir.Value | None) -> ir.Node | None:
    """Return the DequantizeLinear that makes a value of a stored constant, if one does."""
    node = value.producer if value is not None else None
    source = node.input(0) if node is not None and node.is_op("DequantizeLinear") else None
    return node if source is not None and source.holds_constant else None


def stored_weight(value: ir.Value | None) -> Weight | None:
    """Return the stored integers behind a weight that is dequantized; None for any other, or another form of it."""
    node = dequantizing(value)
    tensor = analysis.constant(node.input(0)) if node is not None else None
    if node is None or tensor is None or tensor.dtype not in INTEGERS or node.attr("block_size", 0):
        return None
    zero = analysis.constant(node.input(2)) if node.input(2) is not None else None
    if node.input(2) is not None and zero is None:
        return None
    rank = len(tensor.dims)
    centre = np.zeros((1,) * rank, dtype=np.int64) if zero is None else zero.numpy().astype(np.int64)
    if centre.size > 1 and centre.ndim == 1:
        centre = centre.reshape(-1, *(1,) * (rank - int(node.attr("axis", 1)) % rank - 1))
    return Weight(tensor, centre.reshape((1,) * (rank - centre.ndim) + centre.shape))


def integer_weight(node: ir.Node) -> Weight | None:
    """Return the weight of a QLinearConv with its zero points; None if one of them is computed."""
    tensor, zero = analysis.constant(node.input(3)), analysis.constant(node.input(5))
    if tensor is None or zero is None:
        return None
    shape = (-1, *(1,) * (len(tensor.dims) - 1))
    return Weight(tensor, zero.numpy().astype(np.int64).reshape(shape))


def zero_slices(weight: Weight, axis: int) -> Bools:
    """Return for each place along an axis whether all elements there are zero."""
    tensor = weight.tensor
    if 0 in tensor.dims:
        return np.zeros(tensor.dims[axis], dtype=bool)
    zero = np.ones(tensor.dims[axis], dtype=bool) if weight.centre is not None else _candidates(tensor, axis)
    if not zero.any():
        return zero
    if axis == 0 and tensor.can_read and weight.centre is None:
        row = math.prod(tensor.dims[1:])
        for place in np.flatnonzero(zero).tolist():
            zero[place] = not (tensor.read(place * row, row) != 0).any()
        return zero
    others = tuple(other for other in range(len(tensor.dims)) if other != axis)
    for start, piece in rows(tensor):
        is_zero = (weight.above_centre(piece, start) == 0).all(others)
        part = slice(start, start + len(piece)) if axis == 0 else slice(None)
        zero[part] &= is_zero
        if not zero.any():
            break
    return zero


def _candidates(tensor: ir.Tensor, axis: int) -> Bools:
    """Return the places along an axis at which one number is zero; places where none was looked at count as zero."""
    count = tensor.dims[axis]
    if isinstance(tensor, Scaled):
        if any(along != axis and not factor.all() for along, factor in tensor.factors):
            return np.ones(count, dtype=bool)
        zero = _candidates(tensor.base, axis)
        for along, factor in tensor.factors:
            zero = zero | (factor == 0) if along == axis else zero
        return zero
    if isinstance(tensor, Computed) and not isinstance(tensor, Derived):
        return np.ones(count, dtype=bool)
    if not tensor.can_read:
        first = tuple(slice(None) if each == axis else 0 for each in range(len(tensor.dims)))
        return np.asarray(tensor.numpy()[first] == 0)
    stride = math.prod(tensor.dims[axis + 1 :])
    if stride * tensor.nbytes // tensor.size > _SMALL:
        return np.asarray(np.concatenate([tensor.read(place * stride, 1) for place in range(count)]) == 0)
    step = max(1, CHUNK // 8 // stride)
    starts = range(0, count, step)
    return np.concatenate(
        [tensor.read(start * stride, min(step, count - start) * stride)[::stride] == 0 for start in starts]
    )


def weighted_sum(tensor: ir.Tensor, axis: int, factors: Float64) -> Float64:
    """Return what an input that is constant on each channel makes: one number for each place along the other axis.

    ``axis`` is that of the input's channels, 0 or 1; a window's taps are added up.
    """
    total = np.zeros(tensor.dims[1 - axis])
    taps = tuple(range(2, len(tensor.dims)))
    for start, piece in rows(tensor):
        numbers = piece.astype(np.float64)
        summed = numbers.sum(taps) if taps else numbers
        if axis == 0:
            total += factors[start : start + len(piece)] @ summed
        else:
            total[start : start + len(piece)] = summed @ factors
    return total
