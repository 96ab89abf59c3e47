"""The element types of tensors: their bytes as raw_data, and how float64 values are rounded to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]  # what numpy.typing has as NDArray, without its import
Float64 = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Bools = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
TP = onnx.TensorProto

FLOATS = frozenset({TP.FLOAT, TP.DOUBLE, TP.FLOAT16, TP.BFLOAT16})

LIMIT = 1 << 26
"""Elements beyond which a tensor that is computed or sparse is not made: a weight of that size stays computed."""
MAX_RANK = 32
"""Axes that an array can have, in every numpy that bnfold runs with and in the runtimes."""

RAW_TYPES: dict[int, type[Any]] = {
    TP.FLOAT: np.float32,
    TP.DOUBLE: np.float64,
    TP.FLOAT16: np.float16,
    TP.BFLOAT16: ml_dtypes.bfloat16,
    TP.INT8: np.int8,
    TP.UINT8: np.uint8,
    TP.INT16: np.int16,
    TP.UINT16: np.uint16,
    TP.INT32: np.int32,
    TP.UINT32: np.uint32,
    TP.INT64: np.int64,
    TP.UINT64: np.uint64,
    TP.BOOL: np.bool_,
    TP.COMPLEX64: np.complex64,
    TP.COMPLEX128: np.complex128,
    TP.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TP.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TP.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TP.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}
"""Element types whose raw_data is what an array has in memory, with the array's type; see `numpy_type`."""
# By number: the oldest onnx that bnfold runs with does not know all of these names.
_UINT4, _INT4, _FLOAT4E2M1, _UINT2, _INT2 = 21, 22, 23, 25, 26
_PER_BYTE = {_UINT4: 2, _INT4: 2, _FLOAT4E2M1: 2, _UINT2: 4, _INT2: 4}
_ITEM_SIZES = {dtype: np.dtype(kind).itemsize for dtype, kind in RAW_TYPES.items()}


@cache
def numpy_type(dtype: int) -> np.dtype[Any]:
    """Return the numpy type whose bytes are the raw_data of an ONNX element type.

    KeyError for sub-byte types and strings.
    """
    return np.dtype(RAW_TYPES[dtype]).newbyteorder("<")


def finfo(dtype: int) -> Any:
    """Return what `numpy.finfo` says of a float type."""
    return ml_dtypes.finfo(numpy_type(dtype))


def raw_length(dtype: int, size: int) -> int | None:
    """Return bytes of ``size`` elements as raw_data; None for strings and for types that are not known here."""
    if dtype in _ITEM_SIZES:
        return size * _ITEM_SIZES[dtype]
    return -(-size // _PER_BYTE[dtype]) if dtype in _PER_BYTE else None


def dims_text(dims: Sequence[int]) -> str:
    """Return dims for a message, which stays one line whatever a file claims."""
    return str(list(dims)) if len(dims) <= MAX_RANK else f"[{dims[0]}, {dims[1]}, … {len(dims)} of them]"


def from_raw(data: bytes, dtype: int, dims: Sequence[int]) -> Array:
    """Return the elements of raw_data, a read-only array of these dims, for the types of `RAW_TYPES`."""
    if dtype == TP.BFLOAT16 and sys.byteorder == "big":  # its numpy type has the host's byte order and no other
        return np.ndarray(dims, "u2", data).byteswap().view(numpy_type(dtype))
    return np.ndarray(dims, numpy_type(dtype), data)  # one object; `frombuffer` and a view of it would be two


def to_raw(values: Array, dtype: int) -> bytes | memoryview:
    """Return the raw_data of elements in row-major order; sub-byte ones come as numpy has them, a byte each or more."""
    if dtype not in RAW_TYPES:
        return onnx.numpy_helper.from_array(values).raw_data
    values = np.ascontiguousarray(values, dtype=numpy_type(dtype))
    if dtype == TP.BFLOAT16 and sys.byteorder == "big":
        values = values.view("u2").byteswap()
    return values.reshape(-1).view(np.uint8).data if values.size else b""


_NAMES = {dtype: name.lower() for name, dtype in TP.DataType.items()}


def type_name(dtype: int | None) -> str:
    """Return ``float16``, ``int64`` …, as onnx spells it in lower case.

    ``unknown`` without a type, the number of an undefined one.
    """
    return _NAMES.get(dtype, f"type {dtype}") if dtype else "unknown"


def round_once(values: Float64, dtype: int) -> Array:
    """Round float64 values to ONNX type ``dtype``, to nearest-even, a single time (overflow becomes infinity)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype != TP.BFLOAT16:
            return values.astype(numpy_type(dtype))
        # ml_dtypes goes through float32 and rounds twice; rounding to odd first keeps the sticky bit.
        near = values.astype(np.float32)
        bits = near.view(np.int32)
        inexact = np.isfinite(near) & (near != values)
        overshot = inexact & (np.abs(near) > np.abs(values))
        odd = np.where(inexact, (bits - overshot) | np.int32(1), bits).view(np.float32)
        return odd.astype(numpy_type(dtype))
