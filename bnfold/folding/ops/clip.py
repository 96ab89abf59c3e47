"""Clip: its bounds move with what they bound, where they stay one number for all channels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.edit import SetAttr, SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.ir.elements import finfo
from bnfold.ir.tensor import Float64
from bnfold.report.reasons import Declined, Reason

NAMES = ("min", "max")


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``s·clip(x, a, b) + t = clip(s·x + t, s·a + t, s·b + t)``, the bounds exchanged where ``s`` is negative."""
    return wants(affine, *_moved(node, lambda bound: affine.s * bound + affine.t))


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``clip(s·x + t, a, b) = s·clip(x, (a − t)/s, (b − t)/s) + t``, the bounds exchanged if ``s`` is negative."""
    if (affine.s == 0).any():
        raise Declined(Reason.ZERO_SCALE, facts.where(node))
    return leaves(affine, *_moved(node, lambda bound: (bound - affine.t) / affine.s))


def _moved(node: ir.Node, move: Callable[[float], Float64]) -> list[SetAttr | SetConstant]:
    largest = float(finfo(facts.float_type(node.input(0))).max)
    old = [_bound(node, slot, largest) for slot in (1, 2)]
    if not old[0] <= old[1]:
        raise Declined(Reason.UNREADABLE, f"the bounds of {facts.where(node)} are {old[0]:g} and {old[1]:g}")
    with np.errstate(invalid="ignore"):  # no bound, times zero
        ends = [move(bound) for bound in old]
    edits: list[SetAttr | SetConstant] = []
    for slot, block in enumerate((np.minimum(*ends), np.maximum(*ends)), 1):
        bound = block.item(0)
        if (block != bound).any():
            raise Declined(Reason.AXIS, f"{facts.where(node)} would need bounds for each channel")
        if bound != old[slot - 1]:
            held = analysis.constant(node.input(slot))
            finite = np.full(
                () if held is None else held.dims, math.copysign(largest, bound) if math.isinf(bound) else bound
            )
            edits.append(weights.set_number(node, slot, NAMES[slot - 1], finite, NAMES[slot - 1]))
    return edits


def _bound(node: ir.Node, slot: int, largest: float) -> float:
    """Return the bound, infinite where there is none, or one that no number reaches."""
    none = (-np.inf, np.inf)[slot - 1]
    bound = weights.number(node, slot, NAMES[slot - 1], none)
    return none if math.copysign(1, none) * bound >= largest else bound


register(Clip=Handler(up, down))
