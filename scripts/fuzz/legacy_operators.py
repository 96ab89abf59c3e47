"""Operators in the versions of old opsets, one entry each: the vocabulary of `fuzz.legacy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from fuzz.builder import Builder, Drawn
from fuzz.near import alike, two_open
from fuzz.operators import Draw
from fuzz.positions import mask, positions
from fuzz.scopes import looped, one_branch, scanned

LARGEST = 4000
"""Number of elements above which no node is added to a value."""


def _axis(b: Builder, x: Drawn, since: int = 11) -> int:
    axis = int(b.rng.integers(x.rank))
    return axis - x.rank if b.opset >= since and b.chance(0.3) else axis


def unary(b: Builder, x: Drawn) -> list[Drawn] | None:
    old: dict[str, Any] = {"consumed_inputs": [0]} if b.opset < 6 and b.chance(0.5) else {}
    op = b.pick(["Relu", "Abs", "Exp", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Neg", "Floor"])
    return b.node(op, [x.name], **({} if op == "HardSigmoid" and b.opset >= 6 else old))


def broadcast(b: Builder, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["Add", "Sub", "Mul", "Div", "Pow"] if b.chance(0.9) else ["PRelu"])
    if op == "PRelu":
        return b.node(op, [x.name, b.weight(b.numbers([x.shape[1]] if x.rank > 1 else [1]))])
    if b.opset >= 7:
        shape = [size if b.chance(0.5) else 1 for size in x.shape]
        return b.node(op, [x.name, b.weight(b.numbers(shape[int(b.rng.integers(x.rank)) :], 0.5, 2))])
    if b.chance(0.3):
        return b.node(op, [x.name, b.weight(b.numbers(x.shape, 0.5, 2))])
    start = int(b.rng.integers(x.rank))
    stop = int(b.rng.integers(start, x.rank)) + 1
    attributes: dict[str, Any] = {"axis": start} if stop < x.rank or b.chance(0.5) else {}
    return b.node(op, [x.name, b.weight(b.numbers(x.shape[start:stop], 0.5, 2))], broadcast=1, **attributes)


def merge(b: Builder, x: Drawn) -> list[Drawn] | None:
    same = [value.name for value in b.values if value.shape == x.shape and value.dtype == x.dtype]
    op = b.pick(["Sum", "Max", "Min", "Mean", "Add", "Concat"])
    parts = [x.name, b.pick(same)]
    if op == "Concat":
        default = b.opset < 4 and x.rank > 1 and b.chance(0.3)
        return b.node(op, parts, **({} if default else {"axis": _axis(b, x)}))
    return b.node(op, parts)


def softmax(b: Builder, x: Drawn) -> list[Drawn] | None:
    attributes: dict[str, Any] = {"axis": _axis(b, x)} if b.chance(0.7) else {}
    return b.node(b.pick(["Softmax", "LogSoftmax", "Hardmax"]), [x.name], **attributes)


def batchnorm(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 2:
        return None
    attributes: dict[str, Any] = {"epsilon": b.pick([1e-5, 1e-2])}
    spatial = b.opset >= 9 or b.chance(0.7)
    if b.opset < 9 and (not spatial or b.chance(0.3)):
        attributes["spatial"] = int(spatial)
    if b.opset < 7:
        attributes["is_test"] = 1
    if b.opset < 6:
        attributes["consumed_inputs"] = [0, 0, 0, 1, 1]
    shape = [x.shape[1]] if spatial else list(x.shape[1:])
    arrays = [b.numbers(shape), b.numbers(shape), b.numbers(shape), b.numbers(shape, 0.5, 2)]
    return b.node("BatchNormalization", [x.name, *(b.weight(array, "bn") for array in arrays)], **attributes)


def training(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append statistics as outputs, and a consumer of them."""
    if x.rank < 2:
        return None
    attributes: dict[str, Any] = {"momentum": b.pick([0.9, 0.5])}
    if b.opset < 6:
        attributes["consumed_inputs"] = [0, 0, 0, 1, 1]
    if b.opset < 7:
        attributes["is_test"] = 0
    if b.opset >= 14:
        attributes["training_mode"] = 1
    arrays = [b.numbers([x.shape[1]]) for _ in range(3)] + [b.numbers([x.shape[1]], 0.5, 2)]
    inputs = [x.name, *(b.weight(array, "bn") for array in arrays)]
    return b.node("BatchNormalization", inputs, 3 if b.opset >= 14 else int(b.pick([3, 5])), **attributes)[:3]


