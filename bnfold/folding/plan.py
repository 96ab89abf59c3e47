"""Plans: a builder that a search fills, and the frozen plan that `apply` executes and cannot decline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bnfold import ir
from bnfold.edits.edit import Bypass, Edit
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding.affine import Affine
from bnfold.folding.chains import AffineChain
from bnfold.folding.limits import Limits
from bnfold.ir import Node, Value
from bnfold.report.reasons import SearchTrace


@dataclass(slots=True, eq=False)
class PlanBuilder:
    """What the plan is for and may cost, and what has been planned so far."""

    chain: AffineChain
    limits: Limits
    budget: SizeBudget
    form: str = ""
    """Which of several ways down a handler is asked for, if it has that."""
    edits: list[Edit] = field(default_factory=list)
    relabelled: dict[Value, Affine | None] = field(default_factory=dict)
    """The affine of each value; None if the value loses its affine, which is then no longer available."""
    nodes: dict[Node, None] = field(default_factory=dict)
    absorbers: dict[Node, None] = field(default_factory=dict)
    edges: dict[tuple[Node, int], None] = field(default_factory=dict)
    shared: dict[Value, int] = field(default_factory=dict)
    """Values with several consumers, which request the same change or get the inverse, and the depth of each."""
    undone: dict[Value, int] = field(default_factory=dict)
    """Those shared values whose other consumers get the inverse."""
    partial_reads: dict[Value, dict[tuple[Node, int], tuple[Affine, int]]] = field(default_factory=dict)
    """Upward: values with partial reads only, to be asked for all requests at once, with the depth of each."""
    joined: dict[Node, tuple[dict[int, Affine], int]] = field(default_factory=dict)
    """Downward: nodes of several operands, to be asked with the affines of all of them at once, and their depth."""

    def moves(self, node: Node) -> bool:
        """Whether the plan removes a node, which then takes no requests."""
        return node in [link.node for link in self.chain.links]


class Plan(NamedTuple):
    """What to do with one chain; bound to the graph as it was when the plan was made.

    ``direction`` is ``stay`` for an identity between values that both must keep their names.
    """

    chain: AffineChain
    direction: Literal["up", "down", "stay"]
    edits: tuple[Edit, ...] = ()
    relabelled: tuple[ir.Value, ...] = ()
    nodes: tuple[ir.Node, ...] = ()
    absorbers: tuple[ir.Node, ...] = ()
    extra_adds: int = 0
    """Operations that the plan adds."""
    inverses: int = 0
    """Values with a consumer that gets the inverse of the change."""
    set_free: int = 0
    """Nodes that simplification takes out, once those in front of the row and behind it meet."""
    cost: int = 0
    """Bytes that it takes of what may be added."""
    refused: tuple[SearchTrace, ...] = ()
    """How the search in the other direction ended, where that found nothing."""

    @property
    def removed(self) -> int:
        """Operations that the plan takes out."""
        return len(self.chain.links) + self.bypassed

    @property
    def bypassed(self) -> int:
        """Those of them that do not stand in the row."""
        return sum(isinstance(edit, Bypass) for edit in self.edits)

    @property
    def exchanges(self) -> bool:
        """Whether an Add takes the place of the row; one that was there may stay."""
        return self.extra_adds > 0 and self.extra_adds > self.bypassed  # mostly none is planned: nothing to count
