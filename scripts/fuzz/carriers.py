"""Operators that move elements or reduce them, one entry each; see `fuzz.operators` for the whole table."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.builder import Builder, Drawn


def transpose(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    return b.node("Transpose", [x.name], perm=[int(axis) for axis in b.rng.permutation(x.rank)])


def flatten(b: Builder, x: Drawn) -> list[Drawn] | None:
    return b.node("Flatten", [x.name], axis=int(b.rng.integers(0, x.rank + 1)))


def reshape(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Merge axes or split one in two; sizes are sometimes copied by 0 or left open by −1."""
    dims = list(x.shape)
    if not dims:
        return None
    axis = int(b.rng.integers(len(dims)))
    if b.chance(0.5) and axis + 1 < len(dims):
        dims[axis : axis + 2] = [dims[axis] * dims[axis + 1]]
    else:
        divisors = [size for size in range(1, dims[axis] + 1) if dims[axis] % size == 0]
        first = b.pick(divisors)
        dims[axis : axis + 1] = [first, dims[axis] // first]
    if len(dims) > 5:
        return None
    if b.chance(0.5):
        dims[int(b.rng.integers(len(dims)))] = -1
    elif b.chance(0.3) and dims[0] == x.shape[0]:
        dims[0] = 0
    return b.node("Reshape", [x.name, b.integers(dims)])


def squeeze(b: Builder, x: Drawn) -> list[Drawn] | None:
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    if not ones or x.rank < 2:
        return None
    return b.node("Squeeze", [x.name, b.integers([b.pick(ones)])])


def unsqueeze(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank > 4:
        return None
    return b.node("Unsqueeze", [x.name, b.integers([int(b.rng.integers(-x.rank - 1, x.rank + 1))])])


def pool(b: Builder, x: Drawn) -> list[Drawn] | None:
    if not 3 <= x.rank <= 4:
        return None
    op = b.pick(["AveragePool", "AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool"])
    if op.startswith("Global"):
        return b.node(op, [x.name])
    if min(x.shape[2:]) < 2:
        return None
    attributes: dict[str, Any] = {"kernel_shape": [2] * (x.rank - 2)}
    if b.chance(0.6):
        attributes["pads"] = [int(b.rng.integers(0, 2)) for _ in range(2 * (x.rank - 2))]
    if op == "AveragePool" and b.chance(0.6):
        attributes["count_include_pad"] = 1
    if b.chance(0.3):
        attributes["strides"] = [2] * (x.rank - 2)
    return b.node(op, [x.name], **attributes)


def reduce(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    op = b.pick(["ReduceMean", "ReduceMax", "ReduceSum", "ReduceMin"])
    axes = sorted(int(axis) for axis in b.rng.choice(x.rank, int(b.rng.integers(1, x.rank)), replace=False))
    axes = [axis - x.rank if b.chance(0.3) else axis for axis in axes]
    keepdims = int(b.chance(0.5))
    if b.opset < 18 and op != "ReduceSum":
        return b.node(op, [x.name], axes=axes, keepdims=keepdims)
    return b.node(op, [x.name, b.integers(axes)], keepdims=keepdims)


def pick(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    size = x.shape[axis]
    if b.chance(0.5):
        indices = np.asarray(b.rng.integers(-size, size, b.pick([[3], [2, 2], []])))
        return b.node("Gather", [x.name, b.weight(indices.astype(np.int64), "i")], axis=axis) if x.rank < 5 else None
    start = int(b.rng.integers(size))
    if b.chance(0.3):
        bounds = [[start], [-(2**40)], [axis], [-1]]
    else:
        bounds = [[start], [b.pick([size, 2**40, start + 1])], [axis], [b.pick([1, 2])]]
    return b.node("Slice", [x.name, *(b.integers(bound) for bound in bounds)])


def repeat(b: Builder, x: Drawn) -> list[Drawn] | None:
    if np.prod(x.shape) > 2000:
        return None
    if b.chance(0.5):
        return b.node("Tile", [x.name, b.integers([int(b.rng.integers(1, 3)) for _ in x.shape])])
    shape = [size if size > 1 else int(b.rng.integers(1, 4)) for size in x.shape]
    return b.node("Expand", [x.name, b.integers(([2] if b.chance(0.2) and x.rank < 5 else []) + shape)])


def space(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4:
        return None
    if x.shape[1] % 4 and b.chance(0.5):
        x = b.node("Conv", [x.name, b.weight(b.numbers([b.pick([4, 8]), x.shape[1], 1, 1]))])[0]
    if x.shape[1] % 4 == 0:
        return b.node("DepthToSpace", [x.name], blocksize=2, mode=b.pick(["DCR", "CRD"]))
    if x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        return b.node("SpaceToDepth", [x.name], blocksize=2)
    return None


def pad(b: Builder, x: Drawn) -> list[Drawn] | None:
    amounts = [int(b.rng.integers(0, 2)) if axis >= 1 and b.chance(0.4) else 0 for axis in [*range(x.rank)] * 2]
    mode = b.pick(
        ["constant", "constant", "reflect", "edge", "wrap"] if b.opset >= 19 else ["constant", "reflect", "edge"]
    )
    if mode == "reflect" and min(x.shape) < 2:
        return None
    extra = [b.weight(b.numbers([]))] if mode == "constant" and b.chance(0.4) else []
    return b.node("Pad", [x.name, b.integers(amounts), *extra], mode=mode)


def resize(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Resize by whole factors, by nearly whole ones, or to sizes."""
    if x.rank != 4 or np.prod(x.shape) > 2000:
        return None
    attributes: dict[str, Any] = {"mode": b.pick(["nearest", "linear"])}
    if b.chance(0.3):
        how = ["asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel"]
        attributes["coordinate_transformation_mode"] = b.pick(how)
    if b.chance(0.2):
        sizes = [*x.shape[:2], *(size * b.pick([1, 2]) + b.pick([0, 0, 1]) for size in x.shape[2:])]
        return b.node("Resize", [x.name, "", "", b.integers(sizes)], **attributes)
    factors = [1, 2] if b.chance(0.6) else [1, 2, 0.5, 1.5, 2.001, 1.999]
    scales = np.array([1, 1, *(b.pick(factors) for _ in x.shape[2:])], np.float32)
    if b.chance(0.3):
        scales[1] = 2
    return b.node("Resize", [x.name, "", b.weight(scales, "scales")], **attributes)
