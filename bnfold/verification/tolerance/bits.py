"""Whether two tensors are the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.ir.tensor import InMemory

_PIECE = 1 << 16
"""Numbers that are looked at together where all have to be one."""


def same(old: ir.Tensor | None, new: ir.Tensor) -> bool:
    """Whether two tensors have the same type, dims and values, bit for bit."""
    if old is None or (old.dtype, old.dims) != (new.dtype, new.dims):
        return False
    if old is new:
        return True
    for fill, other in ((old, new), (new, old)):
        if (number := _filled_with(fill)) is not None:
            return all(_is_filled(piece, number) for piece in _pieces(other))
    if old.can_read != new.can_read:  # then their blocks are of other sizes
        return np.array_equal(_bits(old.numpy().reshape(-1)), _bits(new.numpy().reshape(-1)))
    return all(np.array_equal(_bits(a), _bits(b)) for a, b in zip(old.blocks(), new.blocks(), strict=True))


def _filled_with(tensor: ir.Tensor) -> Array | None:
    """Return the number that all elements of a view of one are, however many."""
    array = tensor.numpy() if isinstance(tensor, InMemory) else None
    if array is None or not array.size:
        return None
    is_one = all(step == 0 or dim == 1 for step, dim in zip(array.strides, array.shape, strict=True))
    first: tuple[Any, ...] = (..., *(slice(1) for _ in array.shape))  # an array also of one text
    return array[first].reshape(1) if is_one else None


def _pieces(tensor: ir.Tensor) -> Iterator[Array]:
    """Yield all numbers, a few at a time; of those that are all one, one is enough."""
    number = _filled_with(tensor)
    for block in tensor.blocks() if number is None else [number]:
        yield from (block[start : start + _PIECE] for start in range(0, block.size, _PIECE))


def _is_filled(piece: Array, number: Array) -> bool:
    """Whether the bits of every number are those of one: of the first one, and of the one before it."""
    if piece.dtype.kind == "O":
        return bool((piece == number).all())
    bits, own = _bits(piece), _bits(number)
    return np.array_equal(bits[: own.size], own) and np.array_equal(bits[own.size :], bits[: -own.size])


def _bits(block: Array) -> Array:
    return block if block.dtype.kind == "O" else np.ascontiguousarray(block).view(np.uint8)
