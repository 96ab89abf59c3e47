"""Operators over several computed values: sums, means, extrema, products. How the affine is divided among operands.

A scale of a sum belongs to every summand and its shift to one of them; a scale of a product belongs to one factor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.edit import Edit, ExtraAdd, SetConstant
from bnfold.folding import chains, facts, shapes
from bnfold.folding.affine import Affine, bounded_together, lifted, make
from bnfold.folding.ops.registry import ALL, Handler, record, register
from bnfold.folding.step import Step, leaves
from bnfold.ir.tensor import Exact
from bnfold.report.reasons import Declined, Reason

SUMS = ("Add", "Sub", "Sum")
EXTREMA = ("Max", "Min")


def up(node: ir.Node, _: int, affine: Affine) -> Step:
    """Let the node compute ``affine`` of what it computes now."""
    chains.decline_legacy(node)
    if node.op_type in ("Mul", "Div"):
        return _product_up(node, affine)
    if node.op_type in EXTREMA and (affine.s < 0).any():
        raise Declined(Reason.NEGATIVE_SCALE, facts.where(node))
    receiver = _receiver(node, affine) if node.op_type in SUMS and not affine.is_scale_only else None
    edits: list[Edit] = []
    operands: list[tuple[int, Affine]] = []
    for slot, value in _operands(node):
        if value is None:
            raise Declined(Reason.UNREADABLE, facts.where(node))
        requested = affine if receiver is None and node.op_type not in SUMS else affine.scale_part()
        if slot == receiver:
            requested = Affine(affine.s, -affine.t if node.op_type == "Sub" and slot == 1 else affine.t)
        held = analysis.constant(value)
        if held is not None:
            fresh = requested.s * lifted(held.float64(), affine.rank) + requested.t
            edits.append(SetConstant(node, slot, Exact(held.dtype, fresh)))
        else:
            operands.append((slot, fitted(node, value, requested)))
    return Step(tuple(edits), requested=tuple(operands))


def _operands(node: ir.Node) -> list[tuple[int, ir.Value | None]]:
    """Return what is added, compared or chosen from; not what Where chooses by."""
    return list(enumerate(node.inputs))[node.op_type == "Where" :]


def _receiver(node: ir.Node, affine: Affine) -> int:
    """Return the operand that takes the shift.

    A constant one, one made by something with a bias, or the first that fits.
    """
    fitting = [slot for slot, value in enumerate(node.inputs) if value is not None and _fits(value, affine)]
    if not fitting:
        raise Declined(Reason.AXIS, f"every operand of {facts.where(node)} is broadcast")
    return min(fitting, key=lambda slot: (_reluctance(node.inputs[slot]), slot))


def _reluctance(value: ir.Value | None) -> int:
    if value is None or (analysis.constant(value) is not None):
        return 0
    if value.producer is None or len(value.uses) > 1:
        return 3
    takes_shift = record(value.producer).shift in ("absorbed", "vanishes") or value.producer.is_op(*SUMS)
    return 1 if takes_shift else 2


def _product_up(node: ir.Node, affine: Affine) -> Step:
    """Use ``s·(x·y) + t``: ``s`` to one factor (of a quotient: what is divided), ``t`` stays behind."""
    slots = [0] if node.op_type == "Div" else range(len(node.inputs))
    scale = affine.scale_part()
    fitting = {slot: value for slot in slots if (value := node.inputs[slot]) is not None and _fits(value, scale)}
    if not fitting:
        raise Declined(Reason.AXIS, f"every operand of {facts.where(node)} is broadcast")
    factors = {slot: value for slot in slots if (value := node.inputs[slot]) is not None and is_factor(value)}
    broadcast = {slot: value for slot, value in factors.items() if len(fitting) > 1 or slot not in fitting}
    slot, value = min(
        (fitting | broadcast).items(), key=lambda item: (item[0] not in broadcast and _reluctance(item[1]) > 1, item[0])
    )
    edits = () if affine.is_scale_only else (ExtraAdd(node, 0, affine.t, facts.float_type(node.output(0))),)
    return Step(edits, requested=((slot, fitted(node, value, scale) if slot in fitting else scale),))


def is_factor(value: ir.Value) -> bool:
    """Whether one node reads what a constant is multiplied into, and nothing further up could take a scale."""
    node = value.producer
    if node is None or not node.is_op("Mul") or value.only_consumer is None or node.has_attr("broadcast"):
        return False
    sources = [source for source in node.inputs if source is not None and analysis.constant(source) is None]
    if len(sources) != 1 or len(node.inputs) != 2:
        return False
    producer = sources[0].producer
    return producer is None or record(producer).up is None or sources[0].slot >= record(producer).outputs


def down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Let the node read its operand without ``affine``. Returns the affine of its output."""
    chains.decline_legacy(node)
    if node.op_type in SUMS:
        return sum_joint(node, {slot: affine})
    pending = _in_full_rank(node, {slot: affine})[slot]
    if node.op_type in EXTREMA or node.op_type == "Where":
        return _extremum_down(node, slot, pending)
    if not affine.is_scale_only:
        raise Declined(Reason.SHIFT_NO_ROOM, facts.where(node))
    if node.op_type == "Div" and slot == 1:
        if (affine.s == 0).any():
            raise Declined(Reason.ZERO_SCALE, facts.where(node))
        pending = make(1.0 / pending.s, pending.t)
    return leaves(pending)


