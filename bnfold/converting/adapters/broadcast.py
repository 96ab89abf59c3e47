"""Broadcasting before opset 7: only of the right operand, only with ``broadcast=1``, and along its own ``axis``.

``broadcast=1, axis=k`` aligns B's first axis with A's axis k. Without ``axis``, the last axes are aligned as in numpy.
"""

from __future__ import annotations

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down, up

_OPERATORS = "Add And Div Equal Greater Less Mul Or Pow Sub Xor"
"""Operators of two operands that are broadcast by one rule from opset 7 on."""


@up(_OPERATORS, 7)
def binary(conversion: NodeConversion) -> None:
    """Add, Sub, Mul, Div, Pow, And, Or, Xor, Equal, Greater, Less to version 7: B gets the axes that numpy needs."""
    broadcast, axis = conversion.take("broadcast", 0), conversion.take("axis")
    if not broadcast:
        return  # equal shapes; an axis without broadcast means nothing
    right = conversion.input(1)
    dims = _aligned(conversion, conversion.input(0), right, axis)
    if dims is not None:
        conversion.node.set_input(1, conversion.reshape(right, dims, "aligned"))


@up("PRelu", 7)
def slope(conversion: NodeConversion) -> None:
    """Convert PRelu 6 → 7: a 1-D slope belonged to the channels.

    From 7 on it broadcasts like numpy, from the last axis.
    """
    data, values = conversion.input(0), conversion.input(1)
    shape = conversion.shape(values)
    if shape is None:
        raise Inexpressible(f"the shape of the slope {values.name!r} is not known")
    if len(shape) != 1 or shape[0] == 1:
        return
    inner = conversion.rank(data) - 2
    if inner > 0 and not isinstance(shape[0], int):
        raise Inexpressible(f"the size of {values.name!r} is not known")
    if inner > 0 and isinstance(shape[0], int):
        conversion.node.set_input(1, conversion.reshape(values, [shape[0], *[1] * inner], "slope"))


def stray_slope(conversion: NodeConversion) -> None:
    """Mend a PRelu from 7 on with a slope that only fits the channels.

    MXNet went on writing version 6 (onnx/models#91).
    """
    values = conversion.input(1)
    shape, data = conversion.shape(values), conversion.shape(conversion.input(0))
    if shape is None or data is None or len(shape) != 1 or len(data) < 3:
        return
    fits_channels, fits_last = shape[0] == data[1], shape[0] in (1, data[-1]) or not isinstance(data[-1], int)
    if fits_channels and not fits_last:
        slope(conversion)
        conversion.repair(
            "channel-slope", f"the slope's {shape[0]} elements fit the channels only: read as one for each"
        )


def _aligned(conversion: NodeConversion, left: ir.Value, right: ir.Value, axis: int | None) -> list[int] | None:
    """Return dims that make numpy's broadcasting of ``right`` mean the same; None if the ones it has already do."""
    shape = conversion.shape(right)
    if shape is None:
        if axis is None:
            return None  # its axes are the left operand's last ones, whatever they are
        raise Inexpressible(f"the shape of {right.name!r} is not known: which axes does axis={axis} mean?")
    if all(dim == 1 for dim in shape):
        known = conversion.shape(left)
        return [] if len(shape) > 1 and (known is None or len(known) != len(shape)) else None
    if axis is None:
        return None
    rank = conversion.rank(left)
    if not -rank <= axis < max(rank, 1):
        raise Inexpressible(f"there is no axis {axis} in rank {rank}")
    behind = rank - (axis + rank if axis < 0 else axis) - len(shape)
    if behind < 0:
        raise Inexpressible(f"axis={axis} leaves no room for the {len(shape)} axes of {right.name!r} in rank {rank}")
    if behind == 0:
        return None
    unknown = sum(not isinstance(dim, int) for dim in shape)
    if unknown > 1:
        raise Inexpressible(f"the shape of {right.name!r} is not known")
    return [dim if isinstance(dim, int) else -1 for dim in shape] + [1] * behind


_COMMUTES = frozenset({"Add", "Mul", "And", "Or", "Xor", "Equal"})


@down(_OPERATORS, 7)
def stated_axis(conversion: NodeConversion) -> None:
    """Convert 7 → 6: operands of one shape stay. A right operand within the left one's axes states the axis."""
    node, left, right = conversion.node, conversion.input(0), conversion.input(1)
    shapes = [conversion.shape(left), conversion.shape(right)]
    if shapes[0] == shapes[1] and None not in (shapes[0] or (None,)):
        return
    if (place := _place_within(conversion, left, right)) is None and node.op_type in _COMMUTES:
        left, right = right, left
        place = _place_within(conversion, left, right)
    if place is None and all(shape is not None and all(isinstance(size, int) for size in shape) for shape in shapes):
        raise Inexpressible("broadcasts in a way that opset 6 does not have")
    if place is None:
        raise Inexpressible("broadcasts, and opset 6 has to know how")
    axis, dims = place
    if dims and tuple(dims) != conversion.shape(right):  # of one element, any rank up to the left one's will do
        right = conversion.reshape(right, dims, "aligned")
    node.set_inputs([left, right])
    node.set_attr("broadcast", 1)
    if dims:
        node.set_attr("axis", axis)


def _place_within(conversion: NodeConversion, left: ir.Value, right: ir.Value) -> tuple[int, list[int]] | None:
    """Return the axis of the left operand from which on the right one's lie, and these without outer sizes of 1."""
    wide, narrow = conversion.shape(left), conversion.shape(right)
    if wide is None or narrow is None or len(narrow) > len(wide):
        return None
    dims = [size for size in narrow if isinstance(size, int)]
    if len(dims) < len(narrow):
        return None
    axis = len(wide) - len(dims)
    while dims and dims[-1] == 1:
        dims.pop()
    while dims and dims[0] == 1:
        dims.pop(0)
        axis += 1
    return (axis, dims) if wide[axis : axis + len(dims)] == tuple(dims) else None


@down("PRelu", 7)
def channel_slope(conversion: NodeConversion) -> None:
    """Convert PRelu 7 → 6: one slope, or one for each channel."""
    data, values = conversion.input(0), conversion.input(1)
    place = _place_within(conversion, data, values)
    if place is None or len(place[1]) > 1 or (place[1] and place[0] != 1):
        raise Inexpressible("has slopes that are not one for each channel")
    dims = place[1] or [1]
    if tuple(dims) != conversion.shape(values):
        conversion.node.set_input(1, conversion.reshape(values, dims, "slope"))


@down("Gemm", 7)
def row_of_bias(conversion: NodeConversion) -> None:
    """Convert Gemm 7 → 6: a C of another shape than the result broadcasts along rows only, and says so."""
    bias = conversion.input(2)
    shape, made = conversion.shape(bias), conversion.shape(conversion.output())
    if shape is None or made is None or not all(isinstance(size, int) for size in (*shape, made[-1])):
        raise Inexpressible("has a C, or a result, of unknown shape")
    if shape == made:
        return
    row = [size for size in shape if isinstance(size, int)][-1:]
    if len(shape) == 2 and shape[0] != 1:
        raise Inexpressible("has a C that broadcasts along columns")
    if row not in ([], [1], [made[-1]]):
        raise Inexpressible("has a C that makes the result wider")
    if shape != tuple(row):
        conversion.node.set_input(2, conversion.reshape(bias, row, "row"))
    conversion.node.set_attr("broadcast", 1)
