"""Zeros of both signs, which serve poles: 1 / x is another number for each, and nothing else shows which it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.reference.operators import HIDING, WEIGHTED
from bnfold.verification.changes.partly import may_have_pole
from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.tolerance.floats import is_float_array

_SHARE = 1 / 3
"""Of the numbers that become zeros."""


def signs_may_show(old: Collection[ir.Node], new: Collection[ir.Node]) -> bool:
    """Whether a pole may show the sign of a zero.

    If another operator chooses the larger number, as a Relu and a Clip do, no text says which zero that is.
    """
    choosing = [Counter(node.op_type for node in nodes if node.has_trait(HIDING)) for nodes in (old, new)]
    return choosing[0] == choosing[1] and any(map(may_have_pole, (*old, *new)))


def makes_zeros(nodes: Collection[ir.Node]) -> bool:
    """Whether zeros among what a part is fed may be zeros in its results: sums of many products are none."""
    return not any(node.has_trait(WEIGHTED) or node.is_op("BatchNormalization", "Gemm", "MatMul") for node in nodes)


def signs_differ(old: Iterable[Array], new: Iterable[Array]) -> bool:
    """Whether zeros of the results have other signs."""
    pairs = [(one, other) for one, other in zip(old, new, strict=True) if is_float_array(one) and is_float_array(other)]
    return any(one.shape == other.shape and bool(_exchanged(one, other).any()) for one, other in pairs)


def at_zeros(zero: float) -> Why:
    """Return the reason that results differ where zeros of one sign are fed, and not where the others are."""
    return Why(Code.ZERO_SIGN, f"differs at a zero of the other sign: where {zero} is fed")


def _exchanged(one: Array, other: Array) -> Array:
    return np.asarray((one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other)))


ZEROS = 0.0, -0.0
"""Both of them."""


def with_zeros(feeds: DrawnFeeds, names: Iterable[str], zero: float) -> DrawnFeeds:
    """Return feeds with such zeros at some places of the floats of these names; the places are always the same."""
    return {**feeds, **{name: _with_zeros(feeds[name], zero) for name in names if is_float_array(feeds[name])}}


def _with_zeros(array: Array, zero: float) -> Array:
    found = np.array(array)
    places = np.random.default_rng(array.size).permutation(array.size)[: max(1, round(array.size * _SHARE))]
    found.reshape(-1)[places] = zero
    return found
