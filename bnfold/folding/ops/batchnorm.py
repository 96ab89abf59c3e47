"""BatchNormalization in the way of another affine: its scale and B take it."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import weights
from bnfold.folding.ops.normaliser import channels_up
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import SetConstant, Step
from bnfold.ir.tensor import Exact
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics import batchnorm as semantics


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """In inference mode ``scale' = scale·s``, ``B' = B + scale·(t + mean·(s − 1))/sqrt(var + epsilon)``."""
    try:  # where an old version leaves the mode open, a caller may read it as training
        norm, strict = semantics.read(node, Policy()), semantics.read(node, Policy(legacy_mode="training"))
        epsilon = semantics.epsilon(node)
    except Unreadable as error:
        raise Declined(Reason.UNREADABLE, error.reason) from error
    if "training" in (norm.mode, strict.mode) or norm.per_activation:
        raise Declined(Reason.SUBGRAPH_STATISTICS, f"{node.op_type} {node.label!r}")
    scale, bias, mean, var = (facts.weight(node, index) for index in (1, 2, 3, 4))
    s, t = weights.on_channels(node, affine, scale.size)
    with np.errstate(all="ignore"):
        slope = scale.float64() / np.sqrt(var.float64() + epsilon)
        shifted = bias.float64() + slope * (t + mean.float64() * (s - 1))
    return Step(
        edits=(
            SetConstant(node, 1, Exact(scale.dtype, s * scale.float64())),
            SetConstant(node, 2, Exact(bias.dtype, shifted)),
        )
    )


register(BatchNormalization=Handler(channels_up, down, shift="absorbed"))
