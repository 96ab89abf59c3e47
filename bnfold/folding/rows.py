"""Where a search may start: the row of affine nodes around a BatchNormalization, and parts of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bnfold import ir
from bnfold.folding import recognise
from bnfold.folding.ask import guarded
from bnfold.folding.recognise import Chain, Link
from bnfold.ir.traits import ARITHMETIC
from bnfold.report.reasons import Declined
from bnfold.semantics import Policy

MAX_ROW = 64
"""Affines that move as one; a longer row takes several plans."""


def around(node: ir.Node, policy: Policy) -> Iterator[Chain]:
    """The whole row of affines around a BatchNormalization, then its neighbours folded into it, then it alone.

    Of one that is spelled out, which ``node`` is a part of, the whole row only. Raises Declined where it is no affine.
    """
    middle = guarded(node, recognise.link, node, policy)
    before, behind = _row_before(middle, policy), _row_behind(middle, policy)
    yield recognise.chain([*before, middle, *behind])
    if not node.is_op("BatchNormalization") or not (before or behind):
        return
    if behind:
        yield recognise.chain(behind)
    if before:
        yield recognise.chain(before)
    yield recognise.chain([middle])


def without_batchnorm(model: ir.Model, policy: Policy) -> Iterator[Chain]:
    """Every row of constant Mul, Add, Sub, Div and Neg, each found at its first node, and then its single nodes."""
    for row in all_of([node for node in model.nodes() if node.has_trait(ARITHMETIC)], policy):
        try:
            whole = recognise.chain(row)
        except Declined:  # together they are too large
            continue
        yield whole
        for single in row if len(row) > 1 else ():
            # A neighbour that was folded may have left its shift in the constant.
            if not single.node.removed and (found := _link(single.node, policy)) is not None:
                yield recognise.chain([found])


def all_of(nodes: Iterable[ir.Node], policy: Policy) -> Iterator[list[Link]]:
    """The whole row of each node that starts one, and still is there when its turn comes."""
    for node in nodes:
        if not node.removed and (first := _link(node, policy)) is not None and not _row_before(first, policy):
            yield [first, *_row_behind(first, policy)]


def _row_before(link: Link, policy: Policy) -> list[Link]:
    row: list[Link] = []
    source = link.node.inputs[link.slot]
    while source is not None and source.producer is not None and len(row) < MAX_ROW:
        found = _link(source.producer, policy) if source.only_reader is not None else None
        if found is None:
            break
        row.append(found)
        source = found.node.inputs[found.slot]
    return row[::-1]


def _row_behind(link: Link, policy: Policy) -> list[Link]:
    row: list[Link] = []
    value = link.node.outputs[0]
    while value is not None and (reader := value.only_reader) is not None and len(row) < MAX_ROW:
        found = _link(reader, policy)
        if found is None or found.node.inputs[found.slot] is not value:
            break
        row.append(found)
        value = reader.outputs[0]
    return row


def _link(node: ir.Node, policy: Policy) -> Link | None:
    if not (node.is_op("BatchNormalization") or node.has_trait(ARITHMETIC)):
        return None
    try:
        return guarded(node, recognise.link, node, policy)
    except Declined:
        return None
