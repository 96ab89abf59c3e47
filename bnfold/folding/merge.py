"""Branches that meet in a sum: convolutions of one value, and the value itself, become one convolution.

``Conv(x, V) + s·Conv(x, W) + u·x`` is ``Conv(x, V + pad(s·W) + u·I)`` where all compute the same grid.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bnfold import ir
from bnfold.folding import facts, guard, recognise
from bnfold.folding.ask import decline_excluded
from bnfold.folding.growth import Budget
from bnfold.folding.limits import Limits
from bnfold.folding.ops import conv, weights
from bnfold.folding.ops.nary import SUMS, decline_legacy
from bnfold.folding.step import Edit, SetConstant
from bnfold.ir.summed import Place, Summed
from bnfold.ir.tensor import Exact, Float64, Scaled
from bnfold.ir.traits import ARITHMETIC
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import Policy

MOST = 64
"""Branches of one sum, and affine nodes on one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A summand: affine nodes, the first one first, behind a convolution of ``source`` or ``source`` itself."""

    source: ir.Value | None
    conv: ir.Node | None
    affines: tuple[ir.Node, ...]
    sign: int


@dataclass(frozen=True, slots=True, eq=False)
class Meeting:
    """Sums, the outermost first, all of whose summands are branches of one value."""

    sums: tuple[ir.Node, ...]
    branches: tuple[Branch, ...]

    @property
    def total(self) -> ir.Node:
        return self.sums[0]

    @property
    def affines(self) -> list[ir.Node]:
        return [node for branch in self.branches for node in branch.affines]

    @property
    def convs(self) -> list[ir.Node]:
        return [branch.conv for branch in self.branches if branch.conv is not None]

    @property
    def nodes(self) -> list[ir.Node]:
        return [*self.sums, *self.affines, *self.convs]

    @property
    def key(self) -> tuple[str, str]:
        """What this is called if a weight turns out to overflow: its graph and what it makes."""
        made = self.total.outputs[0]
        assert made is not None, "it was looked at"
        return self.total.graph.path, made.name


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """Which of the convolutions stays, and what it reads then."""

    meeting: Meeting
    kept: ir.Node
    edits: tuple[Edit, ...]
    cost: int


def find(model: ir.Model, normalisations: Collection[ir.Node], limits: Limits) -> Iterator[Meeting]:
    """Where branches meet, the outermost sum first. Each has to be dealt with before the next is asked for.

    Without ``merge_branches`` only such that one of the ``normalisations`` stands in, or right behind; none with
    another BatchNormalization.
    """
    for total in [node for node in model.nodes() if node.is_op(*SUMS)][::-1]:
        meeting = None if total.removed else _meeting(total)
        if meeting is None or meeting.key in limits.banned:
            continue
        if any(node.is_op("BatchNormalization") and node not in normalisations for node in meeting.affines):
            continue
        made = total.outputs[0]
        behind = made.only_reader if made is not None else None
        if limits.merge_branches or any(node in normalisations for node in (*meeting.affines, behind)):
            yield meeting


def _meeting(total: ir.Node) -> Meeting | None:
    """None where something else is added as well."""
    sums: list[ir.Node] = []
    branches: list[Branch] = []
    waiting = [(total, 1)]
    while waiting:
        node, sign = waiting.pop()
        sums.append(node)
        if len(node.outputs) != 1 or None in (*node.inputs, *node.outputs) or len(sums) + len(branches) > MOST:
            return None
        for slot, value in enumerate(node.inputs):
            assert value is not None, "it was looked at"
            own = -sign if node.op_type == "Sub" and slot == 1 else sign
            maker = value.producer if value.only_reader is not None and value.graph is total.graph else None
            if maker is not None and maker.is_op(*SUMS) and not recognise.has_constant(maker):
                waiting.append((maker, own))
            else:
                branches.append(_branch(value, own, total.graph))
    met = {branch.source for branch in branches}
    meeting = Meeting(tuple(sums), tuple(branches))
    return meeting if len(branches) > 1 and len(met) == 1 and None not in met and meeting.convs else None


def _branch(value: ir.Value, sign: int, graph: ir.Graph) -> Branch:
    affines: list[ir.Node] = []
    at: ir.Value | None = value
    while at is not None and at.only_reader is not None and at.graph is graph and (node := at.producer) is not None:
        if node.is_op("Conv"):
            return Branch(node.input(0), node, tuple(affines[::-1]), sign)
        slots = [slot for slot, operand in enumerate(node.inputs) if ir.constant(operand) is None]
        is_affine = node.is_op("BatchNormalization") or (node.has_trait(ARITHMETIC) and len(slots) == 1)
        if not is_affine or len(affines) == MOST:
            break
        affines.append(node)
        at = node.input(0 if node.op_type == "BatchNormalization" else slots[0])
    return Branch(at, None, tuple(affines[::-1]), sign)


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """What a convolution reads, for each spatial axis."""

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]


def plan(meeting: Meeting, policy: Policy, limits: Limits, budget: Budget) -> Merge:
    """How the branches become one. Raises Declined where that is not exact."""
    for taking_part in meeting.nodes:
        decline_excluded(taking_part, limits)
    for total in meeting.sums:
        decline_legacy(total)
    kernels = {made: _kernel(made) for made in meeting.convs}
    kept = max(kernels, key=lambda made: math.prod(kernels[made].dims[2:]))
    (outputs, inputs, *spatial), dtype, group = kernels[kept].dims, kernels[kept].dtype, kept.attr("group", 1)
    window = _window(kept, spatial)
    centre, units, shift = (0,) * len(spatial), np.zeros(outputs), np.zeros(outputs)
    terms: list[tuple[Scaled, Place]] = []
    for branch in meeting.branches:
        s, t = _factors(branch, policy, len(spatial) + 2, outputs)
        shift += t
        if (node := branch.conv) is None:
            if outputs != inputs * group:
                raise _unequal(kept, f"makes {outputs} channels of {inputs * group}")
            centre = _place(_window(None, [1] * len(spatial)), window, kept)
            units += s
            continue
        kernel = kernels[node]
        if kernel.dims[:2] != (outputs, inputs) or node.attr("group", 1) != group:
            raise _unequal(node, f"has other channels or groups than {facts.where(kept)}")
        if kernel.dtype != dtype:
            raise Declined(Reason.TYPE, f"{facts.where(node)} and {facts.where(kept)}")
        terms.append((Scaled(kernel, [(0, s)]), _place(_window(node, kernel.dims[2:]), window, node)))
        shift += s * conv.bias(node, outputs)
    edits: list[Edit] = [SetConstant(kept, 1, Summed(terms, units, centre))]
    if kept.input(2) is not None or shift.any():
        edits.append(SetConstant(kept, 2, Exact(dtype, shift), hint="bias"))
    guard.check(edits)
    return Merge(meeting, kept, tuple(edits), budget.check(edits))


def _unequal(node: ir.Node, what: str) -> Declined:
    return Declined(Reason.UNEQUAL_BRANCHES, f"{facts.where(node)} {what}", at=node.label)


def _factors(branch: Branch, policy: Policy, rank: int, channels: int) -> tuple[Float64, Float64]:
    """What is done to the branch's convolution, or to the value itself, for each channel of the sum."""
    s, t = np.full(channels, float(branch.sign)), np.zeros(channels)
    if not branch.affines:
        return s, t
    affine = recognise.chain([recognise.link(node, policy) for node in branch.affines]).affine
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
    """Of a convolution, or of the value itself: one tap, nothing around it."""
    rank = len(taps)
    one, none = (1,) * rank, (0,) * rank
    if node is None:
        return _Window(one, one, one, none, none)
    strides, dilations = (tuple(conv.per_axis(node, name, rank)) for name in ("strides", "dilations"))
    mode = node.attr("auto_pad", "NOTSET")
    first, last = none, none
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if strides != one:
            raise Declined(Reason.NOT_STATIC, f"the padding of {facts.where(node)}", at=node.label)
        around = [(size - 1) * step for size, step in zip(taps, dilations, strict=True)]
        first = tuple(size // 2 if mode == "SAME_UPPER" else size - size // 2 for size in around)
        last = tuple(size - before for size, before in zip(around, first, strict=True))
    elif mode in ("NOTSET", ""):
        pads = tuple(node.attr("pads", (0,) * 2 * rank))
        if len(pads) != 2 * rank or min(pads) < 0:
            raise Declined(Reason.UNREADABLE, f"pads of {facts.where(node)}", at=node.label)
        first, last = pads[:rank], pads[rank:]
    elif mode != "VALID":
        raise Declined(Reason.UNREADABLE, f"auto_pad of {facts.where(node)}", at=node.label)
    return _Window(tuple(taps), strides, dilations, first, last)


def _place(small: _Window, large: _Window, node: ir.Node) -> Place:
    """Which tap of the large window the first tap of the small one falls on. Raises Declined unless all fall on one.

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


def carry_out(merge: Merge) -> list[str]:
    """Take out all nodes but the convolution that stays, which is to be edited; the names of values that are gone."""
    meeting, kept = merge.meeting, merge.kept
    made = meeting.total.outputs[0]
    assert made is not None, "it was looked at"
    gone = [value.name for node in meeting.nodes for value in node.outputs if value not in (None, made)]
    for node in (*meeting.sums, *meeting.affines[::-1], *meeting.convs):
        if node is not kept:
            node.graph.remove(node)
    kept.set_output(0, made)
    return gone
