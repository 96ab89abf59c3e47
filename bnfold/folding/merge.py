"""Branches that meet in a sum become one convolution.

``Conv(x, V) + s·Conv(x, W) + u·x`` is ``Conv(x, V + pad(s·W) + u·I)`` where all compute the same grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.folding import chains, facts, range_check
from bnfold.folding.ask import decline_excluded
from bnfold.folding.branches import Branch, Meeting
from bnfold.folding.ops import conv, weights, window
from bnfold.folding.replacement import NodeMerge
from bnfold.folding.size_budget import Limits, SizeBudget
from bnfold.folding.step import Edit, SetConstant
from bnfold.ir.summed import Place, Summed
from bnfold.ir.tensor import Exact, Float64, Scaled
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import Policy


class _Window(NamedTuple):
    """What a convolution reads, for each spatial axis."""

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]


def plan_merge(meeting: Meeting, policy: Policy, limits: Limits, budget: SizeBudget) -> NodeMerge:
    """Say how the branches become one. Raises Declined where that is not exact."""
    for taking_part in meeting.nodes:
        decline_excluded(taking_part, limits)
    for total in meeting.sums:
        chains.decline_legacy(total)
    kernels = {made: _kernel(made) for made in meeting.convs}
    kept = max(kernels, key=lambda made: math.prod(kernels[made].dims[2:]))
    (outputs, inputs, *spatial), dtype, group = kernels[kept].dims, kernels[kept].dtype, kept.attr("group", 1)
    largest = _window(kept, spatial)
    centre, units, shift = (0,) * len(spatial), np.zeros(outputs), np.zeros(outputs)
    terms: list[tuple[Scaled, Place]] = []
    for branch in meeting.branches:
        s, t = _factors(branch, policy, len(spatial) + 2, outputs)
        shift += t
        if (node := branch.conv) is None:
            if outputs != inputs * group:
                raise _unequal(kept, f"makes {outputs} channels of {inputs * group}")
            centre = _place(_window(None, [1] * len(spatial)), largest, kept)
            units += s
            continue
        kernel = kernels[node]
        if kernel.dims[:2] != (outputs, inputs) or node.attr("group", 1) != group:
            raise _unequal(node, f"has other channels or groups than {facts.where(kept)}")
        if kernel.dtype != dtype:
            raise Declined(Reason.TYPE, f"{facts.where(node)} and {facts.where(kept)}")
        terms.append((Scaled(kernel, [(0, s)]), _place(_window(node, kernel.dims[2:]), largest, node)))
        shift += s * conv.bias(node, outputs)
    edits: list[Edit] = [SetConstant(kept, 1, Summed(terms, units, centre))]
    if kept.input(2) is not None or shift.any():
        edits.append(SetConstant(kept, 2, Exact(dtype, shift), hint="bias"))
    range_check.check(edits)
    source = kept.inputs[0]
    assert source is not None, "it was looked at"
    return NodeMerge(kept, tuple(meeting.nodes), source, tuple(edits), budget.check(edits))


def _unequal(node: ir.Node, what: str) -> Declined:
    return Declined(Reason.UNEQUAL_BRANCHES, f"{facts.where(node)} {what}", at=node.label)


def _factors(branch: Branch, policy: Policy, rank: int, channels: int) -> tuple[Float64, Float64]:
    """Return what is done to the branch's convolution, or to the value itself, for each channel of the sum."""
    s, t = np.full(channels, float(branch.sign)), np.zeros(channels)
    if not branch.affines:
        return s, t
    affine = chains.chain([chains.link(node, policy) for node in branch.affines]).affine
    if affine.rank != rank or not affine.varies_only_on(1):
        raise Declined(Reason.AXIS, f"{facts.where(branch.affines[-1])} scales more than channels")
    scale, shift = weights.on_channels(branch.affines[-1], affine, channels)
    return s * scale, s * shift


def _kernel(node: ir.Node) -> ir.Tensor:
    for slot in (1, 2):
        if facts.is_quantized(node.input(slot)):
            raise Declined(Reason.QUANTIZED_WEIGHT, facts.where(node), at=node.label)
    kernel = facts.weight(node, 1)
    if len(kernel.dims) < 3 or 0 in kernel.dims or kernel.dims[0] % max(node.attr("group", 1), 1):
        raise Declined(Reason.UNREADABLE, f"the kernel of {facts.where(node)} has dims {list(kernel.dims)}")
    if tuple(node.attr("kernel_shape", kernel.dims[2:])) != kernel.dims[2:]:
        raise Declined(Reason.UNREADABLE, f"kernel_shape of {facts.where(node)}")
    return kernel


def _window(node: ir.Node | None, taps: Sequence[int]) -> _Window:
    """Return the window of a convolution, or of the value itself: one tap, nothing around it."""
    rank = len(taps)
    one, none = (1,) * rank, (0,) * rank
    if node is None:
        return _Window(one, one, one, none, none)
    strides, dilations = (tuple(window.per_axis(node, name, rank)) for name in ("strides", "dilations"))
    around = [window.around(node, axis, size, rank) for axis, size in enumerate(taps)]
    known = [ends for ends in around if ends is not None]
    if len(known) < rank:
        raise Declined(Reason.NOT_STATIC, f"the padding of {facts.where(node)}", at=node.label)
    return _Window(tuple(taps), strides, dilations, *zip(*known, strict=True))


def _place(small: _Window, large: _Window, node: ir.Node) -> Place:
    """Say which tap of the large window the first tap of the small one falls on.

    Raises Declined unless all fall on one.

    Then both make outputs of the same number, too: what is padded more is as much as what is read more.
    """
    if small.strides != large.strides:
        raise _unequal(node, "moves by other strides")
    place = []
    for axis, step in enumerate(large.dilations):
        before, after = large.first[axis] - small.first[axis], large.last[axis] - small.last[axis]
        taps, at = small.taps[axis], before // step
        same_steps = taps == 1 or small.dilations[axis] == step
        fits = at >= 0 <= after and not before % step and not after % step
        if not (same_steps and fits and at + taps + after // step == large.taps[axis]):
            raise _unequal(node, "reads a window that does not lie in the largest one")
        place.append(at)
    return tuple(place)
