"""What a part that differs on drawn numbers is fed where the model computes it: does that come close to differing?

Parts that agree on all that was computed for them may do so because values there have a range, as behind a Sigmoid, or
because what was tried happens to stay away from where they differ. In the first case some of it is at the edge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from bnfold import ir
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.reference.operators import READS_VALUES
from bnfold.verification.changes.partly import may_have_pole
from bnfold.verification.coverage import nudge
from bnfold.verification.inputs.adjusting import far
from bnfold.verification.inputs.bounds import follow_from_sizes
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.subgraphs.pairs import SubgraphPair
from bnfold.verification.subgraphs.sampling import sampled
from bnfold.verification.tolerance.compare import shape_of
from bnfold.verification.tolerance.floats import is_float_array


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
    """Whether what ``wider`` computes of some feeds for the part comes close to what it differs on.

    If it differs by numbers, it does for some that are computed, if each of these is moved a little. Only numbers that
    the feeds change are moved: what is the same for all of them may be another for others. If it is equal on numbers
    that are drawn in the shapes that are computed, it differs by sizes: at such as the model does not make there.
    """
    fed = {name: value for side in (part.old, part.new) for name, value in side.subgraph.inputs.items()}
    inside = [found for feeds in tried if (found := _computed(wider, feeds, fed.keys())) is not None]
    moved = (_moved(feeds, turn, inside) for feeds in inside for turn in (1, -1))
    if any(part.attempt(feeds, "drawn", guessed=False).differs for feeds in moved):
        return True
    shapes = {tuple(map(shape_of, feeds.values())): {name: shape_of(feeds[name]) for name in fed} for feeds in inside}
    drawn = [sampled(part, fed, each, guessed=False) for each in shapes.values()]
    return bool(drawn) and all(found.agrees for found in drawn)


def _computed(wider: SubgraphPair, feeds: DrawnFeeds, names: Collection[str]) -> DrawnFeeds | None:
    """Return values inside a part, by its original nodes where those compute them; None where some are not finite."""
    found = {name: feeds[name] for name in names if name in feeds}
    runs = wider.fed(feeds)
    try:
        for run, side in ((runs.old, wider.old), (runs.new, wider.new)):
            made = {value.name for node in side.subgraph.nodes for value in node.outputs if value is not None}
            found.update(run(sorted(made.difference(found).intersection(names))))
    except BnfoldError:
        return None
    is_finite = all(np.isfinite(array).all() for array in found.values() if is_float_array(array))
    return found if is_finite and len(found) == len(names) else None


def _moved(feeds: DrawnFeeds, turn: int, others: Sequence[DrawnFeeds]) -> DrawnFeeds:
    """Move each float up or down, by a small share of it; a zero, by that of the largest one."""
    rng = np.random.default_rng(len(feeds))
    signs = {name: rng.choice([-turn, turn], size=np.shape(array)) for name, array in sorted(feeds.items())}
    return {
        name: array + signs[name] * _varies(array, [other[name] for other in others]) * (nudge(array) - array)
        if is_float_array(array)
        else array
        for name, array in feeds.items()
    }


def _varies(array: Array, others: Sequence[Array]) -> Array:
    """Return which elements are others elsewhere."""
    found: Array = np.any([array != other for other in others if other.shape == array.shape], axis=0)
    return found
