"""A constant that nodes compute, known by what it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bnfold.ir.tensor import Array, Computed, Exact, Float64, Inline, InMemory, Tensor, round_once, sources_of


class Derived(Computed):
    """A tensor that ``function`` computes from other tensors. It is computed whenever it is read, and not kept.

    If it ``is_exact``, the function gets float64 values, and the result is rounded when it is written. Otherwise it
    gets the elements as they are stored. ``kept`` are the values while others are computed from them; see `release`.
    """

    __slots__ = ("function", "is_exact", "kept", "operands")

    def __init__(
        self, dtype: int, values: Array, function: Callable[..., Any], operands: Sequence[Tensor], *, is_exact: bool
    ) -> None:
        super().__init__(dtype, values.shape)
        # Not a message, which may be written over while this is still computed from it.
        self.operands = [
            InMemory(operand.dtype, operand.numpy()) if isinstance(operand, Inline) else operand for operand in operands
        ]
        self.function, self.is_exact, self.origin = function, is_exact, None
        self.kept: Array | None = values

    @property
    def sources(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(source for operand in self.operands for source in sources_of(operand)))

    @property
    def numbers(self) -> list[Float64]:
        return []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values: a function may be a local one. Raises RangeViolation."""
        stored = self.numpy()
        return (Exact, (self.dtype, self.widened())) if self.is_exact else (InMemory, (self.dtype, stored))

    def release(self) -> None:
        """Forget the values."""
        self.kept = None

    def widened(self) -> Float64:
        return _made(self, {}).astype(np.float64, copy=False)

    def numpy(self) -> Array:
        made = _made(self, {})
        return self._checked(round_once(made, self.dtype), made) if self.is_exact else made


def _made(tensor: Derived, known: dict[Tensor, Array]) -> Array:
    """Return the values of a tensor, each of those that it is made of computed once."""
    if tensor.kept is not None:
        return tensor.kept
    if tensor not in known:
        operands = []
        for operand in tensor.operands:
            values = _made(operand, known) if isinstance(operand, Derived) else None
            if tensor.is_exact:
                operands.append(operand.float64() if values is None else values.astype(np.float64, copy=False))
            else:
                operands.append(operand.numpy() if values is None else _rounded(operand, values))
        with np.errstate(all="ignore"):
            known[tensor] = np.asarray(tensor.function(*operands))
    return known[tensor]


def _rounded(operand: Tensor, values: Array) -> Array:
    is_exact = isinstance(operand, Derived) and operand.is_exact
    return round_once(values, operand.dtype) if is_exact else values
