"""What a search ends in: a frozen plan, which `apply` executes and cannot decline; and what a plan may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.recognise import Chain
from bnfold.folding.step import Bypass, Edit, Residual
from bnfold.report.reasons import Declined, Reason


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What to do with one chain; bound to the graph as it was when the plan was made.

    ``direction`` is ``stay`` for an identity between values that both must keep their names.
    """

    chain: Chain
    direction: Literal["up", "down", "stay"]
    edits: tuple[Edit, ...] = ()
    relabelled: tuple[ir.Value, ...] = ()
    nodes: tuple[ir.Node, ...] = ()
    absorbers: tuple[ir.Node, ...] = ()
    residuals: int = 0
    """Operations that the plan adds."""
    images: bool = False
    """Whether what is added may be as large as a picture, which the limit of growth has a say in."""


def check_gain(plan: Plan) -> None:
    """Decline unless (BatchNormalizations, activation-sized operations) falls: an Add may replace one of the former."""
    residuals = plan.residuals
    bypassed = [edit.node for edit in plan.edits if isinstance(edit, Bypass)]
    removed = len(plan.chain.links) + len(bypassed)
    if residuals > removed or (residuals == removed and not plan.chain.batchnorms):
        raise Declined(Reason.NO_GAIN, f"{residuals} operations would stay for {removed} removed")
    if plan.chain.source.graph.opset() < 7:
        raise Declined(Reason.OPSET, "an Add of a constant needs opset 7")


def work(plan: Plan) -> int:
    """Numbers that the operations which a plan adds read and write, for each element of an unknown size."""
    total, seen = 0, set()
    for edit in plan.edits:
        if isinstance(edit, Residual) and edit.edge not in seen:
            seen.add(edit.edge)
            value = edit.node.outputs[edit.slot] if edit.side == "behind" else edit.node.inputs[edit.slot]
            dims = facts.known_dims(value) if value is not None else ()
            total += 2 * math.prod(dim for dim in dims or () if isinstance(dim, int)) + edit.block.size
    return total
