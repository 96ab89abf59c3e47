"""Exact rewrites that leave fewer nodes: each finds a place, plans an edit, and only then changes the graph.

Nothing is rounded differently, and nothing is specialised to a size that the file leaves open.
"""

from __future__ import annotations

from bnfold import ir
from bnfold.report.events import Report

__all__ = ["simplify"]


def simplify(model: ir.Model, report: Report, *, group_norm: bool = False) -> bool:
    """Simplify ``model`` in place and record the changes in ``report``; return whether a value became an initializer.

    With ``group_norm``, GroupNormalization replaces the five nodes by which it is expressed before opset 21.
    """
    from bnfold.simplifying.driver import simplify_all

    return simplify_all(model, report, group_norm=group_norm)
