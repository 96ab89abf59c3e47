"""What handlers answer: edits of one node, and demands on its neighbours."""

from __future__ import annotations

from typing import NamedTuple

from bnfold.edits.edit import Edit
from bnfold.folding.affine import Affine


class Step(NamedTuple):
    """One node's part of a plan.

    Demands are (slot, affine). Each of ``requested`` is the change that the value at an input needs. Each of
    ``pending`` is the change that the consumers of an output have to absorb. A node without demands has absorbed the
    affine.
    """

    edits: tuple[Edit, ...] = ()
    requested: tuple[tuple[int, Affine], ...] = ()
    pending: tuple[tuple[int, Affine], ...] = ()

    def plus(self, *edits: Edit, pending: tuple[tuple[int, Affine], ...] = ()) -> Step:
        """Add further edits, and affines that are left standing."""
        return Step((*self.edits, *edits), self.requested, (*self.pending, *pending))


def wants(affine: Affine, *edits: Edit) -> Step:
    """Return the step of a node that wants ``affine`` on its first input."""
    return Step(edits, requested=((0, affine),))


def leaves(affine: Affine, *edits: Edit) -> Step:
    """Return the step of a node that leaves ``affine`` on its first output."""
    return Step(edits, pending=((0, affine),))
