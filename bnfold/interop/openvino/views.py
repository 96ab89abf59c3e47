"""How ONNX sees a stored weight: the same bytes in other dims, or its last two axes in the other order."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from bnfold import ir

View = Literal["", "grouped", "transposed"]
"""How ONNX sees a stored weight: as it is; (G, O, I, k…) as (G·O, I, k…); its last two axes in the other order."""


def dims_of(tensor: ir.Tensor, view: View) -> tuple[int, ...]:
    """The dims in which ONNX sees a stored weight."""
    dims = tensor.dims
    if view == "grouped":
        return (dims[0] * dims[1], *dims[2:])
    if view == "transposed":
        return (*dims[:-2], dims[-1], dims[-2])
    return dims


class Transposed(ir.Tensor):
    """``base`` with its last two axes in the other order."""

    __slots__ = ("base",)

    def __init__(self, base: ir.Tensor) -> None:
        super().__init__(base.dtype, dims_of(base, "transposed"))
        self.base = base

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.base.numpy().swapaxes(-1, -2)


def seen_as(tensor: ir.Stored, view: View) -> ir.Tensor:
    """A stored weight as ONNX sees it; its bytes stay where they are."""
    if view == "transposed":
        return Transposed(tensor)
    return ir.Stored(tensor.dtype, dims_of(tensor, view), tensor.span, tensor.name) if view else tensor


def as_stored(array: np.ndarray[Any, Any], view: View, group: int) -> np.ndarray[Any, Any]:
    """The inverse: how a weight that ONNX sees is stored."""
    if view == "grouped":
        return array.reshape(group, array.shape[0] // group, *array.shape[1:])
    return array.swapaxes(-1, -2) if view == "transposed" else array
