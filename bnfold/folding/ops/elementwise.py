"""Mul, Add, Sub, Div, Neg: with a constant operand they are affines themselves and move along."""

from __future__ import annotations

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.edit import Bypass, SetConstant, plainest
from bnfold.folding import chains, facts
from bnfold.folding.affine import Affine, make
from bnfold.folding.ops import elementwise_nary
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves
from bnfold.ir.tensor import Exact


def up(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Take the node out and ask its operand for both maps; a factor of a product takes a scale into its constant."""
    if not chains.has_constant(node):
        return elementwise_nary.up(node, slot, affine)
    made = node.output(0)
    if affine.is_scale_only and made is not None and elementwise_nary.is_factor(made):
        return _into_constant(node, affine)
    link = chains.arithmetic(node)
    if node.is_op("Add", "Sub") and _adds_axes(link.affine, affine):
        return elementwise_nary.up(node, slot, affine)
    return Step((Bypass(node, (node.inputs[link.slot],)),), requested=((link.slot, affine.after(link.affine)),))


def _adds_axes(own: Affine, affine: Affine) -> bool:
    """Whether both together vary along several axes, by place or by image: no weight further up knows of such."""
    together = np.maximum(own.shape, affine.shape)
    return bool((together > affine.shape).any()) and int((together > 1).sum()) > 1


def _into_constant(node: ir.Node, affine: Affine) -> Step:
    """Return the constant times ``s``. What broadcasts the product may want more axes of it than it has."""
    slot = next(slot for slot, value in enumerate(node.inputs) if analysis.constant(value) is not None)
    held = facts.weight(node, slot)
    fresh = held.float64() * affine.s
    while fresh.ndim > len(held.dims) and fresh.shape[0] == 1:
        fresh = fresh[0]
    return Step((SetConstant(node, slot, Exact(held.dtype, fresh)),))


def down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Take the node out and pass both maps on; a constant takes a mere shift, or the scale of the node before."""
    if not chains.has_constant(node):
        return elementwise_nary.down(node, slot, affine)
    link = chains.arithmetic(node)
    assert link.slot == slot, "the other operand is a constant"
    if node.is_op("Add") and affine.is_shift_only:
        held = facts.weight(node, 1 - slot)
        return Step((SetConstant(node, 1 - slot, Exact(held.dtype, plainest(held.float64() + affine.t))),))
    if node.is_op("Mul") and affine.is_scale_only and _is_scaled(node.input(slot)):
        return _into_constant(node, affine)
    return leaves(link.affine.after(affine), Bypass(node, (node.inputs[link.slot],)))


def _is_scaled(value: ir.Value | None) -> bool:
    """Whether a constant scales the value right before: both could not go further as one, or they would have."""
    producer = value.producer if value is not None else None
    return producer is not None and producer.is_op("Mul", "Div") and chains.has_constant(producer)


def in_place(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Pass a shift through what stays where it is: ``u·(x + t) + v = (u·x + v) + u·t``."""
    if not chains.has_constant(node):
        return elementwise_nary.down(node, slot, affine)
    return leaves(make(np.ones_like(affine.s), chains.arithmetic(node).affine.s * affine.t))


FORMS = {"in place": in_place}

register(
    Mul=Handler(up, down, forms=FORMS, inputs=2),
    Div=Handler(up, down, forms=FORMS, inputs=2),
    Neg=Handler(up, down, forms=FORMS),
    Add=Handler(up, down, elementwise_nary.sum_joint, FORMS, inputs=2),
    Sub=Handler(up, down, elementwise_nary.sum_joint, FORMS, inputs=2),
)
