"""Whether a row of affines that adds nothing may go or move: the sign of a zero may change, which a node may show.

Adding 0 turns -0.0 into 0.0, and a factor that is left does not. A sum of zeros is 0.0, so that a negative factor makes
-0.0 of it behind the sum, but not in front; a factor of 0 makes zeros of either sign; and a factor behind
a sum would take a stored 0 out of it. A BatchNormalization moves all the
same, unless it multiplies by 1: it goes into weights, and a sum of rounded products may have either sign.
"""

from __future__ import annotations

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.traits import BLIND_TO_ZERO_SIGN
from bnfold.folding import facts
from bnfold.folding.chains import AffineChain
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics.neutral import returns_operand

_MOST_BYTES = 1 << 16
"""Bytes of a constant that is looked at."""


def check(chain: AffineChain) -> None:
    """Raise Declined if a row that adds nothing may change the sign of a zero, and a node behind it shows that."""
    if chain.batchnorms and not chain.affine.is_identity:
        return
    is_kept = chain.affine.t == 0
    front = chain.source.producer
    is_behind_sum = front is not None and front.is_op("Add", "Sub", "Sum") and not chain.affine.is_identity
    turns = bool((np.where(is_kept, chain.affine.s, 1.0) <= 0).any())
    turns = turns or (bool(is_kept.any()) and (is_behind_sum or any(map(_adds_zero, chain.links))))
    if turns and (node := _pole_behind(chain.target)) is not None:
        raise Declined(Reason.ZERO_SIGN, facts.where(node))


def _adds_zero(link: tuple[ir.Node, int, object]) -> bool:
    """Whether a node may turn -0.0 into 0.0; factors alone keep zeros apart."""
    node, slot, _ = link
    return not node.is_op("Div", "Mul", "Neg") and not returns_operand(node, slot, None)


def _pole_behind(value: ir.Value) -> ir.Node | None:
    """Return a node that may make another number of a zero that has the other sign."""
    waiting, seen = [value], {value}
    while waiting:
        read = waiting.pop()
        for node, slot in read.uses:
            if _has_pole(node, slot):
                return node
            if not _hides_sign(node, slot):
                made = [each for each in node.outputs if each is not None and each not in seen]
                waiting += made
                seen.update(made)
        parent = read.graph.parent
        if read.is_output and parent is not None:  # of a branch or a body
            return parent
    return None


def _has_pole(node: ir.Node, slot: int) -> bool:
    if node.domain or node.is_call or node.subgraphs:  # it may do anything
        return True
    if node.is_op("Pow") and slot == 0:
        exponent = analysis.constant(node.input(1))
        return exponent is None or not (exponent.numpy() >= 0).all()
    return node.is_op("BitCast", "Reciprocal") or (node.is_op("Div") and slot == 1)


def _hides_sign(node: ir.Node, slot: int) -> bool:
    if node.has_trait(BLIND_TO_ZERO_SIGN):
        return True
    if node.is_op("Mul") and node.input(0) is node.input(1):
        return True
    other = node.input(1 - slot) if node.is_op("Add", "Sub") else None
    if other is None or other.stored_bytes > _MOST_BYTES:
        return False
    held = analysis.constant(other)
    return held is not None and bool(held.numpy().all())
