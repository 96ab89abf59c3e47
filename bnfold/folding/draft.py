"""A plan while it is being searched for."""

from __future__ import annotations

from dataclasses import dataclass, field

from bnfold.folding.affine import Affine
from bnfold.folding.chains import Chain
from bnfold.folding.size_budget import Budget, Limits
from bnfold.folding.step import Edit
from bnfold.ir import Node, Value


@dataclass(slots=True, eq=False)
class Draft:
    """What the plan is for and may cost, and what has been planned so far."""

    chain: Chain
    limits: Limits
    budget: Budget
    form: str = ""
    """Which of several ways down a handler is asked for, if it has that."""
    edits: list[Edit] = field(default_factory=list)
    relabelled: dict[Value, Affine | None] = field(default_factory=dict)
    """What each value becomes; None where it loses what stands on it, which nobody else may ask for then."""
    nodes: dict[Node, None] = field(default_factory=dict)
    absorbers: dict[Node, None] = field(default_factory=dict)
    edges: dict[tuple[Node, int], None] = field(default_factory=dict)
    shared: dict[Value, int] = field(default_factory=dict)
    """Values with further readers, which ask for the same or get the inverse, and the depth at which they were met."""
    undone: dict[Value, int] = field(default_factory=dict)
    """Those of them whose other readers got the inverse."""
    picked: dict[Value, dict[tuple[Node, int], tuple[Affine, int]]] = field(default_factory=dict)
    """Upward: values that only parts are taken from, to be asked for all wishes at once, with the depth of each."""
    joined: dict[Node, tuple[dict[int, Affine], int]] = field(default_factory=dict)
    """Downward: nodes of several operands, to be asked with all that stands on these at once, and their depth."""

    def moves(self, node: Node) -> bool:
        """Whether the plan takes a node out, which nobody can ask for anything then."""
        return any(link.node is node for link in self.chain.links)
