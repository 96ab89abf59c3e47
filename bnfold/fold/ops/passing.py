"""Operators that hand their input on as it is."""

from __future__ import annotations

from bnfold import ir
from bnfold.fold import facts
from bnfold.fold.affine import Affine
from bnfold.fold.step import Step
from bnfold.reasons import Declined, Reason


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    return Step(demands=((0, affine),))


def down(node: ir.Node, _: int, affine: Affine) -> Step:
    return Step(demands=((0, affine),))


def dropout_up(node: ir.Node, slot: int, affine: Affine) -> Step:
    _decline_training(node)
    return up(node, slot, affine)


def dropout_down(node: ir.Node, slot: int, affine: Affine) -> Step:
    _decline_training(node)
    return down(node, slot, affine)


def _decline_training(node: ir.Node) -> None:
    """A Dropout that drops is no identity: training_mode from opset 12 on, ``is_test=0`` written out before opset 7."""
    facts.only_output(node)
    if node.attr("is_test", 1) == 0:
        raise Declined(Reason.TRAINING_MODE, f"{node.op_type} {node.label!r}")
    mode = node.input(2)
    if mode is None:
        return
    held = ir.constant(mode)
    if held is None or bool(held.numpy().reshape(-1)[:1].any()):
        raise Declined(Reason.TRAINING_MODE, f"{node.op_type} {node.label!r}")
