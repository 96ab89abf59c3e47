"""What a search ends in: a frozen plan, which `apply` executes and cannot decline; and what a plan may cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    inverses: int = 0
    """Values that have readers which take the inverse of what the value becomes."""
    cost: int = 0
    """Bytes that it takes of what may be added."""


def count_residuals(chain: Chain, edits: Sequence[Edit]) -> int:
    """Operations that are added to take the chain out.

    Declines unless (BatchNormalizations, activation-sized operations) falls: an Add may replace one of the former.
    """
    residuals = len({edit.edge for edit in edits if isinstance(edit, Residual)})
    if not residuals:
        return 0
    removed = len(chain.links) + sum(isinstance(edit, Bypass) for edit in edits)
    if residuals > removed or (residuals == removed and not chain.batchnorms):
        raise Declined(Reason.NO_GAIN, f"{residuals} operations would stay for {removed} removed")
    if chain.source.graph.opset() < 7:
        raise Declined(Reason.OPSET, "an Add of a constant needs opset 7")
    return residuals


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
