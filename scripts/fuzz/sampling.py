"""Nodes that read sequences, or images at computed places; and choices by a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fuzz.builder import Builder, Drawn


def grid_sample(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a GridSample; some of the places are outside."""
    if x.rank != 4 or not min(x.shape):
        return None
    places = b.weight(b.numbers([x.shape[0], *(int(b.rng.integers(1, 4)) for _ in range(2)), 2], -1.5, 1.5), "grid")
    names = ["bilinear", "nearest", "bicubic"] if b.opset < 20 else ["linear", "nearest", "cubic"]
    about = {"mode": b.pick(names), "padding_mode": b.pick(["zeros", "border", "reflection"])}
    return b.node("GridSample", [x.name, places], align_corners=int(b.chance(0.5)), **about)


def deform_conv(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4 or min(x.shape[2:]) < 2 or not min(x.shape):
        return None
    group = b.pick([divisor for divisor in range(1, x.shape[1] + 1) if x.shape[1] % divisor == 0])
    outputs, image = group * int(b.rng.integers(1, 3)), (x.shape[0], x.shape[2] - 1, x.shape[3] - 1)
    kernel, offset = b.numbers([outputs, x.shape[1] // group, 2, 2]), b.numbers([image[0], 8, *image[1:]])
    bias = b.weight(b.numbers([outputs])) if b.chance(0.5) else ""
    mask = [b.weight(b.numbers([image[0], 4, *image[1:]], 0.0, 1.0))] if b.chance(0.4) else []
    operands = [x.name, b.weight(kernel), b.weight(offset, "offset"), bias, *mask]
    return b.node("DeformConv", operands, kernel_shape=[2, 2], group=group)


def recurrent(b: Builder, x: Drawn, stated: float = 0.5) -> list[Drawn] | None:
    """Append a recurrent layer, often after a Transpose that makes the channels the steps' input."""
    if x.rank != 3 or not min(x.shape):
        return None
    if b.chance(0.7):
        (x,) = b.node("Transpose", [x.name], perm=[2, 0, 1])
    op, hidden = b.pick(["LSTM", "GRU", "RNN"]), int(b.rng.integers(1, 4))
    both, gates = int(b.chance(0.3)), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    shapes = [[1 + both, gates * hidden, x.shape[2]], [1 + both, gates * hidden, hidden]]
    bias = [b.weight(b.numbers([1 + both, 2 * gates * hidden]))] if b.chance(0.6) else []
    about: dict[str, Any] = {"direction": "bidirectional" if both else b.pick(["forward", "reverse"])}
    if op == "GRU" and b.chance(0.5):
        about["linear_before_reset"] = 1
    states = ["", *[_state(b, x, [1 + both, hidden])] * b.pick([1, 1 + (op == "LSTM")])] if b.chance(stated) else []
    rest = [*(bias or [""] * bool(states)), *states]
    return b.node(op, [x.name, *(b.weight(b.numbers(shape)) for shape in shapes), *rest], hidden_size=hidden, **about)


def from_state(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a recurrent layer to a value of three axes, which is fed if there is none."""
    return recurrent(b, x if x.rank == 3 else b.feed(b.numbers((3, 2, 4))))


def _state(b: Builder, x: Drawn, sizes: Sequence[int]) -> str:
    """Append an initial state, mostly of zeros, that is as long as the batch: filled, a part of that, or expanded."""
    shape, number = (sizes[0], x.shape[1], sizes[1]), b.pick([0, 0, 0, 0, 1, -0.0])
    batch = b.derive("Shape", [x.name], TensorProto.INT64, [3])
    batch = b.derive("Gather", [batch, b.integers([1])], TensorProto.INT64, [1], axis=0)
    kind, count = b.rng.random(), 2 * sizes[0]
    first = b.integers([count if kind < 0.3 else sizes[0]])
    dims = b.derive("Concat", [first, batch, b.integers(sizes[1:])], TensorProto.INT64, [3], axis=0)
    fill = np.array([number], helper.tensor_dtype_to_np_dtype(b.dtype))
    if kind > 0.8:
        return b.derive("Expand", [b.weight(fill, "fill"), dims], b.dtype, shape)
    filled = (count if kind < 0.3 else sizes[0], *shape[1:])
    made = b.derive("ConstantOfShape", [dims], b.dtype, filled, value=numpy_helper.from_array(fill))
    if kind < 0.3:
        bounds = [b.integers([bound]) for bound in (sizes[0], count, 0)]
        made = b.derive("Slice", [made, *bounds], b.dtype, shape)
    return made


def reverse_sequence(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2 or not min(x.shape):
        return None
    axis = int(b.rng.integers(2))
    lengths = b.integers([int(b.rng.integers(1, x.shape[axis] + 1)) for _ in range(x.shape[1 - axis])])
    return b.node("ReverseSequence", [x.name, lengths], time_axis=axis, batch_axis=1 - axis)


def einsum(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an Einsum that reorders axes, or a product with a constant over shared axes and new ones."""
    axes = list("abcdef"[: x.rank])
    if not axes or x.rank > 4 or b.chance(0.25):
        made = [axes[index] for index in b.rng.permutation(x.rank)]
        return b.node("Einsum", [x.name], equation=f"{''.join(axes)}->{''.join(made)}") if axes else None
    shared = [axis for axis in axes if b.chance(0.5)] or axes[1:2] or axes
    sizes = dict(zip(axes, x.shape, strict=True)) | {"y": int(b.rng.integers(1, 5)), "z": 2}
    term = [*shared, *(axis for axis in "yz" if b.chance(0.5))]
    term = [term[index] for index in b.rng.permutation(len(term))]
    every = [*axes, *(axis for axis in term if axis not in axes)]
    made = [axis for axis in every if not b.chance(0.6 if axis in shared else 0.1)]
    made = [made[index] for index in b.rng.permutation(len(made))]
    operands = [(x.name, axes), (b.weight(b.numbers([sizes[axis] for axis in term])), term)]
    (one, first), (two, second) = operands if b.chance(0.6) else operands[::-1]
    return b.node("Einsum", [one, two], equation=f"{''.join(first)},{''.join(second)}->{''.join(made)}")


def choice(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Where by a stored mask, of a value and another of its shape, or a constant."""
    if x.rank < 1:
        return None
    mask = b.weight(np.asarray(b.rng.random([size if b.chance(0.6) else 1 for size in x.shape]) < 0.5), "mask")
    alike = [value.name for value in b.values if value.shape == x.shape and value.dtype == x.dtype]
    constant = b.weight(b.numbers([size if b.chance(0.5) else 1 for size in x.shape]))
    operands = [x.name, b.pick(alike) if b.chance(0.5) else constant]
    return b.node("Where", [mask, *(operands if b.chance(0.5) else operands[::-1])])
