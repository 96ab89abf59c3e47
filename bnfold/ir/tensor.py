"""A weight: where its bytes lie, or how they are to be computed when it is written.

Float64 values are rounded exactly once, in `round_once`; descriptions (`Scaled`, `Exact`) compose without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx

from bnfold.errors import MalformedModel
from bnfold.ir.source import Source

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]
TP = onnx.TensorProto

FLOATS = frozenset({TP.FLOAT, TP.DOUBLE, TP.FLOAT16, TP.BFLOAT16})
CHUNK = 1 << 22
"""Bytes of float64 that a streamed computation holds at a time."""

_RAW_TYPES: dict[int, np.dtype[Any]] = {
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


def numpy_type(dtype: int) -> np.dtype[Any]:
    """The numpy type whose bytes are the raw_data of an ONNX element type; KeyError for sub-byte types and strings."""
    return _RAW_TYPES[dtype]


def round_once(values: Float64, dtype: int) -> Array:
    """Float64 values as ONNX type ``dtype``, rounded to nearest-even a single time (overflow becomes infinity)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype != TP.BFLOAT16:
            return values.astype(_RAW_TYPES[dtype])
        # ml_dtypes goes through float32 and rounds twice; rounding to odd first keeps the sticky bit.
        near = values.astype(np.float32)
        bits = near.view(np.int32)
        inexact = np.isfinite(near) & (near != values)
        overshot = inexact & (np.abs(near) > np.abs(values))
        odd = np.where(inexact, (bits - overshot) | 1, bits).view(np.float32)
        return odd.astype(ml_dtypes.bfloat16)


@dataclass(frozen=True, slots=True)
class Span:
    """A payload that stays where it lies. ``field`` is the TensorProto field whose encoding the bytes have."""

    source: Source
    offset: int
    length: int
    field: int = 9
    is_external: bool = False


class Tensor:
    """Element type (``onnx.TensorProto.DataType``), dims, and a payload that is read or computed on demand."""

    __slots__ = ("dims", "dtype")

    def __init__(self, dtype: int, dims: Sequence[int]) -> None:
        self.dtype = dtype
        self.dims = tuple(dims)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of the payload as raw_data; sub-byte types are packed."""
        if self.dtype in _RAW_TYPES:
            return self.size * _RAW_TYPES[self.dtype].itemsize
        return (self.size + 1) // 2

    @property
    def expected_bytes(self) -> int | None:
        return self.nbytes

    def numpy(self) -> Array:
        """The values, of shape ``dims``, in the tensor's own element type."""
        raise NotImplementedError

    def float64(self) -> Float64:
        """The values widened to float64; exact for every float type, and for what was never rounded yet."""
        return self.numpy().astype(np.float64)

    def blocks(self) -> Iterator[Array]:
        """The values in row-major order, in pieces of bounded size."""
        yield self.numpy().reshape(-1)


class Inline(Tensor):
    """A tensor whose payload is in its TensorProto."""

    __slots__ = ("proto",)

    def __init__(self, proto: onnx.TensorProto) -> None:
        super().__init__(proto.data_type, proto.dims)
        self.proto = proto

    def numpy(self) -> Array:
        from onnx import numpy_helper

        try:
            array: Array = numpy_helper.to_array(self.proto)
        except (ValueError, TypeError, KeyError) as error:
            raise MalformedModel(f"tensor {self.proto.name!r}: its data does not fit its dims {list(self.dims)}") from error
        return array


class Stored(Tensor):
    """A tensor whose payload is a span of the model file or of an external data file."""

    __slots__ = ("name", "span")

    def __init__(self, dtype: int, dims: Sequence[int], span: Span, name: str = "") -> None:
        super().__init__(dtype, dims)
        self.span = span
        self.name = name

    @property
    def is_external(self) -> bool:
        """Whether the bytes lie in an external data file."""
        return self.span.is_external

    @property
    def is_raw(self) -> bool:
        """Whether the bytes of the span are the elements themselves."""
        return (
            self.span.field == 9
            or (self.span.field == 4 and self.dtype == TP.FLOAT)
            or (self.span.field == 10 and self.dtype == TP.DOUBLE)
        )

    def check(self) -> None:
        """Raise MalformedModel unless the payload has the length that type and dims say."""
        if any(dim < 0 for dim in self.dims) or (self.is_raw and self.dtype != TP.STRING and self.span.length != self.nbytes):
            raise MalformedModel(
                f"tensor {self.name!r}: {self.span.length} bytes of data do not fit its dims {list(self.dims)}"
            )

    def numpy(self) -> Array:
        self.check()
        if self.is_raw and self.dtype in _RAW_TYPES:
            data = self.span.source.read(self.span.offset, self.span.length)
            return np.frombuffer(data, dtype=_RAW_TYPES[self.dtype]).reshape(self.dims)
        return Inline(self.to_proto()).numpy()

    def to_proto(self) -> onnx.TensorProto:
        """A TensorProto with the payload inside, in its own storage form."""
        from bnfold.ir.wire import length_prefix

        payload = self.span.source.read(self.span.offset, self.span.length)
        proto = TP(data_type=self.dtype, dims=self.dims, name=self.name)
        proto.MergeFromString(length_prefix(self.span.field, len(payload)) + payload)
        return proto

    def read(self, start: int, count: int) -> Array:
        """Elements ``start … start+count`` in row-major order, read from disk; raw payloads only."""
        itemsize = _RAW_TYPES[self.dtype].itemsize
        data = self.span.source.read(self.span.offset + start * itemsize, count * itemsize)
        return np.frombuffer(data, dtype=_RAW_TYPES[self.dtype])

    def blocks(self) -> Iterator[Array]:
        if not (self.is_raw and self.dtype in _RAW_TYPES):
            yield self.numpy().reshape(-1)
            return
        self.check()
        step = CHUNK // 8
        for start in range(0, self.size, step):
            yield self.read(start, min(step, self.size - start))


