"""Operators that hand their input on as it is."""

from __future__ import annotations

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops.registry import Handler, register
from bnfold.folding.step import Step, leaves, wants
from bnfold.ir.tensor import TP
from bnfold.report.reasons import Declined, Reason


def up(_node: ir.Node, _: int, affine: Affine) -> Step:
    """What is wanted behind it is wanted before it."""
    return wants(affine)


def down(_node: ir.Node, _: int, affine: Affine) -> Step:
    """What stands before it stands behind it."""
    return leaves(affine)


def dropout_up(node: ir.Node, slot: int, affine: Affine) -> Step:
    """As `up`, where nothing is dropped."""
    _decline_training(node)
    return up(node, slot, affine)


def dropout_down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """As `down`, where nothing is dropped."""
    _decline_training(node)
    return down(node, slot, affine)


def reverse_up(node: ir.Node, _: int, affine: Affine) -> Step:
    """ReverseSequence: elements of one axis change places, as many as each of another says."""
    _check_reversed(node, affine)
    return wants(affine)


def reverse_down(node: ir.Node, _: int, affine: Affine) -> Step:
    """As `reverse_up`."""
    _check_reversed(node, affine)
    return leaves(affine)


def _check_reversed(node: ir.Node, affine: Affine) -> None:
    if affine.shape[node.attr("time_axis", 0)] != 1:
        raise Declined(Reason.AXIS, f"{facts.where(node)} reverses the scaled axis")


def cast_up(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Towards what is cast, if that is at least as wide: rounding behind an affine loses no more than before it.

    A weight keeps the type that it is stored in, and would be rounded to it: powers of two are exact.
    """
    source, made = ir.constant(node.input(0)), ir.constant(node.output(0))
    if source is None or made is None:
        _decline_narrower(node, node.output(0), node.input(0))
    elif source.nbytes < made.nbytes and not affine.is_power_of_two:
        raise Declined(Reason.QUANTIZED_WEIGHT, f"{facts.where(node)} reads a smaller type")
    return up(node, slot, affine)


def cast_down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Towards the result of the cast, if that is at least as wide."""
    _decline_narrower(node, node.input(0), node.output(0))
    return down(node, slot, affine)


_WIDTH: dict[int, int] = {TP.FLOAT16: 1, TP.BFLOAT16: 1, TP.FLOAT: 2, TP.DOUBLE: 3}


def _decline_narrower(node: ir.Node, here: ir.Value | None, there: ir.Value | None) -> None:
    old, new = facts.float_type(here), facts.float_type(there)
    if old != new and _WIDTH[old] >= _WIDTH[new]:
        raise Declined(Reason.TYPE, f"{facts.where(node)} would round: the scaled value has a narrower type")


def _decline_training(node: ir.Node) -> None:
    """A Dropout that drops is no identity: training_mode from opset 12 on, ``is_test`` 0 or absent before opset 7.

    Upgrading, which comes first where it was asked for, settles what an absent one means.
    """
    facts.only_output(node)
    if node.attr("is_test", 1 if node.graph.opset() >= 7 else 0) == 0:
        raise Declined(Reason.TRAINING_MODE, f"{node.op_type} {node.label!r}")
    mode = node.input(2)
    if mode is None:
        return
    held = ir.constant(mode)
    if held is None or bool(held.numpy().reshape(-1)[:1].any()):
        raise Declined(Reason.TRAINING_MODE, f"{node.op_type} {node.label!r}")


register(
    Identity=Handler(up, down),
    ReverseSequence=Handler(reverse_up, reverse_down),
    Dropout=Handler(dropout_up, dropout_down),
    Cast=Handler(cast_up, cast_down),
    CastLike=Handler(cast_up, cast_down),
)
