"""Broadcasting before opset 7: only of the right operand, only with ``broadcast=1``, and along its own ``axis``.

``broadcast=1, axis=k`` aligns B's first axis with A's axis k. Without ``axis``, the last axes are aligned as in numpy.
"""

from __future__ import annotations

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion


def binary(conversion: NodeConversion) -> None:
    """Add, Sub, Mul, Div, Pow, And, Or, Xor, Equal, Greater, Less to version 7: B gets the axes that numpy needs."""
    broadcast, axis = conversion.take("broadcast", 0), conversion.take("axis")
    if not broadcast:
        return  # equal shapes; an axis without broadcast means nothing
    right = conversion.input(1)
    dims = _aligned(conversion, conversion.input(0), right, axis)
    if dims is not None:
        conversion.node.set_input(1, conversion.reshape(right, dims, "aligned"))


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
