"""Operators that lower opsets lack, and that other operators are put together for: drawn with what decides there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from fuzz.builder import Builder, Drawn
from fuzz.operators import Draw


def floats(b: Builder, name: str) -> list[Drawn]:
    return b.node("Cast", [name], to=b.dtype)


def computed(b: Builder, x: Drawn, numbers: Any) -> str:
    """Append integers that nothing but a run finds: constants and a zero that is made of ``x``."""
    nothing = b.node("Sub", [x.name, x.name])[0]
    zero = b.node("Cast", [b.node("ReduceMax", [nothing.name], keepdims=0)[0].name], to=TensorProto.INT64)[0]
    return b.node("Add", [zero.name, b.weight(np.asarray(numbers, np.int64), "i")])[0].name


def sampled(b: Builder, x: Drawn) -> list[Drawn] | None:
    if (
        x.rank not in (4, 5)
        or b.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE)
        or (x.rank, b.opset < 20) == (5, 1)
    ):
        return None
    new = b.opset >= 20
    mode = b.pick(["nearest", "linear", "cubic"] if x.rank == 4 else ["nearest", "linear"])
    if not new:
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    grid = b.numbers((x.shape[0], *b.rng.integers(1, 4, x.rank - 2), x.rank - 2), -1.5, 1.5)
    padding = "zeros" if mode.endswith("cubic") else b.pick(["zeros", "border", "reflection"])
    how: dict[str, Any] = {"mode": mode, "padding_mode": padding, "align_corners": int(b.chance(0.5))}
    return b.node("GridSample", [x.name, b.weight(grid, "grid")], **how)


def averaged(b: Builder, x: Drawn) -> list[Drawn] | None:
    if x.rank not in (3, 4) or b.opset < 19:
        return None
    axes = range(x.rank - 2)
    dilations = [int(b.rng.integers(1, 3)) for _ in axes]  # no window is larger than a dynamic size, which is 3
    kernel = [min(2, 1 + (size - 1) // step) for size, step in zip(x.shape[2:], dilations, strict=True)]
    pads = [int(b.rng.integers(0, size)) for size in kernel] * 2  # runtimes take no padding as large as a window
    how: dict[str, Any] = {"ceil_mode": int(b.chance(0.3)), "count_include_pad": int(b.chance(0.5))}
    strides = [int(b.rng.integers(1, 3)) for _ in axes]
    return b.node("AveragePool", [x.name], kernel_shape=kernel, dilations=dilations, strides=strides, pads=pads, **how)


def last_place(b: Builder, x: Drawn) -> list[Drawn] | None:
    few = b.node("Round", [x.name])[0]
    how: dict[str, Any] = {"axis": int(b.rng.integers(-x.rank, x.rank)), "keepdims": int(b.chance(0.5))}
    return floats(b, b.node(b.pick(["ArgMax", "ArgMin"]), [few.name], select_last_index=1, **how)[0].name)


def rounded(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Round of numbers that often lie half way between two integers."""
    halves = b.node("Round", [b.node("Mul", [x.name, b.weight(b.numbers([], 1, 8))])[0].name])[0]
    return b.node("Round", [b.node("Mul", [halves.name, b.weight(b.numbers([], 0.5, 0.5))])[0].name])


def thresholded(b: Builder, x: Drawn) -> list[Drawn] | None:
    return b.node("ThresholdedRelu", [x.name], alpha=float(b.rng.uniform(-1, 1)))


def infinite(b: Builder, x: Drawn) -> list[Drawn] | None:
    if b.dtype == TensorProto.FLOAT16 and b.opset < 20:
        return None
    huge = b.node("Div", [x.name, b.node("Relu", [x.name])[0].name])[0]
    how = {f"detect_{side}": int(b.chance(0.7)) for side in ("negative", "positive")}
    return floats(b, b.node("IsInf", [huge.name], **how)[0].name)


def scattered(b: Builder, x: Drawn) -> list[Drawn] | None:
    axis = int(b.rng.integers(-x.rank, x.rank))
    shape = [*x.shape]
    shape[axis] = 1
    places = b.rng.integers(-x.shape[axis], x.shape[axis], shape)
    index = b.weight(places.astype(b.pick([np.int32, np.int64])), "i") if b.chance(0.5) else computed(b, x, places)
    return b.node("ScatterElements", [x.name, index, b.weight(b.numbers(shape))], axis=axis)


def bits(b: Builder, x: Drawn) -> list[Drawn] | None:
    kind = b.pick([TensorProto.INT32, TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16])
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    number = b.weight(b.rng.integers(0, 100, x.shape[x.rank // 2 :]).astype(dtype), "i")
    if kind == TensorProto.UINT8 and b.chance(0.5):
        x = b.node("Abs", [x.name])[0]
        places = b.weight(b.rng.integers(0, 7, x.shape[-1:]).astype(dtype), "i")
        narrow = b.node("Cast", [x.name], to=kind)[0]
        return floats(b, b.node("BitShift", [narrow.name, places], direction=b.pick(["LEFT", "RIGHT"]))[0].name)
    if kind == TensorProto.UINT8:
        x = b.node("Abs", [x.name])[0]
    narrow = b.node("Cast", [b.node("Mul", [x.name, b.weight(b.numbers([], 5, 20))])[0].name], to=kind)[0]
    return floats(b, b.node(b.pick(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [narrow.name, number])[0].name)


def axes(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append an Unsqueeze or a running sum along an axis that is computed."""
    if b.chance(0.5):
        axis = int(b.rng.integers(-x.rank - 1, x.rank + 1))
        shape: Sequence[int] = np.expand_dims(np.empty(x.shape), axis).shape
        made = b.derive("Unsqueeze", [x.name, computed(b, x, [axis])], b.dtype, shape)
    elif b.dtype == TensorProto.FLOAT16:
        return None
    else:
        how: dict[str, Any] = {"exclusive": int(b.chance(0.5)), "reverse": int(b.chance(0.5))}
        shape, axis = x.shape, int(b.rng.integers(-x.rank, x.rank))
        made = b.derive("CumSum", [x.name, computed(b, x, axis)], b.dtype, shape, **how)
    b.values.append(Drawn(made, b.dtype, tuple(shape)))
    return [b.values[-1]]


def clipped(b: Builder, x: Drawn) -> list[Drawn] | None:
    """Append a Clip between bounds that the model computes."""
    least, most = (b.node(op_type, [x.name], keepdims=0)[0].name for op_type in ("ReduceMean", "ReduceMax"))
    half = b.node("Mul", [most, b.weight(b.numbers([], 0, 1))])[0].name
    return b.node("Clip", [x.name, *b.pick([[least], [least, half], ["", half], [half, least]])])


def quantized(b: Builder, x: Drawn) -> list[Drawn] | None:
    if b.dtype != TensorProto.FLOAT:
        return None
    # Integers come to lie half way between two steps, which float64 and float32 round to different ones.
    uneven = b.node("Add", [x.name, b.weight(b.numbers(x.shape))])[0]
    made = b.node("DynamicQuantizeLinear", [uneven.name], 3)
    return b.node("DequantizeLinear", [value.name for value in made])


TABLE: tuple[Draw, ...] = (
    *(sampled, averaged, last_place, rounded, thresholded, infinite, scattered, bits, axes, clipped, quantized),
)
