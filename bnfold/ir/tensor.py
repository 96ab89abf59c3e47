"""A weight: where its bytes lie, or how they are to be computed when it is written.

Float64 values are rounded exactly once, in `round_once`; descriptions (`Scaled`, `Exact`) compose without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy

import numpy as np
import onnx

from bnfold.errors import BnfoldError, ExternalDataError, MalformedModel
from bnfold.ir.elements import (
    FLOATS,
    MAX_RANK,
    RAW_TYPES,
    TP,
    Array,
    Float64,
    dims_text,
    from_raw,
    numpy_type,
    raw_length,
    round_once,
)
from bnfold.ir.time_limit import look_at_clock

__all__ = [
    "FLOATS",
    "TP",
    "Array",
    "Computed",
    "Exact",
    "Float64",
    "Inline",
    "RangeViolation",
    "Scaled",
    "Tensor",
    "numpy_type",
    "round_once",
    "windows",
]

CHUNK = 1 << 19
"""Bytes of float64 that a streamed computation holds at a time; for larger blocks the system has to find new pages."""


class RangeViolation(BnfoldError):
    """A new weight overflows its type; found only while it was computed, so the fold that made it must be undone."""

    def __init__(self, tensor: Computed) -> None:
        super().__init__("a folded weight overflows its type")
        self.tensor = tensor


class Tensor:
    """Element type (``onnx.TensorProto.DataType``), dims, number of elements, and a payload read or computed on demand.

    What `numpy`, `float64` and `blocks` give must not be written to: it may be shared, or the file's own bytes.
    """

    __slots__ = ("dims", "dtype", "size")

    def __init__(self, dtype: int, dims: Sequence[int]) -> None:
        self.dtype = dtype
        self.dims = tuple(dims)
        self.size = math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of the payload as raw_data; sub-byte types are packed, strings have none."""
        return raw_length(self.dtype, self.size) or 0

    def numpy(self) -> Array:
        """Return the values, of shape ``dims``, in the tensor's own element type.

        Raises MalformedModel, RangeViolation.
        """
        raise NotImplementedError

    def float64(self) -> Float64:
        """Return the values widened to float64; exact for every float type, and for what was never rounded yet."""
        with np.errstate(invalid="ignore"):  # a signalling NaN, which widening makes a quiet one
            return self.widened()

    def widened(self) -> Float64:
        """Do as `float64`, for callers that have silenced numpy's warnings about NaN."""
        return self.numpy().astype(np.float64)

    @property
    def can_read(self) -> bool:
        """Whether `read` gives a part of the values without touching the rest."""
        return False

    def read(self, start: int, count: int) -> Array:
        """Return elements ``start … start+count`` in row-major order, where `can_read`."""
        raise NotImplementedError

    def blocks(self) -> Iterator[Array]:
        """Yield the values in row-major order, in pieces of bounded size where `can_read`. Raises as `numpy`."""
        if not self.can_read:
            yield self.numpy().reshape(-1)
            return
        step = CHUNK // 8
        for start in range(0, self.size, step):
            look_at_clock()
            yield self.read(start, min(step, self.size - start))


def check_rank(name: str, dims: Sequence[int]) -> None:
    """Raise MalformedModel for more dims than an array can have (numpy before 2.0 had 32)."""
    if len(dims) > MAX_RANK:
        raise MalformedModel(f"tensor {name!r} has {len(dims)} dims; more than {MAX_RANK} cannot be computed with")


class Inline(Tensor):
    """A tensor whose payload is in its TensorProto."""

    __slots__ = ("proto",)

    def __init__(self, proto: onnx.TensorProto) -> None:
        super().__init__(proto.data_type, proto.dims[:])
        self.proto = proto

    @property
    def is_reference(self) -> bool:
        """Whether the message only says where the payload lies."""
        return self.proto.data_location == TP.EXTERNAL

    @property
    def _misfit(self) -> str:
        text = f"tensor {self.proto.name!r}: its data does not fit its dims {dims_text(self.dims)}"
        if any(field.name.endswith("_data") and field.name != "external_data" for field, _ in self.proto.ListFields()):
            return text
        return f"{text}: there is none. The weights were taken out of the file; use the file as it was exported"

    def copy(self) -> Inline:
        """Return the same tensor in a message of its own."""
        return Inline(deepcopy(self.proto))

    def numpy(self) -> Array:
        if self.is_reference:
            what = f"tensor {self.proto.name!r} has external data"
            raise ExternalDataError(f"{what}, but the model was not read from a file; load it by its path")
        raw = self.proto.raw_data
        if raw and self.dtype in RAW_TYPES and len(raw) == self.size * numpy_type(self.dtype).itemsize:
            try:  # the usual case, without onnx's detours
                return from_raw(raw, self.dtype, self.dims)
            except ValueError:  # dims below zero, or more than an array can have
                pass
        check_rank(self.proto.name, self.dims)
        from onnx import numpy_helper

        if any(dim < 0 for dim in self.dims):
            raise MalformedModel(self._misfit)
        try:
            array: Array = numpy_helper.to_array(self.proto)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise MalformedModel(self._misfit) from error
        return array


class InMemory(Tensor):
    """An array; often a broadcast view that takes no memory of its own."""

    __slots__ = ("array",)

    def __init__(self, dtype: int, array: Array) -> None:
        super().__init__(dtype, array.shape)
        self.array = array

    def numpy(self) -> Array:
        return self.array


