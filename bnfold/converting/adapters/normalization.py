"""InstanceNormalization and GroupNormalization."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import Site
from bnfold.semantics.instancenorm import slots, strays

_MOST = 1 << 24
"""Channels; a damaged file may say that it has more."""


def instance(site: Site) -> None:
    """InstanceNormalization 1 → 6 → 22: attributes that mean nothing go, those that never belonged with a repair."""
    slots(site.node)
    repairs = strays(site.node)
    site.shared.repairs.extend(repairs)
    site.touched = bool(repairs)
    site.finished = True
    for name in set(site.node.attrs) - {"epsilon"}:
        site.node.del_attr(name)


def group(site: Site) -> None:
    """GroupNormalization 18 → 21: scale and bias for every channel instead of every group."""
    data, groups = site.input(0), int(site.node.attr("num_groups", 0))
    shape = site.shape(data)
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if not isinstance(channels, int) or not channels or groups < 1 or channels % groups:
        raise Inexpressible(f"{groups} groups of an unknown number of channels")
    if channels > _MOST:
        raise Inexpressible(f"{channels} channels are more than any network has")
    for index in (1, 2):
        site.node.set_input(index, _repeated(site, site.input(index), groups, channels // groups))


def _repeated(site: Site, value: ir.Value, groups: int, times: int) -> ir.Value:
    """Each element ``times`` times over."""
    tensor = ir.constant(value)
    if tensor is not None:
        return site.constant(np.repeat(tensor.numpy().reshape(-1), times), "per_channel")
    column = site.reshape(value, [groups, 1], "column")
    spread = site.add("Expand", [column, site.ints([groups, times], "shape")], "spread")
    return site.reshape(spread, [groups * times], "per_channel")
