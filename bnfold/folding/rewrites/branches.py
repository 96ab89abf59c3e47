"""Branches that meet in a sum become one convolution.

``Conv(x, V) + s·Conv(x, W) + u·x`` is ``Conv(x, V + pad(s·W) + u·I)`` if all have the same grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.traits import ARITHMETIC
from bnfold.edits.edit import Edit, SetConstant
from bnfold.folding import chains, facts
from bnfold.folding.context import Change, FoldContext, key_of
from bnfold.folding.ops import conv, weights, window
from bnfold.folding.ops.elementwise_nary import SUMS
from bnfold.folding.ops.registry import decline_excluded
from bnfold.ir.summed import Offset, Summed
from bnfold.ir.tensor import Exact, Float64, Scaled
from bnfold.report.reasons import Declined, Reason
from bnfold.report.rewrites import MERGE
from bnfold.semantics import Policy

MOST = 64
"""Branches of one sum, and affine nodes on one of them."""


class Branch(NamedTuple):
    """A summand: affine nodes, the first one first, behind a convolution of ``source`` or ``source`` itself."""

    source: ir.Value | None
    conv: ir.Node | None
    affines: tuple[ir.Node, ...]
    sign: int


class Meeting(NamedTuple):
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


class _Window(NamedTuple):
    """What a convolution reads, for each spatial axis."""

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]


def find_merges(run: FoldContext) -> Iterator[Change]:
    """Find where one convolution can stand for those that are added up, the last sum of the model first.

    Without ``merge_branches`` only such that a BatchNormalization of the run stands in, or right behind.
    """
    for total in [node for node in run.model.nodes() if node.is_op(*SUMS)][::-1]:
        with analysis.evaluated_once(run.model):
            meeting = None if total.removed else _meeting(total)
            if meeting is None or not _is_wanted(run, meeting):
                continue
        normalisations = [node for node in meeting.affines if node in run.events]
        try:
            change = run.planned(MERGE, total, _plan, run, meeting, normalisations)
        except Declined as refusal:
            run.budget.want(refusal)
            ended = refusal.attempt("merge", [node.label for node in meeting.nodes])
            run.unmerged.update(dict.fromkeys(normalisations, ended))
        else:
            yield change


def _is_wanted(run: FoldContext, meeting: Meeting) -> bool:
    """Whether branches are to be merged; none with a BatchNormalization outside the run's events."""
    total, made = meeting.total, meeting.total.outputs[0]
    if key_of(total) in run.limits.banned:
        return False
    if any(node.is_op("BatchNormalization") and node not in run.events for node in meeting.affines):
        return False
    behind = made.only_consumer if made is not None else None
    return run.limits.merge_branches or any(node in run.events for node in (*meeting.affines, behind))


def _meeting(total: ir.Node) -> Meeting | None:
    """Return where two branches meet, None where something else is added as well."""
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
            producer = value.producer if value.only_consumer is not None and value.graph is total.graph else None
            if producer is not None and producer.is_op(*SUMS) and not chains.has_constant(producer):
                waiting.append((producer, own))
            else:
                branches.append(_branch(value, own, total.graph))
    met = {branch.source for branch in branches}
    meeting = Meeting(tuple(sums), tuple(branches))
    return meeting if len(branches) > 1 and len(met) == 1 and None not in met and meeting.convs else None


def _branch(value: ir.Value, sign: int, graph: ir.Graph) -> Branch:
    affines: list[ir.Node] = []
    at: ir.Value | None = value
    while at is not None and at.only_consumer is not None and at.graph is graph and (node := at.producer) is not None:
        if node.is_op("Conv"):
            return Branch(node.input(0), node, tuple(affines[::-1]), sign)
        slots = [0] if node.is_op("BatchNormalization") else _computed(node)
        if len(slots) != 1 or len(affines) == MOST:
            break
        affines.append(node)
        at = node.input(slots[0])
    return Branch(at, None, tuple(affines[::-1]), sign)


def _computed(node: ir.Node) -> list[int]:
    """Return which operands of arithmetic are no constants; none of other operators."""
    if not node.has_trait(ARITHMETIC):
        return []
    return [slot for slot, operand in enumerate(node.inputs) if analysis.constant(operand) is None]


def _plan(run: FoldContext, meeting: Meeting, normalisations: Sequence[ir.Node]) -> Change:
    """Say how the branches become one. Raises Declined where it is not equivalent."""
    for taking_part in meeting.nodes:
        decline_excluded(taking_part, run.limits)
    for total in meeting.sums:
        chains.decline_legacy(total)
    kernels = {made: _kernel(made) for made in meeting.convs}
    kept = max(kernels, key=lambda made: math.prod(kernels[made].dims[2:]))
    (outputs, inputs, *spatial), dtype, group = kernels[kept].dims, kernels[kept].dtype, kept.attr("group", 1)
    largest = _window(kept, spatial)
    centre, units, shift = (0,) * len(spatial), np.zeros(outputs), np.zeros(outputs)
    terms: list[tuple[Scaled, Offset]] = []
    for branch in meeting.branches:
        s, t = _factors(branch, run.policy, len(spatial) + 2, outputs)
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
    source = kept.inputs[0]
    assert source is not None, "it was looked at"
    tell = partial(_tell, run, meeting, normalisations, kept, tuple(node.label for node in meeting.nodes))
    return run.merge_of(MERGE, kept, meeting.nodes, source, edits, f"merge branches into {kept.label}", tell)


def _tell(
    run: FoldContext, meeting: Meeting, normalisations: Sequence[ir.Node], kept: ir.Node, passed: tuple[str, ...]
) -> None:
    run.report.notes.append(f"{len(meeting.branches)} branches merged into {kept.label}")
    for node in normalisations:
        run.events[node].fold("merge", (kept.label,), (kept.op_type,), passed)


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


def _place(small: _Window, large: _Window, node: ir.Node) -> Offset:
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
