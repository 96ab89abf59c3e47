"""What a part that differs on drawn numbers is fed where the model computes it: does that come close to differing?

Parts that agree on all that was computed for them may do so because values there have a range, as behind a Sigmoid, or
because what was tried happens to stay away from where they differ. In the first case some of it is at the edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.reference.operators import READS_VALUES
from bnfold.verification.changes.partly import may_have_pole
from bnfold.verification.comparing.sides import SideResults
from bnfold.verification.coverage import nudge
from bnfold.verification.inputs.adjusting import far
from bnfold.verification.inputs.bounds import follow_from_sizes
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.trials import fails
from bnfold.verification.tolerance.floats import is_float_array

_ROUNDING = 1e-5
"""What single results may be apart without being others, relative to their size."""


def far_numbers(subgraphs: SubgraphPair, fed: Mapping[str, ir.Value], usual: DrawnFeeds) -> list[DrawnFeeds]:
    """Return feeds that are much larger or smaller than ``usual`` ones, all of one sign, or zeros, away from poles.

    There are none where numbers decide on sizes, or how often something runs.
    """
    if any(node.subgraphs or not follow_from_sizes(_read_for_sizes(node)) for node in subgraphs.nodes):
        return []
    return [*far(fed, usual, with_zeros=not any(map(may_have_pole, subgraphs.nodes)))]


def _read_for_sizes(node: ir.Node) -> Iterator[ir.Value]:
    """Yield inputs whose numbers may decide on sizes."""
    if node.has_trait(READS_VALUES):
        yield from filter(None, node.inputs if node.is_op("ConstantOfShape", "Range") else node.inputs[1:])


def comes_close(part: SubgraphPair, wider: SubgraphPair, tried: Sequence[DrawnFeeds]) -> bool:
    """Whether the part differs, for what ``wider`` computes of some feeds, if each number is moved a little.

    It has to differ in results that the feeds change: what is the same for all of them may be another for others.
    """
    fed = {name for side in (part.old, part.new) for name in side.subgraph.inputs}
    inside = [found for feeds in tried if (found := _computed(wider, feeds, fed)) is not None]
    results = [part.fed(feeds).old() for feeds in inside]
    for feeds, result in zip(inside, results, strict=True):
        for moved in (_moved(feeds, turn) for turn in (1, -1)):
            if not fails(part.attempt(moved, "drawn", guessed=False)):
                continue
            runs = part.fed(moved)
            old, new = runs.old(), runs.new()
            if any((_unlike(old[name], new[name]) & _varies(result[name], name, results)).any() for name in result):
                return True
    return False


def _varies(array: Array, name: str, results: Sequence[SideResults]) -> Array:
    """Return which elements of a result are others elsewhere."""
    found: Array = np.any([_unlike(array, other[name]) for other in results if _alike(array, other[name])], axis=0)
    return found


def _alike(one: Array, other: Array) -> bool:
    return np.shape(one) == np.shape(other)


def _unlike(one: Array, other: Array) -> Array:
    """Return which elements differ by more than rounding; all, if the shapes do."""
    if not _alike(one, other):
        return np.ones(np.shape(one), np.bool_)
    if not is_float_array(one):
        return np.asarray(one != other)
    return ~np.isclose(one, other, rtol=_ROUNDING, atol=0.0, equal_nan=True)


def _computed(wider: SubgraphPair, feeds: DrawnFeeds, names: set[str]) -> DrawnFeeds | None:
    """Return values inside a part, by its original nodes where those compute them; None where some are not finite."""
    found = {name: feeds[name] for name in names & feeds.keys()}
    runs = wider.fed(feeds)
    try:
        for run, side in ((runs.old, wider.old), (runs.new, wider.new)):
            made = {value.name for node in side.subgraph.nodes for value in node.outputs if value is not None}
            found.update(run(sorted((names - found.keys()) & made)))
    except BnfoldError:
        return None
    is_finite = all(np.isfinite(array).all() for array in found.values() if is_float_array(array))
    return found if is_finite and found.keys() == names else None


def _moved(feeds: DrawnFeeds, turn: int) -> DrawnFeeds:
    """Move each float up or down, by a small share of it; a zero, by that of the largest one."""
    rng = np.random.default_rng(len(feeds))
    signs = {name: rng.choice([-turn, turn], size=np.shape(array)) for name, array in sorted(feeds.items())}
    return {
        name: array + signs[name] * (nudge(array) - array) if is_float_array(array) else array
        for name, array in feeds.items()
    }
