"""Readers of parts of a value, which wish something of that part only: several wishes for one value become one."""

from __future__ import annotations

from bnfold import ir
from bnfold.folding.affine import Affine
from bnfold.folding.ask import ask
from bnfold.folding.step import Draft
from bnfold.report.reasons import Declined


def note(draft: Draft, value: ir.Value, wanted: Affine, edge: tuple[ir.Node, int], depth: int) -> None:
    """Note a wish. Of one Split, every output wishes for its own stretch and leaves the others' alone."""
    wishes = draft.picked.setdefault(value, {})
    before = wishes.get(edge)
    wishes[edge] = (wanted if before is None else wanted.after(before[0]), depth)


def sees_alike(edge: tuple[ir.Node, int], wanted: Affine, whole: Affine) -> bool:
    """Whether a reader of parts gets the same from ``whole`` as from what it wished for."""
    node, slot = edge
    try:
        ours, theirs = (ask(node, "down", slot, affine).standing for affine in (wanted, whole))
    except Declined:
        return False
    return all(mine.same(other) for (_, mine), (_, other) in zip(ours, theirs, strict=True))
