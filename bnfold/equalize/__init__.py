"""Equalize channels across layers (Nagel et al. 2019, arXiv:1906.04721), for weights that are to share one int8 scale.

A positive factor for each channel goes into what makes a value, its inverse into all that reads it; the function stays
the same. The factors of all values are chosen together, from the weights alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bnfold import analysis, ir
from bnfold.analysis.traits import WEIGHTED
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import SetConstant
from bnfold.edits.size_budget import SizeBudget
from bnfold.equalize.balance import Channels, Part, balance
from bnfold.equalize.tied import Tied
from bnfold.folding import facts, range_check, shapes
from bnfold.folding.affine import Affine, on_axis
from bnfold.folding.context import sign
from bnfold.folding.facts import guarded
from bnfold.folding.limits import Limits
from bnfold.ir.tensor import TP, Float64, Scaled
from bnfold.report.events import Report
from bnfold.report.other_events import EqualizeEvent
from bnfold.report.reasons import Declined, Reason, require_enabled
from bnfold.report.rewrites import EQUALIZE

LEAST = 0.05
"""Factors whose logarithms differ by less gain nothing."""


@dataclass(slots=True, eq=False)
class Group:
    """A value that a layer makes, and what has to be scaled with it."""

    producer: ir.Node
    root: ir.Value
    tied: Tied
    channels: Channels

    def affine(self, factors: Float64) -> Affine:
        rank = shapes.rank(self.root)
        return on_axis(factors, np.zeros_like(factors), rank - 1 if self.producer.is_op("MatMul") else 1, rank)


def equalize(model: ir.Model, report: Report, limits: Limits, budget: SizeBudget) -> None:
    """Equalize what can be, in place, within what folding has left of the ``budget``."""
    shapes.learn_unsure(model)
    with analysis.evaluated_once(model):
        groups = list(_groups(model, limits, report.equalized))
        balance([group.channels for group in groups])
    for group in groups:
        if np.ptp(group.channels.log) < LEAST:
            continue
        event = EqualizeEvent(group.producer.label, group.producer.graph.path)
        report.equalized.append(event)
        try:
            with analysis.evaluated_once(model):
                tied, cost = guarded(group.producer, _scaled, group, event, limits, budget)
        except Declined as refusal:
            event.decline(refusal)
            continue
        event.channels = group.channels.log.size
        event.layers = tuple(node.label for node in tied.nodes if node.has_trait(WEIGHTED))
        event.passed = tuple(node.label for node in tied.nodes if not node.has_trait(WEIGHTED))
        report.folding.append(EQUALIZE)
        budget.charge(cost)
        apply_edits(tied.edits, budget)
        kind = group.channels.sides[0][0].tensor.dtype
        for value, affine in tied.values.items():
            name = value.name
            value.graph.rename(value, model.fresh_name(f"{name}_equalized"))
            report.renamed[name] = value.name
            report.scaled[value.graph.path, value.name] = ir.ScaledValue(name, kind, affine.s)
    report.notes.extend(map(str, report.equalized))


def _groups(model: ir.Model, limits: Limits, events: list[EqualizeEvent]) -> Iterator[Group]:
    """Find the groups with weights on both sides; ``events`` get those that cannot be scaled."""
    seen: set[ir.Value] = set()
    for node in model.nodes():
        root = node.output(0)
        if (
            not node.has_trait(WEIGHTED)
            or root is None
            or root in seen
            or all(analysis.constant(x) is None for x in node.inputs)
        ):
            continue
        group = Group(node, root, Tied(limits), Channels(np.zeros(0), np.zeros(0)))
        try:
            guarded(node, _follow, group)
        except Declined as refusal:
            events.append(EqualizeEvent(node.label, node.graph.path))
            events[-1].decline(refusal)
        else:
            if all(group.channels.sides):
                yield group
        seen |= group.tied.values.keys()


def _follow(group: Group) -> None:
    """Follow factors that all differ, to see which constants take which channel's. Raises Declined."""
    if group.producer.graph.opset() < 7:
        raise Declined(Reason.LEGACY_BROADCAST, facts.where(group.producer))
    rank = shapes.rank(group.root)
    count = shapes.size(group.root, rank - 1 if group.producer.is_op("MatMul") else 1) if rank > 1 else None
    if not isinstance(count, int):
        raise Declined(Reason.NOT_STATIC, f"the channels of value {group.root.name!r}")
    known = group.channels
    known.log, known.bias = np.zeros(count), np.zeros(count)
    group.tied.scale(group.root, group.affine(_mark(np.arange(count), count)))
    for edit in group.tied.edits:
        old = analysis.constant(edit.node.input(edit.slot)) if isinstance(edit, SetConstant) else None
        if not isinstance(edit, SetConstant) or old is None:
            continue
        sign, which = _factors_in(edit.tensor, old, count)
        if edit.node.has_trait(WEIGHTED) and edit.slot < 2:
            known.half |= old.dtype == TP.FLOAT16
            known.mixed |= sign < 0 and not (edit.node.is_op("Conv") and old.dims[1] == 1)
            known.sides[sign < 0].append(Part(known, sign, which, (edit.node, edit.slot), old))
        elif sign > 0:
            sizes = np.abs(old.float64()).reshape((1,) * (which.ndim - len(old.dims)) + old.dims)
            constant = tuple(axis for axis, size in enumerate(which.shape) if size == 1)
            sizes = np.broadcast_to(sizes.max(constant, keepdims=True), which.shape)
            np.maximum.at(known.bias, which[which >= 0], sizes[which >= 0])


