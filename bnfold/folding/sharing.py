"""Several readers of one value: whether the others would notice that it changes, and what they wish of parts of it."""

from __future__ import annotations

from bnfold import ir
from bnfold.folding.affine import Affine
from bnfold.folding.ask import ask
from bnfold.folding.ops import record
from bnfold.folding.step import Draft
from bnfold.report.reasons import Declined, Reason


def check_free(draft: Draft, value: ir.Value, reader: ir.Node, affine: Affine, depth: int) -> None:
    """Decline unless the value may change its meaning. Readers beside ``reader`` may yet turn up on another arm."""
    if value.graph is not reader.graph:
        raise Declined(Reason.BARRIER, f"value {value.name!r}", depth)
    if value.is_output:
        raise Declined(Reason.GRAPH_OUTPUT, f"value {value.name!r}", depth)
    if value.only_use is not None:
        return
    others = [use for use in value.uses if use[0] is not reader]
    if not draft.forks and not all(untouched(value, use, affine) for use in others):
        raise Declined(Reason.SHARED_VALUE, readers(value), depth)
    draft.shared.append((value, depth))


def untouched(value: ir.Value, use: tuple[ir.Node, int], affine: Affine) -> bool:
    """Whether a reader takes only such elements of the value as ``affine`` leaves alone."""
    node, slot = use
    if node.graph is not value.graph or not record(node).picks:
        return False
    try:
        step = ask(node, "down", slot, affine)
    except Declined:
        return False
    return not step.edits and not step.wanted and all(standing.is_identity for _, standing in step.standing)


def readers(value: ir.Value) -> str:
    """How a refusal tells that there are several."""
    return f"value {value.name!r} is read by {len(value.uses)} nodes"


def note(draft: Draft, value: ir.Value, wanted: Affine, edge: tuple[ir.Node, int], depth: int) -> None:
    """Note a wish. Of one Split, every output wishes for its own stretch and leaves the others' alone."""
    wishes = draft.picked.setdefault(value, {})
    before = wishes.get(edge)
    wishes[edge] = (wanted if before is None else wanted.after(before[0]), depth)


def reads_same_elements(edge: tuple[ir.Node, int], wanted: Affine, whole: Affine) -> bool:
    """Whether a reader of parts gets the same from ``whole`` as from what it wished for."""
    node, slot = edge
    try:
        ours, theirs = (ask(node, "down", slot, affine).standing for affine in (wanted, whole))
    except Declined:
        return False
    return all(mine.same(other) for (_, mine), (_, other) in zip(ours, theirs, strict=True))
