"""onnxruntime's FusedConv: ``f(W⋆x + b + z)``, a Conv, what is added to it, an activation, all optional."""

from __future__ import annotations

from bnfold import ir
from bnfold.edits.edit import Edit, ExtraAdd
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops import conv, weights
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step
from bnfold.report.reasons import Declined, Reason


def up(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Do as a Conv, and scale what is added with it. Behind a Relu or LeakyRelu, positive scales; the shift stays."""
    function = node.attr("activation", "")
    stays: tuple[Edit, ...] = ()
    if function not in ("", "Relu", "LeakyRelu"):
        raise Declined(Reason.NO_HANDLER, f"{facts.where(node)} ends in {function}")
    if function and (affine.s < 0).any():
        raise Declined(Reason.NEGATIVE_SCALE, facts.where(node))
    if function and not affine.is_scale_only:
        stays = (ExtraAdd(node, 0, affine.t, weights.shape_of(node, 1).dtype),)
        affine = affine.scale_part()
    step = conv.up(node, slot, affine)
    added = ((3, affine.scale_part()),) if node.input(3) is not None else ()
    return Step((*step.edits, *stays), (*step.requested, *added))


register(FusedConv=Handler(up, conv.down, shift="absorbed"))
