"""Regions that differ in names and weights only: the first is compared in full, the others are run on its inputs.

Those with a weight that is too large to be held are run by themselves; that they react, the first has shown.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from bnfold import ir
from bnfold.reference.operators import READS_VALUES
from bnfold.verification.changes.extract import Subgraph, constant_of
from bnfold.verification.claims import Runs
from bnfold.verification.subgraphs.pairs import LARGEST_HELD, SubgraphPair, runnable
from bnfold.verification.subgraphs.trials import PartOutcome, largest
from bnfold.verification.tolerance.floats import is_float

MOST = 256
"""Regions that are kept for one model."""

_SHOWN = 256
"""Numbers of a constant that have to be the same: sizes, places, bounds. One with more of them is not shared."""

_LARGEST = 1 << 20
"""Elements of activations that are kept of one region."""


def signature(path: str, sides: Sequence[Subgraph]) -> Hashable | None:
    """Return a key that is equal for parts of a graph which differ only in names and in the numbers of float weights.

    It is None if that cannot be decided, as for nodes with bodies.
    """
    numbers: dict[str, int] = {"": -1}
    found: list[Hashable] = [path]
    for side in sides:
        for node in side.nodes:
            if node.subgraphs:
                return None
            slots = [
                tuple(numbers.setdefault(value.name if value else "", len(numbers)) for value in values)
                for values in (node.inputs, node.outputs)
            ]
            kinds = [value.dtype if value else None for value in node.outputs]
            found += [node.domain, node.op_type, getattr(node.proto, "overload", ""), *slots, *node.spelled, *kinds]
        for value in side.stored:
            if (content := _content(value)) is None:
                return None
            found.append((numbers.get(value.name), *content))
        for value, array in side.known.items():
            found.append((numbers.get(value.name), array.shape, *array.reshape(-1).tolist()))
        for value in (*side.fed, *side.outputs):
            found.append((numbers.get(value.name), value.dtype, value.shape, value.is_initializer))
    return tuple(found)


def _content(value: ir.Value) -> tuple[Hashable, ...] | None:
    """Return what counts of a stored tensor; None where it cannot be shared."""
    tensor = value.tensor
    if tensor is None:
        return None
    uses = value.uses if value.only_use is None else (value.only_use,)
    if is_float(tensor.dtype) and not any(slot and node.op_type in READS_VALUES for node, slot in uses):
        return tensor.dtype, tensor.dims
    return (tensor.dtype, tensor.dims, *tensor.numpy().reshape(-1).tolist()) if tensor.size <= _SHOWN else None


def repeatable(subgraphs: SubgraphPair) -> SubgraphPair | None:
    """Return what the comparison of similar parts can reuse.

    None if more than equal results was needed, or may be needed with other weights. If only smooth operators read the
    weights, a fault shows in any result, whatever the weights are.
    """
    passed = all(found.agrees for _, _, found in subgraphs.tried)
    is_small = sum(array.size for feeds, _, _ in subgraphs.tried for array in feeds.values()) <= _LARGEST
    if not (subgraphs.tried and passed and is_small and not subgraphs.coverage.tables):
        return None
    sides = subgraphs.old.subgraph, subgraphs.new.subgraph
    if any(
        constant_of(node.output(0)) is not None and not node.is_op("Constant") for side in sides for node in side.nodes
    ):
        return None
    if not subgraphs.coverage.follows_from_structure():
        return None
    old, new = (replace(runnable, held={}) for runnable in (subgraphs.old, subgraphs.new))
    return replace(subgraphs, old=old, new=new, finite={}, is_known_to_react=True)


def can_stand_in(sides: Sequence[Subgraph]) -> bool:
    """Whether all weights of a region can stand in for those of another one: larger ones are not held."""
    return all(value.tensor is None or value.tensor.size <= LARGEST_HELD for side in sides for value in side.stored)


def repeated(known: SubgraphPair, sides: Sequence[Subgraph], runs: Runs) -> PartOutcome | None:
    """Return the largest difference of regions of one signature; None where they have to be compared by themselves.

    What is run is noted in ``runs``.
    """
    if not can_stand_in(sides):
        return None
    old, new = (
        runnable(like.subgraph, side.stored, like) for side, like in zip(sides, (known.old, known.new), strict=True)
    )
    subgraphs = replace(known, old=old, new=new, finite={}, runs=runs)
    worst = PartOutcome()
    for feeds, guessed, _ in known.tried:
        found = subgraphs.attempt(feeds, "as in an equal part", guessed=guessed)
        if not found.agrees or subgraphs.never_finite():
            return None
        worst = largest((worst, found))
    return worst
