"""QuantizeLinear to integers of 2 to 16 bits, DequantizeLinear of any type, and integer products."""

# ruff: noqa: ARG001 - every kernel takes the call, whether its node has something to say or not

from __future__ import annotations

import numpy as np
import onnx

from bnfold.ir.elements import Array
from bnfold.reference.kernels.conv import conv
from bnfold.reference.kernels.create import SMALL_FLOATS, saturated
from bnfold.reference.registry import Call, KernelDeclined, KernelResult, kernel, normal_axis, require

TP = onnx.TensorProto
_LIMITS = {
    "INT2": (-2, 1),
    "INT4": (-8, 7),
    "INT8": (-128, 127),
    "INT16": (-32768, 32767),
    "UINT2": (0, 3),
    "UINT4": (0, 15),
    "UINT8": (0, 255),
    "UINT16": (0, 65535),
}
_RANGES = {TP.DataType.Value(name): limits for name, limits in _LIMITS.items() if name in TP.DataType.keys()}  # noqa: SIM118 - no mapping


def _along_axis(call: Call, x: Array, parameter: Array) -> Array:
    """Compute A scale or zero point shaped to broadcast onto ``x``.

    One for all, one a slice of ``axis``, or one a block.
    """
    if parameter.size == 1 and parameter.ndim <= 1:
        return parameter.reshape(())
    axis = normal_axis(call.attr("axis", 1), x.ndim)
    block = call.attr("block_size", 0)
    if parameter.ndim == 1 and not block:
        require(len(parameter) == x.shape[axis], f"{len(parameter)} scales or zero points for {x.shape[axis]} slices")
        return parameter.reshape(-1, *(1,) * (x.ndim - axis - 1))
    blocks = [-(-n // block) if block and place == axis else n for place, n in enumerate(x.shape)]
    fits = block > 0 and parameter.shape == tuple(blocks)
    require(fits, f"scale or zero point of shape {parameter.shape} for an input of shape {x.shape}")
    return np.take(np.repeat(parameter, block, axis), np.arange(x.shape[axis]), axis)


@kernel("DequantizeLinear", 10, 13, 19, 21, 23, 24, 25, 28)
def dequantize_linear(call: Call, x: Array, scale: Array, zero: Array | None = None) -> KernelResult:
    """Compute (x − zero) · scale."""
    centred = x.astype(np.float64)
    if zero is not None:
        centred = centred - _along_axis(call, x, zero.astype(np.float64))
    y = centred * _along_axis(call, x, scale)
    code = call.attr("output_dtype", 0)
    return y.astype(call.dtype(code) if code else scale.dtype)


@kernel("QuantizeLinear", 10, 13, 19, 21, 23, 24, 25, 28)
def quantize_linear(call: Call, x: Array, scale: Array, zero: Array | None = None) -> KernelResult:
    """Compute round(x / scale) + zero, halves to even, saturated. The quotient is float32, as in every runtime.

    It may tie. Nothing is rounded before, so that the result equals that of a Div and a Round.
    """
    code = call.attr("output_dtype", 0) or (
        TP.UINT8 if zero is None else onnx.helper.np_dtype_to_tensor_dtype(zero.dtype)
    )
    target = call.dtype(code)
    require(code in _RANGES or code in SMALL_FLOATS, f"values of type {target}", KernelDeclined)
    quotient = x.astype(np.float64) / _along_axis(call, x, scale).astype(np.float64)
    y = quotient.astype(np.float32)
    y = np.rint(y) if code in _RANGES else y
    if zero is not None:
        y = y + _along_axis(call, x, zero.astype(np.float64))
    if code in SMALL_FLOATS:
        return saturated(call, y, code)
    return np.clip(y, *_RANGES[code]).astype(target)


def _plain(x: Array, zero: Array | None, shape: tuple[int, ...] = ()) -> Array:
    """Subtract from integers their zero point, exactly; ``shape`` aligns a zero point of several elements."""
    wide = x.astype(np.float64)
    if zero is None:
        return wide
    return np.asarray(wide - zero.astype(np.float64).reshape(() if zero.size == 1 else shape))


def _requantised(total: Array, factor: Array, zero: Array) -> KernelResult:
    """Return rounded to the type of the zero point, halves to even, saturated. The product is float32."""
    limits = np.iinfo(zero.dtype)
    scaled = (total * factor.astype(np.float64)).astype(np.float32)
    return np.clip(np.rint(scaled) + zero.astype(np.float64), limits.min, limits.max).astype(zero.dtype)


def _factor(first: Array, second: Array, result: Array) -> Array:
    """Return what a sum of integers is multiplied by, in float32 as runtimes compute it."""
    factor: Array = first.astype(np.float32) * second.astype(np.float32) / result.astype(np.float32)
    return factor


@kernel("ConvInteger", 10)
def conv_integer(
    call: Call, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None
) -> KernelResult:
    """Return the convolution of integers, as int32; zero points of the weight may be one an output channel."""
    return conv(call, _plain(x, x_zero), _plain(w, w_zero, (-1, *(1,) * (w.ndim - 1)))).astype(np.int32)


@kernel("MatMulInteger", 10)
def matmul_integer(
    call: Call, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> KernelResult:
    """Return the product of integers, as int32; zero points may be one a row of A, one a column of B."""
    return (_plain(a, a_zero, (-1, 1)) @ _plain(b, b_zero, (1, -1))).astype(np.int32)


@kernel("QLinearConv", 10)
def qlinear_conv(call: Call, *tensors: Array) -> KernelResult:
    """Convolve X, its scale and zero point, W and its, Y's, a bias in units of both scales' product."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = tensors[:8]
    lanes = (-1, *(1,) * (x.ndim - 2))
    total = conv(call, _plain(x, x_zero), _plain(w, w_zero, (-1, *(1,) * (w.ndim - 1))))
    if len(tensors) > 8:
        total = total + tensors[8].astype(np.float64).reshape(lanes)
    factor = _factor(x_scale, w_scale, y_scale)
    return _requantised(total, factor.reshape(lanes if factor.size > 1 else ()), y_zero)


@kernel("QLinearMatMul", 10, 21)
def qlinear_matmul(call: Call, *tensors: Array) -> KernelResult:
    """Compute A, its scale and zero point (or one a row), B and its (or one a column), Y's scale and zero point."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = tensors
    require(max(y_scale.size, y_zero.size) == 1, "a scale or zero point of the result for every row", KernelDeclined)
    rows, columns = (
        scale.reshape(() if scale.size == 1 else shape) for scale, shape in ((a_scale, (-1, 1)), (b_scale, (1, -1)))
    )
    total = _plain(a, a_zero, (-1, 1)) @ _plain(b, b_zero, (1, -1))
    return _requantised(total, _factor(rows, columns, y_scale.reshape(())), y_zero.reshape(()))
