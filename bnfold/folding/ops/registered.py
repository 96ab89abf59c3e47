"""Operators of other domains, by the rules that callers registered: what a rule returns, as a step of a plan.

A rule is believed as far as it goes, and what it returns is checked: constants that are there, finite numbers, an axis.
Whether it is right, verification finds out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from bnfold import ir
from bnfold.analysis.described import described
from bnfold.edits.edit import Edit, ExtraAdd, SetAttr, SetConstant
from bnfold.folding import facts, shapes
from bnfold.folding.affine import Affine, on_axis, vector
from bnfold.folding.step import Step
from bnfold.ir.tensor import Exact, Float64
from bnfold.registered.types import AffineFunction, AffineRule, AffineStep, ChannelAffine, DoesNotApply, returned
from bnfold.report.reasons import Declined, Reason

Way = Literal["up", "down"]


def by_rule(rule: AffineRule, function: AffineFunction, way: Way) -> Callable[[ir.Node, int, Affine], Step]:
    """Return what a handler is, from a function of a rule."""

    def solve(node: ir.Node, _: int, affine: Affine) -> Step:
        if any(value is not None and not value.is_unread for value in node.outputs[1:]):
            raise Declined(Reason.UNUSED_OUTPUT, facts.where(node))
        axis = _axis(node, rule, affine)
        asked = ChannelAffine(*(vector(block, axis, _channels(affine, axis)) for block in (affine.s, affine.t)))
        try:
            answer = returned(function(described(node), asked), AffineStep)
            return _step(node, answer, axis, affine.rank, way)
        except (Declined, DoesNotApply) as reason:
            if isinstance(reason, Declined):
                raise
            raise Declined(Reason.NO_HANDLER, f"{facts.where(node)}: {reason}") from reason
        except Exception as error:
            text = f"{facts.where(node)}: its registered rule raised {type(error).__name__}"
            raise Declined(Reason.NO_HANDLER, f"{text}: {' '.join(str(error).split())}") from error

    return solve


def _axis(node: ir.Node, rule: AffineRule, affine: Affine) -> int:
    """Return the axis of the channels. Raises Declined if the affine varies along another one."""
    varying = [axis for axis, size in enumerate(affine.shape) if size > 1]
    if rule.axis is None:
        axis = varying[0] if varying else 0
    else:
        axis = rule.axis + affine.rank if rule.axis < 0 else rule.axis
        if not 0 <= axis < affine.rank:
            raise Declined(Reason.AXIS, f"{facts.where(node)} has channels on axis {rule.axis} of {affine.rank}")
    if any(each != axis for each in varying):
        raise Declined(Reason.AXIS, facts.where(node))
    return axis


def _channels(affine: Affine, axis: int) -> int:
    return affine.shape[axis] if affine.rank else 1


def _step(node: ir.Node, answer: AffineStep, axis: int, rank: int, way: Way) -> Step:
    edits: list[Edit] = [_constant(node, slot, numbers) for slot, numbers in answer.constants.items()]
    edits += [SetAttr(node, name, value) for name, value in answer.attributes.items()]
    if answer.adds is not None and np.count_nonzero(answer.adds):
        block = on_axis(*(_finite(answer.adds).reshape(-1),) * 2, axis, rank).t
        beside = node.output(0) if way == "up" else node.input(0)
        edits.append(ExtraAdd(node, 0, block, facts.float_type(beside), "behind" if way == "up" else "before"))
    if answer.passes is None:
        return Step(tuple(edits))
    other = facts.operand(node, 0) if way == "up" else node.output(0)
    if other is None or shapes.rank(other) != rank:
        raise Declined(Reason.AXIS, f"{facts.where(node)} reads and makes values of different ranks")
    left = on_axis(_finite(answer.passes.scale), _finite(answer.passes.shift), axis, rank)
    demands = ((0, left),)
    return Step(tuple(edits), requested=demands) if way == "up" else Step(tuple(edits), pending=demands)


def _constant(node: ir.Node, slot: int, numbers: object) -> SetConstant:
    is_new = node.input(slot) is None
    dtype = facts.float_type(node.input(0)) if is_new else facts.weight(node, slot).dtype
    return SetConstant(node, slot, Exact(dtype, _finite(numbers)), hint="bias" if is_new else "")


def _finite(numbers: object) -> Float64:
    array = np.array(numbers, np.float64)
    if not np.isfinite(array).all():
        raise ValueError("it returned numbers that are NaN or infinite")
    return array
