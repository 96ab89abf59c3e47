"""InstanceNormalization and GroupNormalization."""

from __future__ import annotations

import numpy as np

from bnfold import analysis, ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import by_meaning, up, up_unchanged
from bnfold.semantics.instancenorm import slots, strays

_MOST = 1 << 24
"""Channels; a damaged file may say that it has more."""

up_unchanged("InstanceNormalization", 22)  # bfloat16


@by_meaning("InstanceNormalization")
@up("InstanceNormalization", 6)
def instance(conversion: NodeConversion) -> None:
    """Convert InstanceNormalization 1 → 6 → 22.

    Attributes that mean nothing go, those that never belonged with a repair.
    """
    slots(conversion.node)
    repairs = strays(conversion.node)
    conversion.context.repairs.extend(repairs)
    conversion.touched = bool(repairs)
    conversion.finished = True
    for name in set(conversion.node.attrs) - {"epsilon"}:
        conversion.node.del_attr(name)


@up("GroupNormalization", 21)
def group(conversion: NodeConversion) -> None:
    """Convert GroupNormalization 18 → 21: scale and bias for every channel instead of every group."""
    data, groups = conversion.input(0), int(conversion.node.attr("num_groups", 0))
    shape = conversion.shape(data)
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if not isinstance(channels, int) or not channels or groups < 1 or channels % groups:
        raise Inexpressible(f"{groups} groups of an unknown number of channels")
    if channels > _MOST:
        raise Inexpressible(f"{channels} channels are more than any network has")
    for index in (1, 2):
        conversion.node.set_input(index, _repeated(conversion, conversion.input(index), groups, channels // groups))


def _repeated(conversion: NodeConversion, value: ir.Value, groups: int, times: int) -> ir.Value:
    """Return each element ``times`` times over."""
    tensor = analysis.constant(value)
    if tensor is not None:
        return conversion.constant(np.repeat(tensor.numpy().reshape(-1), times), "per_channel")
    column = conversion.reshape(value, [groups, 1], "column")
    spread = conversion.add("Expand", [column, conversion.ints([groups, times], "shape")], "spread")
    return conversion.reshape(spread, [groups * times], "per_channel")