class Exact(Tensor):
    """Values known in float64, rounded to ``dtype`` when they are written."""

    __slots__ = ("values",)

    def __init__(self, dtype: int, values: Float64) -> None:
        super().__init__(dtype, values.shape)
        self.values = np.asarray(values, dtype=np.float64)

    def numpy(self) -> Array:
        return round_once(self.values, self.dtype)

    def float64(self) -> Float64:
        return self.values


Factor = tuple[int, Float64]
"""An axis and the float64 vector that scales the tensor along it."""


class Scaled(Tensor):
    """``base`` multiplied by vectors along some of its axes; a description, evaluated block by block when written."""

    __slots__ = ("base", "factors")

    def __init__(self, base: Tensor, factors: Sequence[Factor]) -> None:
        super().__init__(base.dtype, base.dims)
        merged: dict[int, Float64] = {}
        if isinstance(base, Scaled):
            merged.update(base.factors)
            base = base.base
        for axis, vector in factors:
            merged[axis] = merged[axis] * vector if axis in merged else vector
        self.base = base
        self.factors = tuple(sorted(merged.items()))

    def numpy(self) -> Array:
        return round_once(self.float64(), self.dtype)

    def float64(self) -> Float64:
        return self.base.float64() * self._factor(tuple(slice(None) for _ in self.dims))

    def _factor(self, window: tuple[slice, ...]) -> Float64:
        """The product of the factors over a window of the index space, of size 1 on axes that have none."""
        product = np.ones((1,) * len(self.dims))
        for axis, vector in self.factors:
            shape = [1] * len(self.dims)
            shape[axis] = -1
            product = product * vector[window[axis]].reshape(shape)
        return product

    def blocks(self) -> Iterator[Array]:
        base = self.base
        if not isinstance(base, Stored) or not base.is_raw:
            yield self.numpy().reshape(-1)
            return
        base.check()
        target = _RAW_TYPES[self.dtype]
        for start, window in windows(self.dims, CHUNK // 8):
            shape = [piece.stop - piece.start for piece in window]
            block = base.read(start, math.prod(shape)).reshape(shape)
            if target.kind == "f":
                out = np.empty(shape, dtype=target)
                with np.errstate(over="ignore", invalid="ignore"):
                    np.multiply(block, self._factor(window), out=out, casting="same_kind")
                yield out.reshape(-1)
            else:
                yield round_once(block.astype(np.float64) * self._factor(window), self.dtype).reshape(-1)


def windows(dims: Sequence[int], limit: int) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Cut a row-major index space into contiguous boxes of at most ``limit`` elements: (flat start, slices)."""
    rank = len(dims)
    if 0 in dims:
        return
    strides = [math.prod(dims[axis + 1 :]) for axis in range(rank)]
    split = next((axis for axis in range(rank) if strides[axis] <= limit), rank)
    if split == rank:
        yield 0, ()
        return
    step = max(1, limit // strides[split])
    for outer in np.ndindex(*dims[:split]):
        offset = sum(index * stride for index, stride in zip(outer, strides, strict=False))
        for start in range(0, dims[split], step):
            stop = min(start + step, dims[split])
            pieces = [slice(index, index + 1) for index in outer]
            pieces.append(slice(start, stop))
            pieces.extend(slice(0, dim) for dim in dims[split + 1 :])
            yield offset + start * strides[split], tuple(pieces)


def make_proto(name: str, tensor: Tensor) -> onnx.TensorProto:
    """A TensorProto that carries the tensor's values inside."""
    if isinstance(tensor, Inline):
        proto = TP()
        proto.CopyFrom(tensor.proto)
        proto.name = name
        return proto
    array = tensor.numpy()
    return TP(name=name, data_type=tensor.dtype, dims=tensor.dims, raw_data=np.ascontiguousarray(array).tobytes())
