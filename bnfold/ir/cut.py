"""The boundary of a rewrite: all that verification needs to know about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bnfold.ir.elements import Float64
from bnfold.ir.tensor import Tensor


class Cut(NamedTuple):
    """Names that mean the same value before and after a rewrite.

    The region between ``inputs`` and ``outputs`` (walking back from the outputs, constants included) is what the
    rewrite changed. ``graph`` is the `Graph.path` of the graph it lies in, ``label`` says which rewrite it was.
    """

    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str


class Selection(NamedTuple):
    """Which channels of a value of the file a value of the result has; the others are constant, or silent.

    No result depends on a silent channel: all that reads it multiplies it by zero.

    Attributes:
        axis: Along which the channels lie.
        kept: Places of those that it has, ascending.
        constants: A float64 number for each channel of the file's value, NaN for one that is silent; what stands at
            ``kept`` means nothing.
        dtype: Element type of the value.
        rank: Its rank.
    """

    axis: int
    kept: tuple[int, ...]
    constants: Float64
    dtype: int
    rank: int


Scaled = Mapping[tuple[str, str], tuple[str, Tensor | Selection]]
"""By the path of a graph and the name of a value there: the name of what it was, and by which factors it is larger, or
which of its channels it has."""
