"""LSTM, GRU and RNN: ``W·x + Wb`` of each step, W of dims (directions, gates·hidden, inputs)."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.edits.edit import SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine, vector
from bnfold.folding.ops import weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.ir.tensor import Exact
from bnfold.report.reasons import Declined, Reason


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``W'[d,r,i] = W[d,r,i]·s[i]``, ``Wb' = Wb + W·t``; the second half of the bias belongs to the recurrence."""
    matrix = weights.shape_of(node, 1)
    if affine.rank != 3 or len(matrix.dims) != 3 or not affine.varies_only_on(2):
        raise Declined(Reason.AXIS, f"{facts.where(node)} sums over its last axis")
    directions, rows, inputs = matrix.dims
    scaled = weights.scaled(node, 1, matrix, 2, vector(affine.s, 2, inputs))
    if affine.is_scale_only:
        return scaled
    shape = (directions, 2 * rows)
    bias = facts.weight(node, 3).float64().copy() if node.input(3) is not None else np.zeros(shape)
    if bias.shape != shape:
        raise Declined(Reason.UNREADABLE, f"the bias of {facts.where(node)} has dims {list(bias.shape)}")
    bias[:, :rows] += matrix.float64() @ vector(affine.t, 2, inputs)
    return scaled.plus(SetConstant(node, 3, Exact(matrix.dtype, bias), hint="bias"))


register(**dict.fromkeys(("LSTM", "GRU", "RNN"), Handler(down=down, shift="absorbed")))
