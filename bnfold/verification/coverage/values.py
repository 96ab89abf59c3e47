"""Mutants of values that nodes compute."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bnfold import ir
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.coverage.moves import nudge
from bnfold.verification.coverage.record import Mutant


def nudged(side: int, value: ir.Value) -> Mutant:
    """Return a mutant that moves a computed value a little."""
    return Mutant(side, f"value {value.name!r}", value, nudge)


def all_taken_over(
    old: Subgraph, new: Subgraph, hidden: Collection[str], compared: Collection[str]
) -> Iterator[Mutant]:
    """Yield mutants that replace values of the rewritten part by those of the original with the same name.

    Only values that differ and are not ``compared`` are replaced. A comparison has to notice that.
    """
    made, others = (
        {value.name: value for node in side.nodes for value in node.outputs if value} for side in (new, old)
    )
    for name in hidden:
        if name in made and name in others and name not in compared:
            yield Mutant(1, f"value {name!r}", made[name])
