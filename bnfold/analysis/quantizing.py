"""QuantizeLinear and DequantizeLinear of constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from bnfold.analysis.evaluators import EVALUATORS, Operands, computed, need
from bnfold.ir.node import Node
from bnfold.ir.tensor import FLOATS, TP, Array, Float64, InMemory, Tensor


def layout(node: Node) -> tuple[int, int]:
    """Return the axis of scales and zero points of a (De)QuantizeLinear, and the size of a block, 0 for none."""
    return int(node.attr("axis", 1)), int(node.attr("block_size", 0))


def spread(parameter: Array, dims: tuple[int, ...], axis: int, block: int) -> Array:
    """Return a scale or zero point, for all, by axis or by block, to broadcast onto what is quantised, of ``dims``.

    Raises ValueError where it does not fit.
    """
    if parameter.size == 1 and parameter.ndim <= 1:
        return parameter.reshape(())
    axis += len(dims) if axis < 0 else 0
    if block:
        stretched = np.repeat(parameter, block, axis)
        whole = stretched[(*[slice(None)] * axis, slice(dims[axis]))]
        fits = whole.shape == dims and stretched.shape[axis] - dims[axis] < block
    else:
        whole = parameter.reshape(-1, *(1,) * (len(dims) - axis - 1))
        fits = np.broadcast_shapes(whole.shape, dims) == dims
    if not fits or axis >= len(dims):
        raise ValueError("a scale or zero point of another shape, or along an axis that there is not")
    return whole


def dequantize(node: Node, operands: Operands) -> Tensor | None:
    """Dequantize any type to the float type of the scale."""
    source, scale = need(operands, 0), need(operands, 1)
    if node.attr("output_dtype", 0) not in (0, scale.dtype) or scale.dtype not in FLOATS:
        return None
    third = operands[2] if len(operands) > 2 else None
    if third is not None and (third.dtype != source.dtype or third.size > scale.size):
        return None  # no runtime takes it
    place = layout(node)

    def widen(numbers: Float64, factors: Float64, *zeros: Float64) -> Float64:
        centre = spread(zeros[0], numbers.shape, *place) if zeros else 0.0
        widened: Float64 = (numbers - centre) * spread(factors, numbers.shape, *place)
        return widened

    return computed(scale.dtype, widen, source, scale, *([third] if third is not None else []))


_ROUNDED = frozenset({"int4", "uint4", "int8", "uint8", "int16", "uint16"})


def quantize(node: Node, operands: Operands) -> Tensor | None:
    """Quantize float32 to integers, as `rounded` has it."""
    source, scale = need(operands, 0), need(operands, 1)
    zero = operands[2] if len(operands) > 2 else None
    code = int(node.attr("output_dtype", 0)) or (zero.dtype if zero is not None else TP.UINT8)
    if {source.dtype, scale.dtype, int(node.attr("precision", 0)) or TP.FLOAT} != {TP.FLOAT}:
        return None
    if zero is not None and (zero.dtype != code or zero.size > scale.size):
        return None
    from onnx import helper

    kind = helper.tensor_dtype_to_np_dtype(code)
    if kind.name not in _ROUNDED:
        return None
    centre = np.zeros(()) if zero is None else spread(zero.float64(), source.dims, *layout(node))
    return InMemory(code, rounded(source.numpy(), spread(scale.numpy(), source.dims, *layout(node)), centre, kind))


def rounded(values: Array, scale: Array, centre: Float64, kind: np.dtype[Any]) -> Array:
    """Return ``round(values / scale) + centre``, halves to even, saturated.

    Raises ValueError where something is not finite.

    Divided in the type that ``values`` and ``scale`` have: one step further may be what rounding makes of another one.
    """
    import ml_dtypes

    with np.errstate(all="ignore"):
        numbers = np.rint(values / scale) + centre
    if not np.isfinite(numbers).all():
        raise ValueError("nothing that can be rounded")
    limits = ml_dtypes.iinfo(kind)
    return np.clip(numbers, float(limits.min), float(limits.max)).astype(kind)


EVALUATORS.update(DequantizeLinear=dequantize, QuantizeLinear=quantize)
