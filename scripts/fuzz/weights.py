"""How a graph under construction stores a weight in an indirect form: shared with another one, or quantised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bnfold.analysis.quantizing import spread
from fuzz.builder import Array, Builder

KINDS = (
    (TensorProto.INT8, 10, 127), (TensorProto.UINT8, 10, 127), (TensorProto.INT8, 13, 127),
    (TensorProto.INT32, 13, 1 << 20), (TensorProto.FLOAT8E4M3FN, 19, 448), (TensorProto.FLOAT8E5M2, 19, 1 << 15),
    (TensorProto.INT16, 21, 1 << 14), (TensorProto.UINT16, 21, 32767), (TensorProto.INT4, 21, 7),
    (TensorProto.UINT4, 21, 7),
)  # fmt: skip
"""Element type, the opset since which DequantizeLinear takes it, and the largest number beside its zero point."""
UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT4)


class VariedBuilder(Builder):
    """A builder that stores some weights in an indirect form."""

    def varied(self, array: Array, kind: float) -> str | None:
        if kind > 0.92 and self.opset >= 10 and array.size and np.isfinite(array).all():
            return quantised(self, array)
        if kind > 0.88 and (name := tied(self, array)):
            return name
        return narrow(self, array) if self.dtype == TensorProto.DOUBLE else None


def tied(b: Builder, array: Array) -> str | None:
    """Share a stored weight of a suitable shape, perhaps transposed."""
    for tensor in (b.weights[index] for index in b.rng.permutation(len(b.weights))):
        stored = numpy_helper.to_array(tensor)
        if stored.dtype != array.dtype or ((array > 0).all() and not (stored > 0).all()):
            continue
        if stored.shape == array.shape:
            return str(tensor.name)
        if stored.ndim == 2 and stored.shape[::-1] == array.shape:
            return _node(b, "Transpose", [tensor.name], array, perm=[1, 0])
    return None


def narrow(b: Builder, array: Array) -> str:
    """Store in float32, perhaps as a product, and cast to the type of the graph."""
    factor = np.asarray(b.pick([1.0, 0.3]), np.float32)
    made = b.weight((array / factor).astype(np.float32), "narrow")
    if factor != 1:
        made = _node(b, "Mul", [made, b.weight(factor, "narrow")], array.astype(np.float32))
    return _node(b, "Cast", [made], array, to=b.dtype)


def quantised(b: Builder, array: Array) -> str:
    """Store before a DequantizeLinear, with carriers around it; or in float16, before a Cast."""
    if b.dtype != TensorProto.FLOAT16 and b.chance(0.2):
        return _node(b, "Cast", [b.weight(array.astype(np.float16), "h")], array, to=b.dtype)
    store_behind, carry_behind = _carrier(b, array)
    shown = store_behind(array)
    if b.chance(0.4):
        made = carry_behind(_trained(b, shown.astype(np.float32)), array.astype(np.float32))
        return made if array.dtype == np.float32 else _node(b, "Cast", [made], array, to=b.dtype)
    store_before, carry_before = _carrier(b, shown)
    numbers, parameters, attributes = _quantise(b, shown)
    made = carry_before(b.weight(store_before(numbers), "q"), numbers)
    operands = [made, *(b.weight(parameter, "qp") for parameter in parameters)]
    made = _node(b, "DequantizeLinear", operands, shown.astype(np.float32), **attributes)
    made = carry_behind(made, array.astype(np.float32))
    return made if array.dtype == np.float32 else _node(b, "Cast", [made], array, to=b.dtype)


def _trained(b: Builder, array: Array) -> str:
    """Quantise and dequantise floats, as quantisation-aware training leaves them, perhaps clipped."""
    numbers, grid, attributes = _quantise(b, array)
    while numbers.dtype.name not in ("int8", "uint8", "int16", "uint16", "int4", "uint4"):
        numbers, grid, attributes = _quantise(b, array)
    if numbers.dtype != np.uint8 and len(grid) == 1:
        grid.append(np.zeros(grid[0].shape, numbers.dtype))
    if b.chance(0.4):
        array = _between_integers(b, array, grid, attributes)
    stored, operands = b.weight(array, "f"), [b.weight(each, "qp") for each in grid]
    if b.opset >= 12 and b.chance(0.2):
        bound = np.abs(array).max(initial=0.0).astype(np.float32) * np.float32(0.8)
        stored = _node(b, "Clip", [stored, b.weight(-bound, "f"), b.weight(bound, "f")], array)
    made = _node(b, "QuantizeLinear", [stored, *operands], numbers, **attributes)
    if b.opset >= 12 and numbers.dtype == np.int8 and b.chance(0.2):
        bounds = [b.weight(np.array(each, np.int8), "f") for each in (-127, 127)]
        made = _node(b, "Clip", [made, *bounds], numbers)
    if b.chance(0.5):
        operands = [b.weight(each, "qp") for each in grid]
    return _node(b, "DequantizeLinear", [made, *operands], array, **attributes)


def _between_integers(b: Builder, array: Array, grid: list[Array], attributes: dict[str, Any]) -> Array:
    """Draw weights that rounding decides; or scales that include the largest number, as calibration leaves them."""
    whole = spread(grid[0], array.shape, attributes.get("axis", 0), attributes.get("block_size", 0))
    if b.chance(0.5):
        return np.asarray((np.floor(array / whole) + 0.5) * whole, np.float32)
    largest = np.rint(np.abs(array / whole).max(initial=1.0))
    grid[0] = np.asarray(grid[0] * (largest / (largest + 0.5)), np.float32)
    return array


def _carrier(b: Builder, array: Array) -> tuple[Callable[[Array], Array], Callable[[str, Array], str]]:
    """Choose the stored form of an array; return it with a function that appends the node which restores the array."""
    kind = b.rng.random()
    if kind < 0.25:
        perm = [int(axis) for axis in b.rng.permutation(array.ndim)]
        return lambda a: a.transpose(np.argsort(perm)), lambda name, a: _node(b, "Transpose", [name], a, perm=perm)
    if kind < 0.4:
        shape = b.pick([[-1], [1, *array.shape]])
        return lambda a: a.reshape(shape), lambda name, a: _node(b, "Reshape", [name, b.integers(a.shape)], a)
    if kind < 0.5:
        return lambda a: a, lambda name, a: _node(b, "Identity", [name], a)
    return lambda a: a, lambda name, _: name


def _quantise(b: Builder, array: Array) -> tuple[Array, list[Array], dict[str, Any]]:
    """Return the array in a drawn type; scale and zero point, for all or by channel; and the attributes."""
    dtype, _, largest = b.pick([kind for kind in KINDS if kind[1] <= b.opset])
    by_channel = array.ndim > 0 and b.opset >= 13 and b.chance(0.5)
    axis = int(b.rng.integers(array.ndim)) if by_channel else 0
    if by_channel and b.opset >= 21 and b.chance(0.4):
        return _by_block(b, array, axis, dtype, largest)
    others = tuple(other for other in range(array.ndim) if not by_channel or other != axis)
    spread = np.abs(array.astype(np.float64)).max(others, keepdims=True, initial=0)
    scale = np.where(spread > 0, spread / largest, 1).astype(np.float32)
    zero = np.zeros(scale.shape)
    if dtype in (TensorProto.INT8, *UNSIGNED):
        zero = b.rng.integers(-2, 3, scale.shape) + (largest + 1 if dtype in UNSIGNED else 0)
    shape = [array.shape[axis]] if by_channel else []
    parameters = [scale.reshape(shape)]
    if zero.any() or (dtype != TensorProto.INT32 and b.chance(0.5)):
        parameters.append(zero.reshape(shape).astype(helper.tensor_dtype_to_np_dtype(dtype)))
    return _rounded(array / scale + zero, dtype, largest), parameters, {"axis": axis} if by_channel else {}


def _by_block(
    b: Builder, array: Array, axis: int, dtype: int, largest: int
) -> tuple[Array, list[Array], dict[str, Any]]:
    """Quantise as `_quantise`, with a scale for each block of some elements along ``axis``."""
    block = int(b.rng.integers(1, array.shape[axis] + 1))
    starts = range(0, array.shape[axis], block)
    spread = np.maximum.reduceat(np.abs(array.astype(np.float64)), starts, axis)
    scale = np.where(spread > 0, spread / largest, 1).astype(np.float32)
    zero = np.full(scale.shape, largest + 1 if dtype in UNSIGNED else 0)
    whole, centre = (np.repeat(each, block, axis).take(range(array.shape[axis]), axis) for each in (scale, zero))
    parameters = [scale, zero.astype(helper.tensor_dtype_to_np_dtype(dtype))][: 2 if zero.any() else 1]
    return _rounded(array / whole + centre, dtype, largest), parameters, {"axis": axis, "block_size": block}


def _rounded(numbers: Array, dtype: int, largest: int) -> Array:
    """Round as a type stores the numbers."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if dtype not in (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2):
        low, high = (0, 2 * largest + 1) if dtype in UNSIGNED else (-largest - 1, largest)
        numbers = np.clip(np.rint(numbers), low, high)
    return np.asarray(numbers).astype(kind)


def _node(b: Builder, op_type: str, inputs: list[str], made: Array, **attributes: Any) -> str:
    return b.derive(op_type, inputs, helper.np_dtype_to_tensor_dtype(made.dtype), made.shape, **attributes)
