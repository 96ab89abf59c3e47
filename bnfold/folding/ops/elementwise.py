"""Mul, Add, Sub, Div, Neg: with a constant operand they are affines themselves and move along."""

from __future__ import annotations

from bnfold import ir
from bnfold.folding import recognise
from bnfold.folding.affine import Affine
from bnfold.folding.ops import nary
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Bypass, Step, leaves


def up(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Take the node out and ask its operand for both maps."""
    if not recognise.has_constant(node):
        return nary.up(node, slot, affine)
    link = recognise.arithmetic(node)
    return Step((Bypass(node, link.slot),), wanted=((link.slot, affine.after(link.affine)),))


def down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Take the node out and pass both maps on."""
    if not recognise.has_constant(node):
        return nary.down(node, slot, affine)
    link = recognise.arithmetic(node)
    assert link.slot == slot, "the other operand is a constant"
    return leaves(link.affine.after(affine), Bypass(node, link.slot))


register(
    Mul=Handler(up, down, inputs=2),
    Div=Handler(up, down, inputs=2),
    Neg=Handler(up, down),
    Add=Handler(up, down, nary.sum_joint, inputs=2),
    Sub=Handler(up, down, nary.sum_joint, inputs=2),
)
