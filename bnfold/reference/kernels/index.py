"""Operators that pick or place elements by index. Indices below zero count from the end of their axis."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.precision import Datum
from bnfold.reference.registry import Call, KernelResult, dims_to_make, kernel, normal_axis, require
from bnfold.reference.streamed import StreamedWeight


@kernel("Gather", 1, 11, 13)
def gather(call: Call, x: Array | StreamedWeight, indices: Array) -> KernelResult:
    """Gather whole slices along ``axis``."""
    if isinstance(x, StreamedWeight):
        size = x.shape[0]
        require(((-size <= indices) & (indices < size)).all(), f"an index beyond {size} rows")
        return x.take(indices % size)
    axis = normal_axis(call.attr("axis"), x.ndim)
    if x.flags.c_contiguous:
        return np.take(x, indices, axis)
    place: tuple[Any, ...] = (*[slice(None)] * axis, indices)
    return x[place]  # np.take would copy all of it first


@kernel("GatherElements", 11, 13)
def gather_elements(call: Call, x: Array, indices: Array) -> KernelResult:
    """Gather single elements along ``axis``; other axes go in step with the indices, from 0 on."""
    return x[_element_index(x, indices, normal_axis(call.attr("axis"), x.ndim))]


def _element_index(x: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    require(indices.ndim == x.ndim, f"indices of rank {indices.ndim} for rank {x.ndim}")
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


@kernel("GatherND", 11, 12, 13)
def gather_nd(call: Call, x: Array, indices: Array) -> KernelResult:
    """Return the last axis of the indices is a place in X, below ``batch_dims`` axes that both share."""
    batch = call.attr("batch_dims", 0)
    require(x.shape[:batch] == indices.shape[:batch] and 0 <= batch < indices.ndim, f"batch_dims {batch}")
    heads = tuple(np.arange(x.shape[axis]).reshape((-1, *(1,) * (indices.ndim - 2 - axis))) for axis in range(batch))
    return x[(*heads, *np.moveaxis(indices, -1, 0))]


_REDUCERS: dict[str, Callable[..., Datum]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _place(call: Call, x: Array, index: tuple[Array, ...], updates: Array) -> Array:
    shape = np.broadcast_shapes(*(part.shape for part in index)) + x.shape[len(index) :]
    require(updates.shape == shape, f"updates of shape {updates.shape}, where {shape} is to be")
    y = x.copy()
    reducer = call.attr("reduction", "none")
    if reducer == "none":
        y[index] = updates
    else:
        _REDUCERS[reducer](y, index, updates)
    return y


@kernel("Scatter", 9)
@kernel("ScatterElements", 11, 13, 16, 18)
def scatter_elements(call: Call, x: Array, indices: Array, updates: Array) -> KernelResult:
    """Scatter single elements along ``axis``."""
    return _place(call, x, _element_index(x, indices, normal_axis(call.attr("axis"), x.ndim)), updates)


@kernel("ScatterND", 11, 13, 16, 18)
def scatter_nd(call: Call, x: Array, indices: Array, updates: Array) -> KernelResult:
    """Scatter slices to where the last axis of the indices points."""
    return _place(call, x, tuple(np.moveaxis(indices, -1, 0)), updates)


@kernel("Unique", 11, 28)
def unique(call: Call, x: Array) -> tuple[Array, ...]:
    """Return the different elements, or slices along ``axis``, sorted or as they come first.

    With them go where they come first, which one of them each element is, and how often they occur.
    """
    axis = call.attr("axis")
    x, place = (x.reshape(-1), 0) if axis is None else (x, normal_axis(axis, x.ndim))
    y, first, which, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=place)
    order = np.arange(len(first)) if call.attr("sorted") else np.argsort(first)
    which = np.argsort(order)[which.reshape(-1)]
    return np.take(y, order, place), *(part.astype(np.int64) for part in (first[order], which, counts[order]))


@kernel("NonZero", 9, 13)
def non_zero(call: Call, x: Array) -> KernelResult:
    """Return coordinates of the elements that are not zero, one row an axis."""
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64) if x.ndim else np.zeros((0, int(x != 0)), np.int64)


@kernel("Compress", 9, 11, 28)
def compress(call: Call, x: Array, condition: Array) -> KernelResult:
    """Return the slices along ``axis`` where the condition holds; of the flat tensor without an axis."""
    axis = call.attr("axis")
    return np.compress(condition, x, None if axis is None else normal_axis(axis, x.ndim))


@kernel("OneHot", 9, 11, 28)
def one_hot(call: Call, indices: Array, depth: Array, values: Array) -> KernelResult:
    """Compute ``values[1]`` at the index on a new axis, ``values[0]`` elsewhere.

    Indices outside ±depth mark nothing. Those of floats are cast to integers first.
    """
    size = int(depth.item())
    require(size > 0 and values.shape == (2,), f"depth {size} and values of shape {values.shape}")
    axis = normal_axis(call.attr("axis"), indices.ndim + 1)
    dims_to_make((*indices.shape, size))
    whole = np.trunc(indices) if np.issubdtype(indices.dtype, np.floating) else indices
    places = np.where(whole < 0, whole + size, whole)
    ladder = np.arange(size).reshape((-1, *(1,) * (indices.ndim - axis)))
    return np.where(np.expand_dims(places, axis) == ladder, values[1], values[0])


@kernel("TopK", 1)
@kernel("TopK", 10, 11, 24)
def top_k(call: Call, x: Array, k: Array | None = None) -> tuple[Array, ...]:
    """Return the k largest (or smallest) in order, the lower index first among equals.

    Unsorted results come sorted, too.
    """
    axis, count = normal_axis(call.attr("axis"), x.ndim), call.attr("k") if k is None else int(k.item())
    require(count >= 0, f"k = {count}")
    if x.dtype == bool or np.issubdtype(x.dtype, np.unsignedinteger):
        x_key = x.astype(np.int64) if x.dtype.itemsize < 8 else x.astype(np.float64)
    else:
        x_key = x
    order = np.argsort(-x_key if call.attr("largest", 1) else x_key, axis, kind="stable")
    chosen = np.take(order, np.arange(count), axis)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)
