"""No fold may overflow a weight's type, or lose in it what rounding would not."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bnfold.edits.edit import Edit, ExtraAdd, SetConstant
from bnfold.folding.affine import every
from bnfold.ir.tensor import FLOATS, TP, Computed, Exact, Float64, Scaled, Tensor, round_once
from bnfold.report.reasons import Declined, Reason

SAFE = 2.0**60
"""Within 1/SAFE … SAFE a number is normal in float32 and a factor moves no ordinary weight out of range; overflow is
checked once more while writing."""
_UNIT: dict[int, float] = {TP.FLOAT16: 2.0**-11, TP.BFLOAT16: 2.0**-8, TP.FLOAT: 2.0**-24, TP.DOUBLE: 2.0**-53}


def check(edits: Iterable[Edit]) -> None:
    """Raise Declined unless every new tensor is finite and as exact as its type allows."""
    made = [
        (edit, edit.tensor if isinstance(edit, SetConstant) else Exact(edit.dtype, edit.block))
        for edit in edits
        if isinstance(edit, SetConstant | ExtraAdd)
    ]
    if _are_ordinary(tensor for _, tensor in made):
        return
    for edit, tensor in made:
        if tensor.dtype in FLOATS and not _are_ordinary([tensor]):
            _look_closely(edit, tensor)  # integers of a quantized weight fit, by their construction


def _look_closely(edit: SetConstant | ExtraAdd, tensor: Tensor) -> None:
    where = f"input {edit.slot} of {edit.node.op_type} {edit.node.label!r}"
    with np.errstate(all="ignore"):
        exact = tensor.float64()
    if isinstance(tensor, Computed) and not all(np.isfinite(source.float64()).all() for source in tensor.sources):
        raise Declined(Reason.NON_FINITE, where)
    with np.errstate(all="ignore"):
        rounded = round_once(exact, tensor.dtype).astype(np.float64)
    if not np.isfinite(rounded).all():
        raise Declined(Reason.RANGE, f"{where} overflows")
    for axis in _axes(tensor):
        if not _keeps(exact, rounded, axis, _UNIT[tensor.dtype]):
            raise Declined(Reason.RANGE, f"{where} underflows")


def _are_ordinary(tensors: Iterable[Tensor]) -> bool:
    """Whether every number that was computed is zero or of ordinary size, which no NaN is; reads no weight."""
    numbers: list[Float64] = []
    for tensor in tensors:
        if tensor.dtype not in (TP.FLOAT, TP.DOUBLE) or not isinstance(tensor, Computed | Exact):
            return False
        numbers += tensor.numbers if isinstance(tensor, Computed) else [tensor.values.reshape(-1)]
    values = np.concatenate(numbers) if numbers else np.empty(0)
    size = np.abs(values)
    inside = (size <= SAFE) & (size >= 1 / SAFE)
    return every(inside) or every(inside | (size == 0))


def _axes(tensor: Tensor) -> list[int | None]:
    """Return along which axes slices are judged on their own.

    The subnormals of float16 begin at 6e-5, where trained weights live, so every channel counts. With eight bits of
    exponent a channel that small is dead (pruned ones of 1e-40 are common): there the tensor is judged as a whole.
    """
    if tensor.dtype != TP.FLOAT16 or not isinstance(tensor, Computed):
        return [None]
    return [axis for axis, _ in tensor.factors] if isinstance(tensor, Scaled) else [0]


def _keeps(exact: Float64, rounded: Float64, axis: int | None, unit: float) -> bool:
    """Whether the rounding error of each slice along ``axis`` is what normal numbers of the type would have."""
    others = tuple(other for other in range(exact.ndim) if other != axis) if axis is not None else None
    with np.errstate(over="ignore"):
        error = np.sqrt(((rounded - exact) ** 2).sum(axis=others))
        size = np.sqrt((exact**2).sum(axis=others))
    return bool((error <= unit * size).all())
