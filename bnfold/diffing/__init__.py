"""Differences of any two models: interface, nodes, constants, and the first values that differ."""

from __future__ import annotations

from bnfold.diffing.document import diff, facts

__all__ = ["diff", "facts"]
