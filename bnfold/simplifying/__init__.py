"""Rewrites that leave fewer nodes: each finds a place, plans an edit, and only then changes the graph.

`bnfold.report.rewrites` says which of them are equal bit for bit. Nothing is specialised to a size that the file leaves
open.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from bnfold import ir
from bnfold.report.events import Report

if TYPE_CHECKING:
    from bnfold.simplifying.driver import Simplified

__all__ = ["clear", "decide", "remove_unread", "simplify"]


def simplify(
    model: ir.Model,
    report: Report,
    *,
    group_norm: bool = False,
    disabled: frozenset[str] = frozenset(),
    most: int | None = None,
) -> Simplified:
    """Simplify ``model`` in place and record the changes in ``report``.

    With ``group_norm``, GroupNormalization replaces the five nodes by which it is expressed before opset 21. Rewrites
    named in ``disabled`` are left out. The weights may grow by ``most`` bytes, or as `SizeBudget` has it.
    """
    from bnfold.simplifying.driver import simplify_all

    return simplify_all(model, report, group_norm=group_norm, disabled=disabled, most=most)


def decide(model: ir.Model, report: Report, *, disabled: frozenset[str] = frozenset()) -> Simplified:
    """Replace each If whose condition is known by the branch it takes, and record that in ``report``."""
    from bnfold.simplifying.driver import decide_branches

    return decide_branches(model, report, disabled)


def remove_unread(model: ir.Model, report: Report, *, disabled: frozenset[str] = frozenset()) -> bool:
    """Remove nodes, results and weights that nothing reads, record that in ``report``; return whether any is gone."""
    from bnfold.simplifying.unread import remove

    return remove(model, report, disabled)


def clear(
    model: ir.Model,
    report: Report,
    places: Collection[tuple[str, str]],
    *,
    disabled: frozenset[str] = frozenset(),
    most: int | None = None,
) -> Simplified:
    """Simplify nodes alone, and store for them what they read if it is the same in every run.

    ``places`` has the graph of each, and the name of the first value that it makes.
    """
    from bnfold.simplifying.driver import clear_nodes

    return clear_nodes(model, report, places, disabled, most)
