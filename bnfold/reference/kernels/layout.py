"""Operators that only move elements: Reshape, Transpose, Concat, Flatten, Squeeze, DepthToSpace and the like."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

import math

import numpy as np

from bnfold.ir.elements import Array
from bnfold.reference.precision import Datum
from bnfold.reference.registry import (
    Call,
    KernelDeclined,
    KernelResult,
    dims_to_make,
    int_list,
    kernel,
    normal_axis,
    require,
)

ALL_21 = (21, 23, 24, 25)
"""Versions that only admit further element types."""


@kernel("Identity", 1, 13, 14, 16, 19, *ALL_21)
def identity(call: Call, x: Datum) -> KernelResult:
    """Return the input itself, be it a tensor, a sequence or an optional."""
    return x


@kernel("Reshape", 1)
@kernel("Reshape", 5, 13, 14, 19, *ALL_21)
def reshape(call: Call, x: Array, shape: Array | None = None) -> KernelResult:
    """Reshape to ``shape``: 0 copies the input's dim unless zeros are allowed; one −1 takes what is left."""
    target = call.listed("shape", shape) or []
    require(min(target, default=0) >= -1, f"target {target} has a dim below -1")
    if not call.attr("allowzero", 0):
        require(0 not in target[x.ndim :], f"target {target} copies a dim that shape {x.shape} has not")
        target = [x.shape[axis] if dim == 0 else dim for axis, dim in enumerate(target)]
    return x.reshape(target)


@kernel("Flatten", 1, 9, 11, 13, *ALL_21)
def flatten(call: Call, x: Array) -> KernelResult:
    """Flatten to two dims: those before ``axis``, and the rest."""
    axis = call.attr("axis")
    require(-x.ndim <= axis <= x.ndim, f"axis {axis} is outside rank {x.ndim}")
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@kernel("Squeeze", 1, 11)
@kernel("Squeeze", 13, *ALL_21)
def squeeze(call: Call, x: Array, axes: Array | None = None) -> KernelResult:
    """Drop the named axes of size 1, or all of them."""
    named = call.listed("axes", axes)
    require(named != [], "an empty list of axes: texts and runtimes disagree", KernelDeclined)
    return np.squeeze(x, None if named is None else tuple(normal_axis(axis, x.ndim) for axis in named))


@kernel("Unsqueeze", 1, 11)
@kernel("Unsqueeze", 13, *ALL_21)
def unsqueeze(call: Call, x: Array, axes: Array | None = None) -> KernelResult:
    """Add axes at these places in the result; runtimes take a scalar for a list of one."""
    places = call.attr("axes") if axes is None else int_list(np.atleast_1d(axes))
    return np.expand_dims(x, tuple(normal_axis(place, x.ndim + len(places)) for place in places))


@kernel("Transpose", 1, 13, *ALL_21)
def transpose(call: Call, x: Array) -> KernelResult:
    """Put axes in the order of ``perm``, by default reversed."""
    order = call.attr("perm")
    require(order is None or sorted(order) == list(range(x.ndim)), f"perm {order} for rank {x.ndim}")
    return np.transpose(x, order)


@kernel("Concat", 1)
@kernel("Concat", 4, 11, 13)
def concat(call: Call, *parts: Array) -> KernelResult:
    """Concatenate parts on ``axis``; version 1 has a default, axis 1."""
    axis = call.attr("axis", 1 if call.version == 1 else None)
    return np.concatenate(parts, normal_axis(axis, parts[0].ndim))


@kernel("Expand", 8, 13)
def expand(call: Call, x: Array, shape: Array) -> KernelResult:
    """Broadcast to the common shape of X and ``shape``: either may have the larger dim."""
    return np.broadcast_to(x, dims_to_make(np.broadcast_shapes(x.shape, dims_to_make(int_list(shape)))))


@kernel("Tile", 1)
@kernel("Tile", 6, 13)
def tile(call: Call, x: Array, repeats: Array, axis: Array | None = None) -> KernelResult:
    """Return repeats, one number an axis; at version 1 a single one, and its axis."""
    times = [1] * x.ndim if axis is not None else int_list(repeats)
    if axis is not None:
        times[normal_axis(int(axis.item()), x.ndim)] = int(repeats.item())
    require(len(times) == x.ndim and min(times, default=0) >= 0, f"repeats {times} for rank {x.ndim}")
    dims_to_make(size * count for size, count in zip(x.shape, times, strict=True))
    return np.tile(x, times)


@kernel("Shape", 1, 13, 15, 19, *ALL_21)
def shape_of(call: Call, x: Array) -> KernelResult:
    """Return the dims from ``start`` to ``end``, clamped as Python slices are."""
    return np.asarray(x.shape[call.attr("start") : call.attr("end")], np.int64)


@kernel("Size", 1, 13, 19, *ALL_21)
def size_of(call: Call, x: Array) -> KernelResult:
    """Return the number of elements."""
    return np.asarray(x.size, np.int64)


@kernel("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(call: Call, x: Array) -> KernelResult:
    """Compute (N, C, H, W) -> (N, C/b², H·b, W·b).

    In DCR order the block index is the outer part of C, in CRD the inner.
    """
    n, c, h, w = x.shape
    b = call.attr("blocksize")
    if call.attr("mode", "DCR") == "DCR":
        blocks = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, c // b**2, h * b, w * b)


@kernel("SpaceToDepth", 1, 13, 28)
def space_to_depth(call: Call, x: Array) -> KernelResult:
    """Compute (N, C, H, W) -> (N, C·b², H/b, W/b): the block index is the outer part of C, in CRD order the inner."""
    n, c, h, w = x.shape
    b = call.attr("blocksize")
    order = (0, 3, 5, 1, 2, 4) if call.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    blocks = x.reshape(n, c, h // b, b, w // b, b).transpose(order)
    return blocks.reshape(n, c * b**2, h // b, w // b)


@kernel("Trilu", 14)
def trilu(call: Call, x: Array, k: Array | None = None) -> KernelResult:
    """Return the upper or lower triangle of the last two axes, from diagonal ``k``."""
    require(x.ndim > 1, f"rank {x.ndim}")
    offset = 0 if k is None else int(k.item())
    return np.triu(x, offset) if call.attr("upper") else np.tril(x, offset)
