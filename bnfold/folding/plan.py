"""What a search ends in: a frozen plan, which `apply` executes and cannot decline."""

from __future__ import annotations

from typing import Literal, NamedTuple

from bnfold import ir
from bnfold.folding.chains import Chain
from bnfold.folding.step import Edit


class Plan(NamedTuple):
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
