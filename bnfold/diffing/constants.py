"""By how much two constants differ, read side by side in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array, dims_text, type_name
from bnfold.ir.tensor import CHUNK

_STEP = CHUNK // 8


def described(tensor: ir.Tensor) -> str:
    """Return type and dims."""
    return f"{type_name(tensor.dtype)}{dims_text(tensor.dims)}"


def compared(old: ir.Tensor, new: ir.Tensor) -> dict[str, Any] | None:
    """Return how many elements differ, and the largest absolute and relative differences.

    None for unlike dims and for texts.

    Relative is to the larger of the two elements. What is NaN in both does not differ.
    """
    if old.dims != new.dims:
        return None
    count, largest, relative, scale = 0, 0.0, 0.0, 0.0
    for one, other in zip(_pieces(old), _pieces(new), strict=True):
        if one.dtype.kind not in "biufcV" or other.dtype.kind not in "biufcV":
            return None
        with np.errstate(all="ignore"):
            first, second = _wide(one), _wide(other)
            unlike = one != other if one.dtype == other.dtype else first != second  # float64 has not every int64
            differs = unlike & ~(np.isnan(first) & np.isnan(second))
            gap, size = np.abs(first - second)[differs], np.maximum(np.abs(first), np.abs(second))[differs]
            gap[np.isnan(gap)] = np.inf
            count += gap.size
            largest = max(largest, float(gap.max(initial=0.0)))
            relative = max(relative, float((gap / size).max(initial=0.0, where=np.isfinite(gap) & (size > 0))))
            scale = max(scale, float(np.abs(first).max(initial=0.0, where=np.isfinite(first))))
    return {"differing": count, "elements": old.size, "largest": largest, "relative": relative, "scale": scale}


def _wide(values: Array) -> Array:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _pieces(tensor: ir.Tensor) -> Iterator[Array]:
    """Do as `ir.Tensor.blocks`, but cut in the same places whatever the tensor."""
    if tensor.can_read:
        yield from tensor.blocks()
        return
    whole = tensor.numpy().reshape(-1)
    yield from (whole[start : start + _STEP] for start in range(0, whole.size, _STEP))