def _mark(channel: npt.NDArray[np.int64], count: int) -> Float64:
    return 1 + (channel + 1) / (2.0 * count + 2)


def _factors_in(new: ir.Tensor, old: ir.Tensor, count: int) -> tuple[int, npt.NDArray[np.int64]]:
    """Whether factors or their inverses got into a constant, and the channel whose factor each of its elements got."""
    with np.errstate(all="ignore"):
        if isinstance(new, Scaled):
            before = dict(old.factors) if isinstance(old, Scaled) else {}
            ratio = np.ones((1,) * len(new.dims))
            for axis, vector in new.factors:
                ratio = ratio * (vector / before.get(axis, 1.0)).reshape(-1, *(1,) * (len(new.dims) - axis - 1))
        else:
            ratio = np.nan_to_num(new.float64() / old.float64(), posinf=0).max(
                tuple(range(2, len(new.dims))), keepdims=True
            )
        sign = -1 if (ratio[ratio > 0] < 1).any() else 1
        ratio = np.nan_to_num(ratio**sign, posinf=0)
        channel = np.rint((ratio - 1) * (2 * count + 2) - 1).astype(np.int64)
        known = (channel >= 0) & (channel < count) & (np.abs(_mark(channel, count) - ratio) < 1e-9)
    return sign, np.where(known, channel, -1)


def _scaled(group: Group, event: EqualizeEvent, limits: Limits, budget: SizeBudget) -> tuple[Tied, int]:
    """Return what the factors change, and the bytes that costs. Raises Declined where they lose digits."""
    require_enabled(EQUALIZE, limits.disabled)
    factors = _short(np.exp(group.channels.log))
    event.factors = float(factors.min()), float(factors.max())
    key = group.producer.graph.path, f"equalize {group.root.name}"
    if key in limits.banned:
        raise Declined(Reason.RANGE, "found while the weight was computed")
    tied = Tied(limits)
    tied.scale(group.root, group.affine(factors))
    range_check.check(tied.edits)
    sign(tied.edits, key)
    return tied, budget.check(tied.edits)


def _short(factors: Float64) -> Float64:
    """Round to numbers that all types have."""
    mantissas, exponents = np.frexp(factors)
    return np.asarray(np.ldexp(np.rint(mantissas * 256), exponents - 8))
