"""Positively homogeneous functions, ``f(s·x) = s·f(x)`` for ``s > 0``: Relu, LeakyRelu, PRelu, Abs.

They carry a scale. A shift stays on the side it came from, as an Add in the place of a whole BatchNormalization.
"""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.edits.edit import ExtraAdd
from bnfold.folding import facts
from bnfold.folding.affine import Affine, make
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.ir.tensor import Float64
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``s·f(x) + t = f(s·x) + t``, for ``s ≥ 0`` as f(0) = 0."""
    if (affine.s < 0).any():
        raise Declined(Reason.NEGATIVE_SCALE, facts.where(node))
    edits = () if affine.is_scale_only else (ExtraAdd(node, 0, affine.t, facts.float_type(node.output(0))),)
    return wants(affine.scale_part(), *edits)


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    """Use ``f(s·x + t) = s·f(x + t/s)``; where ``s`` is 0 it is the constant ``f(t)``."""
    if (affine.s < 0).any():
        raise Declined(Reason.NEGATIVE_SCALE, facts.where(node))
    if affine.is_scale_only:
        return leaves(affine)
    with np.errstate(all="ignore"):
        block = np.where(affine.s == 0, 0.0, affine.t / affine.s)
    dead = (affine.s == 0) & (affine.t != 0)
    left = np.where(dead, _value(node, affine.t), 0.0) if dead.any() else np.zeros((1,) * affine.rank)
    before = ExtraAdd(node, 0, block, facts.float_type(node.input(0)), "before")
    return leaves(make(affine.s, left), *((before,) if block.any() else ()))


def _value(node: ir.Node, x: Float64) -> Float64:
    """Compute f itself, for channels that are constant."""
    if node.op_type == "Relu":
        return np.maximum(x, 0.0)
    if node.op_type == "Abs":
        return np.abs(x)
    if node.op_type == "LeakyRelu":
        return np.where(x < 0, float(np.float32(node.attr("alpha", 0.01))) * x, x)
    raise Declined(Reason.ZERO_SCALE, facts.where(node))


register(
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "Abs"), Handler(up, down, shift="stops")),
    Mish=Handler(declines="has no factor for which f(s·x) is s·f(x)"),
)
