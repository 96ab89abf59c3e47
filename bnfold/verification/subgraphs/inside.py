"""Values inside two parts that turn out to be equal, in front of equal operators that may hide a difference.

Where a Relu is 0 on every input that was tried, what it is fed still shows an error in a weight before it. So it does
where one part scales in front of the Relu by the number that the other part scales by behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.reference.operators import HIDING
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.changes.from_constants import are_one_constant
from bnfold.verification.changes.unchanged import is_same_function
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.subgraphs.pairs import SubgraphPair

_NEAR = 1e-5
"""How far two values that are to be compared may be apart, relative to the largest number."""


_HOMOGENEOUS = ("LeakyRelu", "PRelu", "Relu")
"""Operators that scale their result as their first input is scaled by a positive number."""


class Wider(NamedTuple):
    """The cut with the values inside as outputs as well, and its regions; they have the original's names.

    In the new region, a value is as many times as large as ``factors`` says.
    """

    cut: ir.Cut
    old: Subgraph
    new: Subgraph
    factors: Mapping[str, float]


def with_equal_values_inside(parts: SubgraphPair, feeds: DrawnFeeds) -> Wider | None:
    """Return the regions with further outputs to compare; None where there are none. ``feeds`` show which are equal."""
    old, new = parts.old.subgraph, parts.new.subgraph
    ones, others = ([*_in_front(side)] for side in (old, new))
    if not ones or not others:
        return None
    runs = parts.fed(feeds)
    try:
        made = runs.old([read.name for read, _ in ones])
        made_anew = runs.new([read.name for read, _ in others])
    except BnfoldError:
        return None
    pairs: dict[ir.Value, ir.Value] = {}
    factors: dict[str, float] = {}
    for one, node in ones:
        if one.name in parts.cut.outputs:
            continue
        for other in (other for other, like in others if _alike(node, like)):
            if one in old.fed and other in new.fed:  # which are right
                continue
            factor = _factor(made[one.name], made_anew[other.name]) if node.is_op(*_HOMOGENEOUS) else 1.0
            if _near(made[one.name] * factor, made_anew[other.name]):
                pairs[one], factors[one.name] = other, factor
                break
    if not pairs:
        return None
    cut = parts.cut._replace(outputs=(*parts.cut.outputs, *(value.name for value in pairs)))
    return Wider(cut, old.with_outputs(pairs), new.with_outputs(pairs.values()), factors)


def _in_front(side: Subgraph) -> Iterator[tuple[ir.Value, ir.Node]]:
    """Yield what is fed to operators that may hide a difference, if the part computes it, or is fed it."""
    there = {*side.fed, *(value for node in side.nodes for value in node.outputs)}
    for node in side.nodes:
        read = node.input(0)
        if node.has_trait(HIDING) and not node.is_call and read is not None and read in there:
            yield read, node


def _alike(one: ir.Node, other: ir.Node) -> bool:
    """Whether two nodes have equal results for equal first inputs."""
    rest = zip_longest(one.inputs[1:], other.inputs[1:])
    return is_same_function(one, other) and all(left is right or are_one_constant(left, right) for left, right in rest)


def _factor(one: Array, other: Array) -> float:
    """Return by which positive number the one is scaled to the other, if it is; else 1."""
    if not one.size or one.shape != other.shape or one.dtype.kind != "f":
        return 1.0
    place = np.abs(one).argmax()
    first, second = float(one.flat[place]), float(other.flat[place])
    factor = second / first if first else 1.0
    return factor if 0 < factor < np.inf and abs(factor - 1) > _NEAR else 1.0


def _near(one: Array, other: Array) -> bool:
    if one.shape != other.shape or one.dtype.kind != "f" or other.dtype.kind != "f" or not np.isfinite(one).all():
        return False
    return bool(np.abs(one - other).max(initial=0.0) <= _NEAR * np.abs(one).max(initial=0.0))
