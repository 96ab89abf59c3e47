"""Weights that are stored as integers, and their consumers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from fuzz.builder import Builder, Drawn
from onnx import TensorProto

from _patterns.parts import given, image, ints, node, norm, weight

Weight = Callable[[Builder], Drawn]


def _stored(
    b: Builder, *dims: int, dtype: Any = np.int8, axis: int | None = None, block: int = 0, zero: int | None = None
) -> Drawn:
    """Store a weight before a DequantizeLinear, with one scale, or one for each slice or block along ``axis``."""
    low, high = (1, 16) if dtype is ml_dtypes.uint4 else (-7, 8) if dtype is ml_dtypes.int4 else (-100, 101)
    numbers = b.weight(b.rng.integers(low, high, dims).astype(dtype))
    shape = [] if axis is None else [dims[axis]]
    if block and axis is not None:
        shape = [-(-size // block) if place == axis else size for place, size in enumerate(dims)]
    parameters = [b.weight(b.rng.uniform(0.01, 0.02, shape).astype(np.float32))]
    parameters += [b.weight(np.full(shape, zero).astype(dtype))] if zero is not None else []
    attributes = {"axis": axis, "block_size": block} if block else {"axis": axis} if axis is not None else {}
    return node(b, "DequantizeLinear", numbers, *parameters, **attributes)


def _conv(weight: Weight) -> Callable[[Builder], Drawn]:
    return lambda b: norm(b, node(b, "Conv", image(b), weight(b)))


def _with_bias(b: Builder) -> Drawn:
    bias = node(
        b, "DequantizeLinear", b.weight(np.arange(-2, 2, dtype=np.int32)), b.weight(np.array(0.004, np.float32))
    )
    return norm(b, node(b, "Conv", image(b), _stored(b, 4, 3, 2, 2, axis=0), bias))


def _trained(b: Builder, *dims: int, axis: int | None = None, clip: bool = False) -> Drawn:
    """Store floats before a QuantizeLinear and a DequantizeLinear, as quantisation-aware training leaves them."""
    shape = [] if axis is None else [dims[axis]]
    attributes = {} if axis is None else {"axis": axis}
    grid = [b.weight(np.full(shape, 0.0125, np.float32)), b.weight(np.zeros(shape, np.int8))]
    q = node(b, "QuantizeLinear", b.weight(b.numbers(dims, -1.5, 1.5)), *grid, **attributes)
    if clip:
        q = node(b, "Clip", q, *(b.weight(np.array(bound, np.int8)) for bound in (-127, 127)))
    return node(b, "DequantizeLinear", q, *grid, **attributes)


def _integers(op_type: str, *, add: bool) -> Callable[[Builder], Drawn]:
    """Append onnxruntime's dynamic quantisation."""

    def build(b: Builder) -> Drawn:
        is_conv = op_type == "ConvInteger"
        x = image(b) if is_conv else given(b, 3, 6)
        q, scale, zero = b.node("DynamicQuantizeLinear", [x.name], outputs=3)
        w = b.weight(b.rng.integers(-100, 101, (4, 3, 2, 2) if is_conv else (6, 4)).astype(np.int8))
        made = node(b, "Cast", node(b, op_type, q, w, zero), to=TensorProto.FLOAT)
        made = node(b, "Mul", made, node(b, "Mul", scale, b.weight(np.array(0.01, np.float32))))
        return norm(b, node(b, "Add", made, weight(b, 4, *([1, 1] if is_conv else []))) if add else made)

    return build


STORED: dict[str, tuple[Callable[[Builder], Drawn], int]] = {
    "Conv, W = DequantizeLinear": (_conv(lambda b: _stored(b, 4, 3, 2, 2, axis=0)), 17),
    "Conv, W = DequantizeLinear, one scale": (_conv(lambda b: _stored(b, 4, 3, 2, 2)), 17),
    "Conv, W = DequantizeLinear, zero point": (_conv(lambda b: _stored(b, 4, 3, 2, 2, axis=0, zero=3)), 17),
    "Conv, W = DequantizeLinear of int4": (
        _conv(lambda b: _stored(b, 4, 3, 2, 2, axis=0, dtype=ml_dtypes.int4)),
        21,
    ),
    "Conv, W = DequantizeLinear → Transpose": (
        _conv(lambda b: node(b, "Transpose", _stored(b, 3, 4, 2, 2), perm=[1, 0, 2, 3])),
        17,
    ),
    "Conv, W = DequantizeLinear → Reshape": (
        _conv(lambda b: node(b, "Reshape", _stored(b, 4, 12, axis=0), ints(b, 4, 3, 2, 2))),
        17,
    ),
    "Conv, W and bias = DequantizeLinear": (_with_bias, 17),
    "ConvTranspose, W = DequantizeLinear": (
        lambda b: norm(b, node(b, "ConvTranspose", image(b), _stored(b, 3, 4, 2, 2, axis=1))),
        17,
    ),
    "Conv, W = QuantizeLinear → DequantizeLinear": (_conv(lambda b: _trained(b, 4, 3, 2, 2, axis=0)), 17),
    "Conv, W = QuantizeLinear → DequantizeLinear, one scale": (_conv(lambda b: _trained(b, 4, 3, 2, 2)), 17),
    "Conv, W = QuantizeLinear → Clip → DequantizeLinear": (
        _conv(lambda b: _trained(b, 4, 3, 2, 2, axis=0, clip=True)),
        17,
    ),
    "ConvInteger → Cast → Mul": (_integers("ConvInteger", add=False), 17),
    "MatMulInteger → Cast → Mul → Add": (_integers("MatMulInteger", add=True), 17),
    "Gemm, W = DequantizeLinear": (lambda b: norm(b, node(b, "Gemm", given(b, 3, 6), _stored(b, 6, 5))), 17),
    "MatMul, W = DequantizeLinear of uint4 in blocks": (
        lambda b: norm(
            b,
            node(b, "MatMul", given(b, 3, 6), _stored(b, 6, 5, axis=0, block=3, dtype=ml_dtypes.uint4, zero=8)),
        ),
        21,
    ),
}
