"""Transpose: axes change places."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.folding.affine import Affine
from bnfold.folding.ops.registry import carrier, register
from bnfold.report.reasons import Declined, Reason


def _permutation(node: ir.Node, rank: int) -> list[int]:
    """Return the order of axes: output axis ``i`` is input axis ``perm[i]``; absent means reversed."""
    perm = node.attr("perm") or list(range(rank))[::-1]
    if sorted(perm) != list(range(rank)):
        raise Declined(Reason.UNREADABLE, f"{node.op_type} {node.label!r} has perm {perm} for rank {rank}")
    return list(perm)


def up(node: ir.Node, affine: Affine) -> Affine:
    """Move axes: axis ``perm[i]`` before is axis ``i`` behind."""
    back = np.argsort(_permutation(node, affine.rank))
    return affine.map(lambda block: block.transpose(back))


def down(node: ir.Node, affine: Affine) -> Affine:
    """Move axes: axis ``i`` behind is axis ``perm[i]`` before."""
    perm = _permutation(node, affine.rank)
    return affine.map(lambda block: block.transpose(perm))


register(Transpose=carrier(up, down))