class Exact(Tensor):
    """Values known in float64, rounded to ``dtype`` when they are written."""

    __slots__ = ("values",)

    def __init__(self, dtype: int, values: Float64) -> None:
        super().__init__(dtype, values.shape)
        self.values = np.asarray(values, dtype=np.float64)

    def numpy(self) -> Array:
        return round_once(self.values, self.dtype)

    def widened(self) -> Float64:
        return self.values


Factor = tuple[int, Float64]
"""An axis and the float64 vector that scales the tensor along it."""


class Computed(Tensor):
    """A new weight that is described by what it is made of, and evaluated block by block when it is written.

    Rounding it raises RangeViolation where a finite element would become infinite; `float64` does not round. For that
    case ``origin`` says whose rewrite it came from.
    """

    __slots__ = ("origin",)
    origin: tuple[str, str] | None

    @property
    def sources(self) -> tuple[Tensor, ...]:
        """The tensors that it is computed from, which are not computed themselves."""
        raise NotImplementedError

    @property
    def numbers(self) -> list[Float64]:
        """The vectors that rewrites brought in."""
        raise NotImplementedError

    def _checked(self, rounded: Array, exact: Array) -> Array:
        """Return what was rounded. Raises RangeViolation where a finite element became infinite."""
        if not np.isfinite(rounded).all() and (np.isinf(rounded) & np.isfinite(exact)).any():
            raise RangeViolation(self)
        return rounded


def sources_of(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors whose bytes are read for this one."""
    return tensor.sources if isinstance(tensor, Computed) else (tensor,)


class Scaled(Computed):
    """``base`` multiplied by vectors along some of its axes."""

    __slots__ = ("base", "factors")

    def __init__(self, base: Tensor, factors: Sequence[Factor]) -> None:
        for axis, vector in factors:
            if vector.size not in (1, base.dims[axis]):
                raise ValueError(f"{vector.size} factors along an axis of {base.dims[axis]}")
        if isinstance(base, Inline):
            # Not the message, which may be written over while a copy is still scaled from it.
            base = InMemory(base.dtype, base.numpy().copy())
        super().__init__(base.dtype, base.dims)
        merged: dict[int, Float64] = dict(base.factors) if isinstance(base, Scaled) else {}
        for axis, vector in factors:
            merged[axis] = merged[axis] * vector if axis in merged else vector
        self.base: Tensor = base.base if isinstance(base, Scaled) else base
        self.factors: tuple[Factor, ...] = tuple(sorted(merged.items()))
        self.origin = None

    @property
    def sources(self) -> tuple[Tensor, ...]:
        return sources_of(self.base)

    @property
    def numbers(self) -> list[Float64]:
        inner = self.base.numbers if isinstance(self.base, Computed) else []
        return [*inner, *(vector for _, vector in self.factors)]

    def numpy(self) -> Array:
        base = self.base
        block = base.float64() if isinstance(base, Exact | Computed) else base.numpy()  # never rounded in between
        return self._rounded(block, (slice(None),) * len(self.dims))

    def widened(self) -> Float64:
        factor: Float64 | float = 1.0
        for axis, vector in self.factors:
            factor = vector.reshape(-1, *(1,) * (len(self.dims) - axis - 1)) * factor
        return self.base.widened() * factor

    def blocks(self) -> Iterator[Array]:
        base = self.base
        if not base.can_read:
            yield self.numpy().reshape(-1)
            return
        for start, window in windows(self.dims, CHUNK // 8):
            shape = [piece.stop - piece.start for piece in window]
            yield self._rounded(base.read(start, math.prod(shape)).reshape(shape), window).reshape(-1)

    def _factor(self, window: tuple[slice, ...]) -> Float64:
        """Return the product of the factors over a window of the index space, of size 1 on axes that have none."""
        product = None
        for axis, vector in self.factors:
            shape = [1] * len(self.dims)
            shape[axis] = -1
            factor = vector[window[axis]].reshape(shape)
            product = factor if product is None else product * factor
        return np.ones(()) if product is None else product

    def _rounded(self, block: Array, window: tuple[slice, ...]) -> Array:
        """Return a window of the base, multiplied and rounded."""
        target = numpy_type(self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            if target.kind == "f":  # numpy computes in float64 and rounds as it stores
                out = np.empty(block.shape, dtype=target)
                np.multiply(block, self._factor(window), out=out, casting="same_kind")
            else:
                out = round_once(block.astype(np.float64) * self._factor(window), self.dtype)
        return self._checked(out, block)


def windows(dims: Sequence[int], limit: int) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Cut a row-major index space into contiguous boxes of at most ``limit`` elements: (flat start, slices)."""
    if 0 in dims:
        return
    if not dims:
        yield 0, ()
        return
    strides = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    split = next(axis for axis, stride in enumerate(strides) if stride <= limit)
    step = max(1, limit // strides[split])
    for outer in np.ndindex(*dims[:split]):
        offset = sum(index * stride for index, stride in zip(outer, strides, strict=False))
        around = [slice(index, index + 1) for index in outer]
        inside = [slice(0, dim) for dim in dims[split + 1 :]]
        for start in range(0, dims[split], step):
            stop = min(start + step, dims[split])
            yield offset + start * strides[split], (*around, slice(start, stop), *inside)
