"""The boundary of a rewrite: all that verification needs to know about it."""

from __future__ import annotations

from typing import NamedTuple


class Cut(NamedTuple):
    """Names that mean the same value before and after a rewrite.

    The region between ``inputs`` and ``outputs`` (walking back from the outputs, constants included) is what the
    rewrite changed. ``graph`` is the `Graph.path` of the graph it lies in, ``label`` says which rewrite it was.
    """

    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str
