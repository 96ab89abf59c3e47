"""What a floating-point type can hold: its unit roundoff, the spacing of its numbers, its largest number."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
import onnx

from bnfold.ir.elements import Array

F64 = npt.NDArray[np.float64]
_T = onnx.TensorProto

_VISIBLE = 2.0**-4
"""Elements below this share of the scale do not count in ulps: near zero an ulp is nothing."""


class FloatType(NamedTuple):
    """A binary float: significant bits (the hidden one included), smallest normal exponent, largest value."""

    precision: int
    min_exponent: int
    largest: float

    @property
    def roundoff(self) -> float:
        """Half the distance from 1 to the next number: the largest relative error of rounding once."""
        return float(2.0**-self.precision)

    def spacing(self, values: npt.NDArray[Any]) -> F64:
        """Return the distance between neighbouring numbers of this type around each of ``values``: one ulp."""
        size = np.abs(np.asarray(values, np.float64))
        exponent = np.where(size > 0, np.frexp(size)[1] - 1, self.min_exponent)
        spacing: F64 = np.ldexp(1.0, np.maximum(exponent, self.min_exponent) - (self.precision - 1))
        return spacing


FLOAT_TYPES: dict[int, FloatType] = {
    _T.FLOAT: FloatType(24, -126, float(np.finfo(np.float32).max)),
    _T.DOUBLE: FloatType(53, -1022, float(np.finfo(np.float64).max)),
    _T.FLOAT16: FloatType(11, -14, 65504.0),
    _T.BFLOAT16: FloatType(8, -126, 3.3895313892515355e38),
    _T.FLOAT8E4M3FN: FloatType(4, -6, 448.0),
    _T.FLOAT8E4M3FNUZ: FloatType(4, -7, 240.0),
    _T.FLOAT8E5M2: FloatType(3, -14, 57344.0),
    _T.FLOAT8E5M2FNUZ: FloatType(3, -15, 57344.0),
}


def float_type(dtype: int | None) -> FloatType:
    """Return the float type of an onnx data type; float32 where the type is unknown or no float."""
    return FLOAT_TYPES.get(dtype or _T.FLOAT, FLOAT_TYPES[_T.FLOAT])


HALVES = frozenset({_T.FLOAT16, _T.BFLOAT16})
"""The types in which a runtime may not see what overflows between nodes: it takes float32."""


def is_float(dtype: int | None) -> bool:
    """Whether the onnx data type is a float of any width."""
    return dtype in FLOAT_TYPES


def is_float_array(value: object) -> TypeGuard[Array]:
    """Whether it is an array of floats, of a type that numpy has itself."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def ulps(delta: F64, size: F64, scale: float, kind: FloatType) -> float:
    """Return the largest difference in units of the last place, of elements of some ``size``."""
    with np.errstate(all="ignore"):
        found = np.divide(delta, kind.spacing(size), out=np.zeros(delta.shape), where=size >= scale * _VISIBLE)
    return float(found.max(initial=0.0))


def rms(delta: F64) -> float:
    """Return the root mean square, scaled first: differences beyond 1e154 have no square."""
    largest = float(delta.max(initial=0.0))
    if not np.isfinite(largest):
        return largest
    return largest * float(np.sqrt(np.mean(np.square(delta / largest)))) if largest > 0 else 0.0