def instancenorm(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 3:
        return None
    old: dict[str, Any] = {"consumed_inputs": [0]} if b.opset < 6 else {}
    return b.node("InstanceNormalization", [x.name, *(b.weight(b.numbers([x.shape[1]])) for _ in range(2))], **old)


def reduce(b: Builder, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"])
    axes = sorted(int(axis) for axis in b.rng.choice(x.rank, int(b.rng.integers(1, x.rank + 1)), replace=False))
    keepdims = int(b.chance(0.7))
    if op == "ReduceSum" and b.opset >= 13:
        return b.node(op, [x.name, b.integers(axes)], keepdims=keepdims)
    chosen: dict[str, Any] = {"axes": axes} if b.chance(0.8) else {}
    return b.node(op, [x.name], keepdims=keepdims, **chosen)


def layout(b: Builder, x: Drawn) -> list[Drawn] | None:
    op = b.pick(["Transpose", "Flatten", "Reshape", "Unsqueeze", "Squeeze"])
    if op == "Transpose":
        return b.node(op, [x.name], perm=[int(axis) for axis in b.rng.permutation(x.rank)])
    if op == "Flatten":
        return b.node(op, [x.name], axis=int(b.rng.integers(0, x.rank + 1)))
    if op == "Reshape":
        shape = [0, -1] if x.rank > 1 and b.chance(0.5) else [-1, x.shape[-1]]
        if b.opset < 5:
            return b.node(op, [x.name], shape=shape)
        return b.node(op, [x.name, b.integers(shape)])
    axes = [int(b.rng.integers(x.rank))]
    if op == "Squeeze":
        axes = [axis for axis, size in enumerate(x.shape) if size == 1][:1]
        if not axes or x.rank < 2:
            return None
    return b.node(op, [x.name, b.integers(axes)]) if b.opset >= 13 else b.node(op, [x.name], axes=axes)


def window(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    start, end = int(b.rng.integers(x.shape[axis])), int(b.pick([x.shape[axis], 1000, -1]))
    if end == -1 and start >= x.shape[axis] - 1:
        return None
    if b.opset < 10:
        return b.node("Slice", [x.name], axes=[axis], starts=[start], ends=[end])
    return b.node("Slice", [x.name, *(b.integers([number]) for number in (start, end, axis))])


def pad(b: Builder, x: Drawn) -> list[Drawn] | None:
    pads = [int(b.rng.integers(0, 3)) for _ in range(2 * x.rank)]
    mode = b.pick(["constant", "constant", "edge", "reflect"])
    if b.opset >= 11:
        return b.node("Pad", [x.name, b.integers(pads)], mode=mode)
    amounts: dict[str, Any] = {"pads" if b.opset > 1 else "paddings": pads}
    return b.node("Pad", [x.name], mode=mode, value=b.pick([0.0, 1.5]), **amounts)


def clip(b: Builder, x: Drawn) -> list[Drawn] | None:
    low, high = (1.0, 0.25) if b.chance(0.1) else (-0.5, 0.75)
    if b.opset >= 11:
        bounds = [b.pick([b.weight(np.array(bound, np.float32)), ""]) for bound in (low, high)]
        return b.node("Clip", [x.name, *bounds[: int(b.rng.integers(3))]])
    attributes: dict[str, Any] = {"min": low} if b.chance(0.7) else {}
    return b.node("Clip", [x.name], **attributes | ({"max": high} if b.chance(0.7) else {}))


def split(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    if x.shape[axis] < 2:
        return None
    sizes = [1, x.shape[axis] - 1]
    if b.opset >= 13:
        return b.node("Split", [x.name, b.integers(sizes)], 2, axis=axis)
    if b.opset < 2 and b.chance(0.5):
        return b.node("Split", [x.name, b.integers(sizes)], 2, axis=axis)
    return b.node("Split", [x.name], 2, axis=axis, split=sizes)


def dropout(b: Builder, x: Drawn) -> list[Drawn] | None:
    if b.opset >= 12:
        return b.node("Dropout", [x.name, b.weight(np.array(0.3, np.float32))] if b.chance(0.5) else [x.name])
    attributes: dict[str, Any] = {"ratio": 0.3} | ({"is_test": 1} if b.opset < 7 else {})
    return b.node("Dropout", [x.name], **attributes)


def enlarge(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank != 4 or np.prod(x.shape) > LARGEST / 6:
        return None
    mode = b.pick(["nearest", "linear", "bilinear"])
    high, wide = (b.pick([factor, factor, factor, 1.0, factor + 0.001, factor - 0.5]) for factor in (2.0, 3.0))
    scales = np.array([1, 1, high, wide], np.float32)
    if b.opset < 7:
        mode = "nearest" if mode == "linear" else mode
        return b.node("Upsample", [x.name], height_scale=high, width_scale=wide, mode=mode)
    mode = "linear" if mode == "bilinear" else mode
    if b.opset < 9:
        return b.node("Upsample", [x.name], scales=[1.0, 1.0, high, wide], mode=mode)
    if b.opset < 11:
        return b.node("Upsample" if b.opset < 10 else "Resize", [x.name, b.weight(scales, "scales")], mode=mode)
    roi = b.weight(np.zeros(0, np.float32), "roi")
    how = b.pick(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
    extra: dict[str, Any] = (
        {"nearest_mode": b.pick(["floor", "ceil", "round_prefer_floor"])} if mode == "nearest" else {}
    )
    inputs = [x.name, roi, b.weight(scales, "scales")]
    return b.node("Resize", inputs, mode=mode, coordinate_transformation_mode=how, **extra)


def linear(b: Builder, x: Drawn) -> list[Drawn] | None:
    columns = 3
    if x.rank == 2 and b.chance(0.7):
        attributes: dict[str, Any] = {"transB": 1} | ({"broadcast": 1} if b.opset < 7 else {})
        inputs = [x.name, b.weight(b.numbers([columns, x.shape[1]])), b.weight(b.numbers([columns]))]
        return b.node("Gemm", inputs, **attributes)
    if x.rank >= 3 and b.chance(0.8):
        kernel = [1] * (x.rank - 2)
        return b.node("Conv", [x.name, b.weight(b.numbers([columns, x.shape[1], *kernel]))], kernel_shape=kernel)
    return b.node("MatMul", [x.name, b.weight(b.numbers([x.shape[-1], columns]))]) if x.rank > 1 else None


def pool(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank < 3 or min(x.shape[2:]) < 2:
        return None
    op = b.pick(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "LRN"])
    if op.startswith("Global"):
        return b.node(op, [x.name])
    if op == "LRN":
        return b.node(op, [x.name], size=3, alpha=0.1, beta=0.75, bias=1.0) if x.rank == 4 else None
    padding: dict[str, Any] = {"auto_pad": "SAME_UPPER"} if b.chance(0.3) and op != "LpPool" else {}
    return b.node(op, [x.name], kernel_shape=[2] * (x.rank - 2), strides=[1] * (x.rank - 2), **padding)


def disputed(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a pooling whose size runtimes and shape inference may compute differently, and a consumer of its size."""
    if x.rank < 3 or min(x.shape[2:]) < 3 or b.opset < 10:
        return None
    op = b.pick(["MaxPool", "MaxPool", "AveragePool"])
    attributes: dict[str, Any] = {name: [int(b.pick([1, 2, 3])) for _ in x.shape[2:]] for name in ("strides",)}
    if op == "MaxPool":
        attributes["dilations"] = [int(b.pick([1, 2])) for _ in x.shape[2:]]
    if b.chance(0.7):
        attributes["auto_pad"] = b.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if b.chance(0.4):
        attributes["ceil_mode"] = 1
    made = b.node(op, [x.name], kernel_shape=[int(b.pick([2, 3])) for _ in x.shape[2:]], **attributes)
    axis = int(b.rng.integers(x.rank))
    return b.node(b.pick(["Softmax", "LogSoftmax", "Hardmax", "Flatten"]), [made[0].name], axis=axis)


def gather(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    indices = b.rng.integers(0, x.shape[axis], b.pick([[2], [2, 2], []]))
    return b.node("Gather", [x.name, b.weight(np.asarray(indices, np.int64))], axis=axis) if x.rank < 5 else None


def compare(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Cast to another type and back."""
    kind: Any = "INT32" if b.opset < 6 else TensorProto.INT32
    back: Any = "FLOAT" if b.opset < 6 else TensorProto.FLOAT
    made = b.node("Cast", [x.name], to=kind)
    return b.node("Cast", [made[0].name], to=back)


def top(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(x.rank))
    if b.opset < 10:
        return b.node("TopK", [x.name], 2, axis=axis, k=1)[:1]
    return b.node("TopK", [x.name, b.integers([1])], 2, axis=axis)[:1]


TABLE: Sequence[Draw] = (
    *[batchnorm] * 4, *[broadcast] * 3, *[reduce] * 2, *[layout] * 3, *[linear] * 2, *[unary] * 2, training,
    *[disputed] * 3, instancenorm, merge, softmax, window, pad, clip, split, dropout, enlarge, pool, gather, compare,
    top, positions, mask, one_branch, looped, scanned, alike, two_open,
)  # fmt: skip
