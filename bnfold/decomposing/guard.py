"""In which type an affine may be computed without losing what the operator itself would have kept."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold.ir.elements import finfo
from bnfold.ir.tensor import Float64, round_once

TP = onnx.TensorProto
HALVES = frozenset({TP.FLOAT16, TP.BFLOAT16})
_GROWTH = 8.0
"""How far a 16-bit shift may exceed bias and scale: its rounding error stays within as many roundings of y."""
_HEADROOM = 64.0
"""The share of the range that a 16-bit shift may take: where y is finite, so are the terms of its sum."""


def fits(block: Float64, dtype: int) -> bool:
    """Whether rounding ``block`` to ``dtype`` keeps it finite and loses no more than rounding does.

    The subnormals of float16 begin at 6e-5, where trained scales live, so there every element counts; with eight or
    more bits of exponent a channel that small is dead, and the block is judged as a whole.
    """
    with np.errstate(all="ignore"):
        rounded = round_once(block, dtype).astype(np.float64)
    if not np.isfinite(rounded).all():
        return False
    size = np.abs(block) if dtype == TP.FLOAT16 else np.abs(block).max(initial=0.0)
    normal = float(finfo(dtype).smallest_normal)
    return bool(((size >= normal) | (rounded == block)).all())


def is_steady(term: Float64, scale: Float64, bias: Float64, dtype: int) -> bool:
    """Whether adding ``term`` (per channel) in ``dtype`` costs no more than a few roundings of the result.

    Where the mean is many deviations off zero, ``mean·s`` is large and what it is subtracted from cancels: its rounding
    error stays. Float32 and float64 are held to what runtimes do with BatchNormalization itself; sixteen bits, which
    they widen to float32 first, must not get worse by that.
    """
    if dtype not in HALVES:
        return True
    return has_headroom(term, dtype) and bool((np.abs(term) <= _GROWTH * (np.abs(bias) + np.abs(scale))).all())


def has_headroom(term: Float64, dtype: int) -> bool:
    """Whether ``term`` is so far from the end of the range that adding it overflows only where the result does."""
    return bool((np.abs(term) <= float(finfo(dtype).max) / _HEADROOM).all())


def widest(*dtypes: int) -> int:
    """The type to compute in: the widest of several, and at least float32."""
    return TP.DOUBLE if TP.DOUBLE in dtypes else TP.FLOAT
