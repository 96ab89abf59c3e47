"""Softmax, LogSoftmax, Hardmax: from "all axes behind ``axis`` are one" (until 12) to "along ``axis``", and back."""

from __future__ import annotations

from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down, up


@up("Hardmax LogSoftmax Softmax", 13)
def flattened(conversion: NodeConversion) -> None:
    """Work along one axis where only one of the coerced axes is not of size 1; else Flatten, the operator, Reshape."""
    data, axis = conversion.input(0), conversion.take("axis", 1)
    shape = conversion.shape(data)
    if shape is not None:
        first = axis + len(shape) if axis < 0 else axis
        if not 0 <= first <= len(shape):
            raise Inexpressible(f"has axis {axis}, over an input of rank {len(shape)}")
        wide = [position for position in range(first, len(shape)) if shape[position] != 1]
        if len(wide) == 1 or (not wide and first < len(shape)):
            conversion.node.set_attr("axis", wide[0] if wide else first)
            return
    elif axis == -1:  # of the last axis alone, whatever the rank
        conversion.node.set_attr("axis", -1)
        return
    flat = conversion.add("Flatten", [data], "flat", axis=axis)
    output = conversion.output()
    conversion.node.set_input(0, flat)
    conversion.node.set_attr("axis", 1)
    conversion.restore_shape(conversion.divert(0, "rows"), data, output)


@up("Hardmax LogSoftmax Softmax", 11)
def behind_all_axes(conversion: NodeConversion) -> None:
    """Convert 1 → 11, which allows no axis behind the last: there, each number is a row of its own."""
    shape = conversion.shape(conversion.input(0))
    if shape is not None and conversion.node.attr("axis", 1) == len(shape):
        flattened(conversion)


@down("Hardmax LogSoftmax Softmax", 13)
def along_one_axis(conversion: NodeConversion) -> None:
    """Convert 13 → 11: an axis with others behind it is brought to the end, and back."""
    data, axis = conversion.input(0), conversion.take("axis", -1)
    if axis == -1:
        conversion.node.set_attr("axis", -1)
        return
    rank = conversion.context.types.rank(data)
    if rank is None:
        raise Inexpressible(f"has axis {axis}, and the rank of {data.name!r} is not known")
    if not -rank <= axis < rank:
        raise Inexpressible(f"has axis {axis}, over an input of rank {rank}")
    first, last = axis % rank, rank - 1
    if first == last or all(size == 1 for size in (conversion.shape(data) or [None])[first + 1 :]):
        conversion.node.set_attr("axis", first)
        return
    perm = list(range(rank))
    perm[first], perm[last] = last, first
    output = conversion.output()
    conversion.node.set_input(0, conversion.add("Transpose", [data], "axis_last", perm=perm))
    conversion.node.set_attr("axis", last)
    conversion.append("Transpose", [conversion.divert(0, "computed")], output, perm=perm)