def where_joint(node: ir.Node, pending: Mapping[int, Affine]) -> Step:
    """Use ``where(m, s·x + t, s·y + t) = s·where(m, x, y) + t``."""
    one, *others = _in_full_rank(node, pending).values()
    if pending.keys() != {1, 2} or not all(other.same(one) for other in others):
        raise Declined(Reason.NO_HANDLER, f"the operands of {facts.where(node)} are scaled differently")
    return leaves(one)


def sum_joint(node: ir.Node, pending: Mapping[int, Affine]) -> Step:
    """Use ``(s·x + t) + (s·y + u) + z = s·(x + y + z/s) + (t + u)``: operands on which nothing stands are rescaled."""
    chains.decline_legacy(node)
    whole = _in_full_rank(node, pending)
    scale = next(iter(whole.values())).s
    if not all(np.array_equal(affine.s, scale) for affine in whole.values()):
        raise Declined(Reason.NO_HANDLER, f"the operands of {facts.where(node)} are scaled differently")
    bounded_together(*(affine.t for affine in whole.values()))
    signs = {slot: -1.0 if node.op_type == "Sub" and slot == 1 else 1.0 for slot in whole}
    left = make(scale, sum((signs[slot] * whole[slot].t for slot in whole), np.zeros(())))
    return Step(requested=_rescaled(node, pending, left.scale_part()), pending=((0, left),))


def _in_full_rank(node: ir.Node, pending: Mapping[int, Affine]) -> dict[int, Affine]:
    """Return the affines of operands, in the rank of the node's output."""
    output = node.output(0)
    rank = shapes.rank(output) if output is not None else max(affine.rank for affine in pending.values())
    return {slot: affine.lifted(rank) for slot, affine in pending.items()}


def _rescaled(node: ir.Node, pending: Mapping[int, Affine], scale: Affine) -> tuple[tuple[int, Affine], ...]:
    """Return the affine requested from operands without one, if the others have a scale."""
    others = [(slot, value) for slot, value in enumerate(node.inputs) if slot not in pending and value is not None]
    if scale.is_identity or not others:
        return ()
    inverse = scale.inverse(half=facts.is_half(node.output(0)))
    if not inverse.is_finite:
        raise Declined(Reason.ZERO_SCALE, facts.where(node))
    return tuple(
        (slot, inverse if analysis.constant(value) is not None else fitted(node, value, inverse))
        for slot, value in others
    )


def _extremum_down(node: ir.Node, slot: int, affine: Affine) -> Step:
    """Use ``max(s·x + t, c) = s·max(x, (c − t)/s) + t`` for constant ``c`` and ``s > 0``; Where for any but 0."""
    if (affine.s == 0).any() or (node.op_type in EXTREMA and (affine.s < 0).any()):
        raise Declined(Reason.NEGATIVE_SCALE if (affine.s < 0).any() else Reason.ZERO_SCALE, facts.where(node))
    edits = []
    for other, value in _operands(node):
        if other == slot:
            continue
        held = analysis.constant(value)
        if held is None:
            raise Declined(Reason.NO_HANDLER, f"the other operands of {facts.where(node)} are not scaled")
        block = lifted(held.float64(), affine.rank)
        bounded_together(block, affine.s, affine.t)
        fresh = (block - affine.t) / affine.s
        edits.append(SetConstant(node, other, Exact(held.dtype, fresh)))
    return leaves(affine, *edits)


def _fits(value: ir.Value, affine: Affine) -> bool:
    """Whether every axis that the affine varies along is there in full."""
    dims = shapes.known_dims(value) if any(size > 1 for size in affine.shape) else (None,) * shapes.rank(value)
    if dims is None or len(dims) > affine.rank:
        return False
    shape, missing = affine.shape, affine.rank - len(dims)
    return all(size == 1 for size in shape[:missing]) and all(
        size in (1, dim) for size, dim in zip(shape[missing:], dims, strict=True)
    )


def fitted(node: ir.Node, value: ir.Value, affine: Affine) -> Affine:
    """Return the affine in the operand's own rank. Raises Declined where the operand is broadcast along its axes."""
    if not _fits(value, affine):
        raise Declined(Reason.AXIS, f"{facts.where(node)} broadcasts value {value.name!r} along the scaled axis")
    missing = affine.rank - shapes.rank(value)
    return affine.map(lambda block: block.reshape(block.shape[missing:]))


register(
    Sum=Handler(up, down, sum_joint, inputs=ALL),
    Mean=Handler(up),
    Max=Handler(up, down, inputs=ALL),
    Min=Handler(up, down, inputs=ALL),
    Where=Handler(up, down, where_joint, inputs=3),
)
