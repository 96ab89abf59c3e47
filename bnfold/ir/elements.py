"""The element types of tensors: their bytes as raw_data, and how float64 values are rounded to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]  # what numpy.typing has as NDArray, without its import
Float64 = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
Bools = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
TP = onnx.TensorProto

FLOATS = frozenset({TP.FLOAT, TP.DOUBLE, TP.FLOAT16, TP.BFLOAT16})

MAX_RANK = 32
"""Axes that an array can have, in every numpy that bnfold runs with and in the runtimes."""

RAW_TYPES: dict[int, np.dtype[Any]] = {
    TP.FLOAT: np.dtype("<f4"),
    TP.DOUBLE: np.dtype("<f8"),
    TP.FLOAT16: np.dtype("<f2"),
    TP.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    TP.INT8: np.dtype("i1"),
    TP.UINT8: np.dtype("u1"),
    TP.INT16: np.dtype("<i2"),
    TP.UINT16: np.dtype("<u2"),
    TP.INT32: np.dtype("<i4"),
    TP.UINT32: np.dtype("<u4"),
    TP.INT64: np.dtype("<i8"),
    TP.UINT64: np.dtype("<u8"),
    TP.BOOL: np.dtype("?"),
    TP.COMPLEX64: np.dtype("<c8"),
    TP.COMPLEX128: np.dtype("<c16"),
    TP.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TP.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    TP.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    TP.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_BY_NUMPY_TYPE = {kind: dtype for dtype, kind in RAW_TYPES.items()}
# By number: the oldest onnx that bnfold runs with does not know all of these names.
_UINT4, _INT4, _FLOAT4E2M1, _UINT2, _INT2 = 21, 22, 23, 25, 26
_PER_BYTE = {_UINT4: 2, _INT4: 2, _FLOAT4E2M1: 2, _UINT2: 4, _INT2: 4}


def numpy_type(dtype: int) -> np.dtype[Any]:
    """The numpy type whose bytes are the raw_data of an ONNX element type; KeyError for sub-byte types and strings."""
    return RAW_TYPES[dtype]


def raw_length(dtype: int, size: int) -> int | None:
    """Bytes of ``size`` elements as raw_data; None for strings and for types that are not known here."""
    if dtype in RAW_TYPES:
        return size * RAW_TYPES[dtype].itemsize
    return -(-size // _PER_BYTE[dtype]) if dtype in _PER_BYTE else None


def dims_text(dims: Sequence[int]) -> str:
    """Dims for a message, which stays one line whatever a file claims."""
    return str(list(dims)) if len(dims) <= MAX_RANK else f"[{dims[0]}, {dims[1]}, … {len(dims)} of them]"


def from_raw(data: bytes, dtype: int) -> Array:
    """The elements of raw_data, a read-only array of rank 1, for the types of `RAW_TYPES`."""
    if dtype == TP.BFLOAT16 and sys.byteorder == "big":  # its numpy type has the host's byte order and no other
        return np.frombuffer(data, "u2").byteswap().view(RAW_TYPES[dtype])
    return np.frombuffer(data, RAW_TYPES[dtype])


def to_raw(values: Array, dtype: int) -> bytes | memoryview:
    """The raw_data of elements in row-major order; sub-byte ones come as numpy has them, a byte each or more."""
    if dtype not in RAW_TYPES:
        return onnx.numpy_helper.from_array(values).raw_data
    values = np.ascontiguousarray(values, dtype=RAW_TYPES[dtype])
    if dtype == TP.BFLOAT16 and sys.byteorder == "big":
        values = values.view("u2").byteswap()
    return values.reshape(-1).view(np.uint8).data if values.size else b""


def tensor_message(array: Array, name: str = "") -> onnx.TensorProto:
    """As `onnx.numpy_helper.from_array`, which is imported for rare types alone: it brings half of onnx along."""
    dtype = _BY_NUMPY_TYPE.get(array.dtype)
    if dtype is None:
        return onnx.numpy_helper.from_array(array, name or None)
    return TP(name=name or None, data_type=dtype, dims=array.shape, raw_data=bytes(to_raw(array, dtype)))


def type_name(dtype: int | None) -> str:
    """``float16``, ``int64`` …, as onnx spells it in lower case; ``unknown`` without a type, a number nobody knows."""
    if not dtype:
        return "unknown"
    return TP.DataType.Name(dtype).lower() if dtype in TP.DataType.values() else f"type {dtype}"


def round_once(values: Float64, dtype: int) -> Array:
    """Float64 values as ONNX type ``dtype``, rounded to nearest-even a single time (overflow becomes infinity)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype != TP.BFLOAT16:
            return values.astype(RAW_TYPES[dtype])
        # ml_dtypes goes through float32 and rounds twice; rounding to odd first keeps the sticky bit.
        near = values.astype(np.float32)
        bits = near.view(np.int32)
        inexact = np.isfinite(near) & (near != values)
        overshot = inexact & (np.abs(near) > np.abs(values))
        odd = np.where(inexact, (bits - overshot) | np.int32(1), bits).view(np.float32)
        return odd.astype(ml_dtypes.bfloat16)
