"""BatchNormalization in the way of another affine: its scale and B take it."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.edits.edit import SetConstant
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import weights
from bnfold.folding.ops.norms import channels_up
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.ir.elements import Bools
from bnfold.ir.tensor import TP, Exact, Float64, Tensor
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import Policy, Unreadable
from bnfold.semantics import batchnorm as semantics


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Change the statistics, in inference mode, to those of what is read now.

    ``mean' = (mean − t)/s``, ``var' = var/s²``.

    So they go on telling where the value lies. A channel whose variance cannot be stored puts the factor into its
    scale, ``scale' = scale·s``; only where the mean cannot be stored either, which costs digits, the shift goes into B:
    ``B' = B + scale·(t + mean·(s − 1))/sqrt(var + epsilon)``.
    """
    try:  # where an old version leaves the mode open, a caller may read it as training
        norm, strict = (
            semantics.read_batchnorm(node, Policy()),
            semantics.read_batchnorm(node, Policy(legacy_mode="training")),
        )
        epsilon = semantics.epsilon(node)
    except Unreadable as error:
        raise Declined(Reason.UNREADABLE, error.reason) from error
    if "training" in (norm.mode, strict.mode) or norm.per_activation:
        raise Declined(Reason.SUBGRAPH_STATISTICS, f"{node.op_type} {node.label!r}")
    tensors = [facts.weight(node, slot) for slot in (1, 2, 3, 4)]
    if len({tensor.dims for tensor in tensors}) > 1:
        raise Declined(Reason.UNREADABLE, f"the parameters of {facts.where(node)} have different sizes")
    scale, bias, mean, var = before = [tensor.float64() for tensor in tensors]
    s, t = weights.on_channels(node, affine, scale.size)
    with np.errstate(all="ignore"):
        moved, spread = (mean - t) / s, (var + epsilon) / s**2 - epsilon
        shifted = bias + scale / np.sqrt(var + epsilon) * (t + mean * (s - 1))
        near = (moved == 0) | _is_ordinary(np.abs(moved), tensors[2])
        fits = near & _is_ordinary(spread, tensors[3])
    kept = (np.sign(s) * scale, bias, moved, spread)
    instead = (s * scale, np.where(near, bias, shifted), np.where(near, moved, mean), var)
    return Step(
        tuple(
            SetConstant(node, slot, Exact(tensors[slot - 1].dtype, fresh))
            for slot, old in enumerate(before, 1)
            if not np.array_equal(fresh := np.where(fits, kept[slot - 1], instead[slot - 1]), old)
        )
    )


def _is_ordinary(numbers: Float64, stored: Tensor) -> Bools:
    """Whether numbers are stored with all digits of their type, and room for more."""
    largest = 2.0**14 if stored.dtype == TP.FLOAT16 else 1e20
    return np.asarray((numbers > 1 / largest) & (numbers < largest))


register(BatchNormalization=Handler(channels_up, down, shift="absorbed"))
