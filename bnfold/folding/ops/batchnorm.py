"""BatchNormalization in the way of another affine: its scale and B take it."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine, vector
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import SetConstant, Step
from bnfold.ir.tensor import Exact
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics import batchnorm as semantics


def up(node: ir.Node, slot: int, affine: Affine) -> Step:
    """``scale' = s·scale``, ``B' = s·B + t``; in training mode too, whose statistics do not depend on either."""
    if slot != 0:
        raise Declined(Reason.SUBGRAPH_STATISTICS, f"{node.op_type} {node.label!r}")
    if not affine.varies_only_on(1):
        raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} scales channels only")
    scale, bias = facts.weight(node, 1), facts.weight(node, 2)
    if len(scale.dims) != 1:
        raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} has parameters for single activations")
    s, t = vector(affine.s, 1, scale.size), vector(affine.t, 1, scale.size)
    return Step(
        edits=(
            SetConstant(node, 1, Exact(scale.dtype, s * scale.float64())),
            SetConstant(node, 2, Exact(bias.dtype, s * bias.float64() + t)),
        )
    )


def down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """In inference mode ``scale' = scale·s``, ``B' = B + scale·(t + mean·(s − 1))/sqrt(var + epsilon)``."""
    try:  # where an old version leaves the mode open, a caller may read it as training
        norm, strict = semantics.read(node, Policy()), semantics.read(node, Policy(legacy_mode="training"))
    except Unreadable as error:
        raise Declined(Reason.UNREADABLE, error.reason) from error
    if slot != 0 or "training" in (norm.mode, strict.mode) or norm.per_activation:
        raise Declined(Reason.SUBGRAPH_STATISTICS, f"{node.op_type} {node.label!r}")
    if not affine.varies_only_on(1):
        raise Declined(Reason.AXIS, f"{node.op_type} {node.label!r} scales channels only")
    scale, bias, mean, var = (facts.weight(node, index) for index in (1, 2, 3, 4))
    s, t = vector(affine.s, 1, scale.size), vector(affine.t, 1, scale.size)
    with np.errstate(all="ignore"):
        slope = scale.float64() / np.sqrt(var.float64() + norm.epsilon)
        shifted = bias.float64() + slope * (t + mean.float64() * (s - 1))
    return Step(
        edits=(
            SetConstant(node, 1, Exact(scale.dtype, s * scale.float64())),
            SetConstant(node, 2, Exact(bias.dtype, shifted)),
        )
    )


register(BatchNormalization=Handler(up, down, shift="absorbed"))
