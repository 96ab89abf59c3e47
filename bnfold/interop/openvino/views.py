"""How ONNX sees a stored weight: the same bytes in other dims, or its last two axes in the other order."""

from __future__ import annotations

from typing import Literal

from bnfold import ir
from bnfold.ir.elements import Array

View = Literal["", "grouped", "transposed"]
"""How ONNX sees a stored weight: as it is; (G, O, I, k…) as (G·O, I, k…); its last two axes in the other order."""


class Transposed(ir.Tensor):
    """``base`` with its last two axes in the other order."""

    __slots__ = ("base",)

    def __init__(self, base: ir.Tensor) -> None:
        super().__init__(base.dtype, (*base.dims[:-2], base.dims[-1], base.dims[-2]))
        self.base = base

    def numpy(self) -> Array:
        return self.base.numpy().swapaxes(-1, -2)


def seen_as(tensor: ir.Stored, view: View) -> ir.Tensor:
    """Return a stored weight as ONNX sees it; its bytes stay where they are."""
    if view == "transposed":
        return Transposed(tensor)
    if not view:
        return tensor
    groups, outputs, *rest = tensor.dims
    return ir.Stored(tensor.dtype, (groups * outputs, *rest), tensor.span, tensor.name)
