"""Operators that hand their input on as it is."""

from __future__ import annotations

from bnfold import analysis, ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine
from bnfold.folding.ops.registry import carrier, register
from bnfold.ir.tensor import TP
from bnfold.report.reasons import Declined, Reason


def unchanged(_: ir.Node, affine: Affine) -> Affine:
    """Return what is wanted behind it is wanted before it, and what stands before it stands behind it."""
    return affine


def dropout(node: ir.Node, affine: Affine) -> Affine:
    """Change nothing, unless it drops: training_mode from opset 12 on, ``is_test`` 0 or absent before opset 7.

    Upgrading, which comes first where it was asked for, settles what an absent one means.
    """
    facts.only_output(node)
    held = analysis.constant(mode) if (mode := node.input(2)) is not None else None
    drops = mode is not None and (held is None or bool(held.numpy().reshape(-1)[:1].any()))
    if drops or node.attr("is_test", 1 if node.graph.opset() >= 7 else 0) == 0:
        raise Declined(Reason.TRAINING_MODE, facts.where(node))
    return affine


def reverse_sequence(node: ir.Node, affine: Affine) -> Affine:
    """Let elements of one axis change places, as many as each of another says."""
    if affine.shape[node.attr("time_axis", 0)] != 1:
        raise Declined(Reason.AXIS, f"{facts.where(node)} reverses the scaled axis")
    return affine


def cast_up(node: ir.Node, affine: Affine) -> Affine:
    """Go towards what is cast, if that is at least as wide: rounding behind an affine loses no more than before it.

    A weight keeps the type that it is stored in, and would be rounded to it: powers of two are exact.
    """
    source, made = analysis.constant(node.input(0)), analysis.constant(node.output(0))
    if source is None or made is None:
        _decline_narrower(node, node.output(0), node.input(0))
    elif source.nbytes < made.nbytes and not affine.is_power_of_two:
        raise Declined(Reason.QUANTIZED_WEIGHT, f"{facts.where(node)} reads a smaller type")
    return affine


def cast_down(node: ir.Node, affine: Affine) -> Affine:
    """Go towards the result of the cast, if that is at least as wide."""
    _decline_narrower(node, node.input(0), node.output(0))
    return affine


_WIDTH: dict[int, int] = {TP.FLOAT16: 1, TP.BFLOAT16: 1, TP.FLOAT: 2, TP.DOUBLE: 3}


def _decline_narrower(node: ir.Node, here: ir.Value | None, there: ir.Value | None) -> None:
    old, new = facts.float_type(here), facts.float_type(there)
    if old != new and _WIDTH[old] >= _WIDTH[new]:
        raise Declined(Reason.TYPE, f"{facts.where(node)} would round: the scaled value has a narrower type")


register(
    Identity=carrier(unchanged),
    ReverseSequence=carrier(reverse_sequence),
    Dropout=carrier(dropout),
    Cast=carrier(cast_up, cast_down),
    CastLike=carrier(cast_up, cast_down),
)
