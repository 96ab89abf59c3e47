"""Operators that took numbers of fewer types in older versions. Integers are never sent through floats."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto
_FLOATS = (TP.FLOAT16, TP.FLOAT, TP.DOUBLE)
_COMPARED = (TP.INT8, TP.INT16, TP.INT32, TP.INT64, TP.UINT8, TP.UINT16, TP.UINT32, TP.UINT64)


def extreme(comparison: str, conversion: NodeConversion) -> None:
    """Convert Max, Min 12 → 8: of integers by comparing two at a time."""
    values = [value for value in conversion.node.inputs if value is not None]
    if not _is_integer(conversion, values[0]):
        return
    if len(values) == 1:
        conversion.become("Identity", values)
        return
    best = values[0]
    for value in values[1:-1]:
        best = _chosen(conversion, comparison, best, value)
    is_first = conversion.add(comparison, [best, values[-1]], "is_first")
    conversion.become("Where", [is_first, best, values[-1]])


def clip(conversion: NodeConversion) -> None:
    """Convert Clip 12 → 11: of integers by comparing with each bound, the lower one first."""
    data, low, high = conversion.input(0), conversion.node.input(1), conversion.node.input(2)
    if not _is_integer(conversion, data):
        return
    if high is None and low is None:
        conversion.become("Identity", [data])
        return
    if high is None or low is None:
        bound, comparison = (low, "Greater") if high is None else (high, "Less")
        assert bound is not None
        conversion.become("Where", [conversion.add(comparison, [data, bound], "is_inside"), data, bound])
        return
    raised = _chosen(conversion, "Greater", data, low)
    conversion.become("Where", [conversion.add("Less", [raised, high], "is_inside"), raised, high])


def power(conversion: NodeConversion) -> None:
    """Convert Pow 12 → 7: an exponent of another type becomes one of the base's, if that holds it exactly."""
    base, exponent = conversion.input(0), conversion.input(1)
    kind = conversion.dtype(base)
    if conversion.dtype(exponent) == kind:
        return
    tensor = ir.constant(exponent)
    if kind not in _FLOATS or tensor is None:
        raise Inexpressible("has an exponent of another type, which is no constant, or an integer base")
    array = tensor.numpy()
    cast = array.astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    if not (cast.astype(np.float64) == array.astype(np.float64)).all():
        raise Inexpressible("has an exponent that its base's type does not hold exactly")
    conversion.node.set_input(1, conversion.constant(cast, "exponent"))
    conversion.touched = True


def complement(conversion: NodeConversion) -> None:
    """Decompose BitwiseNot: ``-1 - x``, or the largest number less ``x`` for unsigned ones."""
    data = conversion.input(0)
    info = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(conversion.dtype(data)))
    ones = np.array(-1 if info.min else info.max, info.dtype)
    conversion.become("Sub", [conversion.constant(ones, "ones"), data])


def _is_integer(conversion: NodeConversion, value: ir.Value) -> bool:
    dtype = conversion.dtype(value)
    if dtype in _COMPARED and conversion.target < 9:
        raise Inexpressible("compares integers, which needs opset 9")
    return dtype in _COMPARED


def _chosen(conversion: NodeConversion, comparison: str, first: ir.Value, second: ir.Value) -> ir.Value:
    is_first = conversion.add(comparison, [first, second], "is_first")
    return conversion.add("Where", [is_first, first, second], "chosen")
