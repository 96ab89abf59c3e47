"""Collect the trials of one region, at several input sizes, into one result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bnfold.verification.claims import Why
from bnfold.verification.codes import Code
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.subgraphs.runnable import FEW
from bnfold.verification.subgraphs.small_sizes import Shapes
from bnfold.verification.tolerance.compare import Difference

TOO_LARGE = Why(Code.TOO_LARGE, "every shape that its inputs can have is too large to try")


class NotCompared(NamedTuple):
    """A region that cannot be compared, and why; ``only_after`` says that the original's region ran.

    ``is_same`` says that it was compared, and agreed, perhaps ``at_some_sizes`` only; ``is_coarse``, that the results
    differ, by no more than rounding the new weights may cause and by too much to call them equal; ``is_misfit``, that
    the original does not run at these sizes, or on these numbers; ``may_fit``, that other flags may fit.
    """

    why: Why
    only_after: bool = False
    is_same: bool = False
    at_some_sizes: bool = False
    is_coarse: bool = False
    is_misfit: bool = False
    may_fit: bool = False


TrialResult = Difference | NotCompared

MOST_SAMPLES = 10
"""A region is tried on several samples where something that it is fed or makes has fewer than FEW elements, of every
kind at most twice."""

_MISFITS = 2
"""Samples after which sizes do not fit, whatever the numbers are."""


def fails(found: TrialResult | None) -> bool:
    """Whether the results differ."""
    return isinstance(found, Difference) and found.excess > 1


def passed(tried: Sequence[tuple[DrawnFeeds, bool, TrialResult]]) -> list[Shapes]:
    """Return the shapes at which the results were equal, in order."""
    equal = (feeds for feeds, _, found in tried if isinstance(found, Difference) and not fails(found))
    return [{name: array.shape for name, array in feeds.items()} for feeds in equal]


def samples_needed(shapes: Mapping[str, tuple[int, ...]], first: TrialResult, *, only_moves: bool) -> int:
    """Return how many samples to try, more of few numbers: all may be negative, or hide behind the largest.

    Where floats ``only_moves``, one of them at a wrong place shows in any sample.
    """
    made = [first.elements] if isinstance(first, Difference) else []
    smallest = min([*map(math.prod, shapes.values()), *made], default=FEW)
    most = _MISFITS if isinstance(first, NotCompared) and first.is_misfit else 1 if only_moves else MOST_SAMPLES
    return max(1, min(most, FEW // max(smallest, 1)))
