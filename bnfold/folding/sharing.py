"""Values with several readers: what the others have to undo when one changes, and what each wishes of parts of it."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.folding import facts
from bnfold.folding.affine import Affine, every, vector
from bnfold.folding.ask import ask
from bnfold.folding.chains import Chain
from bnfold.folding.draft import Draft
from bnfold.folding.ops import record
from bnfold.ir.traits import COMBINING
from bnfold.report.reasons import Declined
from bnfold.semantics import batchnorm

FARTHEST = 16.0
"""How many deviations from zero the mean of a value may be that has to be shifted back: so many digits it costs."""


def inverse(value: ir.Value, affine: Affine, draft: Draft) -> Affine:
    """What a reader of ``value`` has to undo once that is ``affine`` of itself; NaN where digits would be lost."""
    undone = affine.inverse(half=facts.is_half(value))
    # A value lies where the one does that the chain normalises; a summand need not.
    is_alike = value is draft.chain.source or not any(node.has_trait(COMBINING) for node in draft.nodes)
    if affine.is_scale_only or (is_alike and _is_near_zero(draft.chain)):
        return undone
    return Affine(undone.s, np.where(undone.t == 0, 0.0, np.nan))


def _is_near_zero(chain: Chain) -> bool:
    """Whether what the chain makes is near zero in every channel, as its own statistics tell."""
    node = chain.links[0].node
    if not node.is_op("BatchNormalization"):
        return False
    mean, var = (facts.weight(node, slot).float64().reshape(-1) for slot in (3, 4))
    axis = min(1, chain.affine.rank - 1)
    try:
        s, t = (vector(block, axis, mean.size) for block in (chain.affine.s, chain.affine.t))
    except ValueError:  # parameters for every activation
        return False
    room = FARTHEST * np.abs(s) * (np.sqrt(var + batchnorm.epsilon(node)) + np.abs(mean))
    return every(np.abs(s * mean + t) <= room)


def untouched(value: ir.Value, use: tuple[ir.Node, int], affine: Affine) -> bool:
    """Whether a reader takes only such elements of the value as ``affine`` leaves alone."""
    node, slot = use
    if node.graph is not value.graph or not record(node).picks:
        return False
    try:
        step = ask(node, "down", {slot: affine})
    except Declined:
        return False
    return not step.edits and not step.wanted and all(standing.is_identity for _, standing in step.standing)


def readers(value: ir.Value) -> str:
    """How a refusal tells that there are several."""
    return f"value {value.name!r} is read by {len(value.uses)} nodes"


def note(draft: Draft, wanted: Affine, edge: tuple[ir.Node, int], depth: int) -> None:
    """Note a wish. Of one Split, every output wishes for its own stretch and leaves the others' alone."""
    wishes = draft.picked.setdefault(facts.operand(*edge), {})
    before = wishes.get(edge)
    wishes[edge] = (wanted if before is None else wanted.after(before[0]), depth)


def reads_same_elements(edge: tuple[ir.Node, int], wanted: Affine, whole: Affine) -> bool:
    """Whether a reader of parts gets the same from ``whole`` as from what it wished for."""
    node, slot = edge
    try:
        ours, theirs = (ask(node, "down", {slot: affine}).standing for affine in (wanted, whole))
    except Declined:
        return False
    return all(mine.same(other) for (_, mine), (_, other) in zip(ours, theirs, strict=True))
