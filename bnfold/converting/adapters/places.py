"""Computed places along an axis, where old opsets have no operator for them: ranges, bounds, negative indices."""

from __future__ import annotations

import numpy as np
import onnx

from bnfold import analysis, ir
from bnfold.analysis.traits import COUNTING, MOVING
from bnfold.converting.node_conversion import NodeConversion

TP = onnx.TensorProto
MOVES = MOVING - {"Concat", "Pad"} | {"Identity"}
"""Operators all of whose outputs have elements of the first input only."""
_JOINS = frozenset({"Add", "Concat", "Mul"})
_DEEP = 12
NO_BOUND = (1 << 31) - 1
"""Ends from here on are written for the end of the axis."""


def is_never_negative(value: ir.Value, depth: int = _DEEP) -> bool:
    """Whether integers follow from sizes and places; one that overflows is no place anywhere."""
    tensor = analysis.constant(value)
    if tensor is not None:
        return not (tensor.numpy() < 0).any()
    node = value.producer
    if node is None or node.domain or not depth:
        return False
    if node.op_type in COUNTING:
        return True
    if node.op_type == "Cast" and node.attr("to") != TP.INT64:
        return False
    count = 1 if node.op_type in MOVES or node.op_type == "Cast" else len(node.inputs) * (node.op_type in _JOINS)
    operands = node.inputs[:count]
    return bool(operands) and all(part is not None and is_never_negative(part, depth - 1) for part in operands)


def wrapped(conversion: NodeConversion, indices: ir.Value, sizes: ir.Value) -> ir.Value:
    """Count negative indices from the end."""
    zero = conversion.constant(np.array(0, np.int64), "zero")
    is_negative = conversion.add("Less", [indices, zero], "is_negative")
    counted = conversion.add("Add", [indices, sizes], "from_front")
    return conversion.add("Where", [is_negative, counted, indices], "indices")


def between(conversion: NodeConversion, first: ir.Value, last: ir.Value, *, from_zero: bool = False) -> ir.Value:
    """Return the integers from ``first`` up to ``last``, both of one element: the places of so many ones."""
    length = last if from_zero else not_below_zero(conversion, conversion.add("Sub", [last, first], "length"))
    one = onnx.numpy_helper.from_array(np.ones(1, np.int64))
    ones = conversion.add("ConstantOfShape", [length], "ones", value=one)
    row = conversion.along("Squeeze", conversion.add("NonZero", [ones], "numbers"), [0], "row")
    return row if from_zero else conversion.add("Add", [row, first], "range")


def part(
    conversion: NodeConversion,
    data: ir.Value,
    axis: int,
    start: ir.Value,
    end: ir.Value,
    output: str | ir.Value = "part",
) -> ir.Value:
    """Read an axis between two bounds of one element each, as Slice with computed bounds does."""
    axis %= conversion.rank(data)
    size = (conversion.shape(data) or ())[axis]
    if isinstance(size, int) and size:
        own = conversion.ints([size], "size")
    else:
        shape = conversion.add("Shape", [data], "shape")
        own = conversion.add("Gather", [shape, conversion.ints([axis], "axis")], "size", axis=0)
    first, last = (_inside(conversion, bound, own) for bound in (start, end))
    tensor = conversion.known(first)
    from_zero = tensor is not None and not tensor.numpy().any()
    kept = between(conversion, first, last, from_zero=from_zero)
    return conversion.add("Gather", [data, kept], output, axis=axis)


def _inside(conversion: NodeConversion, bound: ir.Value, size: ir.Value) -> ir.Value:
    """Bring a bound between 0 and the size of its axis."""
    tensor = conversion.known(bound)
    number = None if tensor is None else int(tensor.numpy().reshape(-1)[0])
    if number == 0:
        return bound
    if number is not None and number >= NO_BOUND:
        return size
    if is_never_negative(bound):
        return _upper(conversion, bound, size)
    return not_below_zero(conversion, _upper(conversion, wrapped(conversion, bound, size), size))


def _upper(conversion: NodeConversion, value: ir.Value, size: ir.Value) -> ir.Value:
    is_inside = conversion.add("Less", [value, size], "is_inside")
    return conversion.add("Where", [is_inside, value, size], "bound")


def not_below_zero(conversion: NodeConversion, value: ir.Value) -> ir.Value:
    """Return the larger one of an integer and 0."""
    zero = conversion.constant(np.array(0, np.int64), "zero")
    is_inside = conversion.add("Greater", [value, zero], "is_inside")
    return conversion.add("Where", [is_inside, value, zero], "bound")
