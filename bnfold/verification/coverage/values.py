"""Mutants of values that nodes compute."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.verification.changes.copies import copied
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.coverage.moves import nudge
from bnfold.verification.coverage.record import Mutant
from bnfold.verification.inputs.bounds import follow_from_sizes


def nudged(side: int, value: ir.Value) -> Mutant:
    """Return a mutant that moves a computed value a little, in vain if nothing but its sizes is read."""
    is_idle = not value.is_output and all(node.is_op("Shape", "Size") for node, _ in value.uses)
    return Mutant(side, f"value {value.name!r}", value, nudge, is_idle=is_idle)


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


def results_of_bodies(side: int, nodes: Iterable[ir.Node], others: Iterable[ir.Node]) -> Iterator[Mutant]:
    """Yield mutants of the results of bodies that only this part has, and not the one with the ``others``.

    A comparison proves nothing about a branch that was not taken. One that a size chooses may be for empty tensors
    alone: then its result has to show by its shape.
    """
    holding = [node for node in nodes if node.subgraphs]
    models = [node.graph.model for node in others] if holding else []
    known = {graph.path for model in models[:1] for graph in model.graphs()}
    for node in holding:
        condition = node.input(0) if node.is_op("If") else None
        is_by_size = condition is not None and follow_from_sizes([condition])
        for body in (body for bodies in node.subgraphs.values() for body in bodies if body.path not in known):
            made = (value for value in body.outputs if value.graph is body)
            mutants = (nudged(side, value) for value in made if not _is_condition_handed_on(node, body, value))
            yield from (it._replace(change=_nudged_or_filled) if is_by_size else it for it in mutants)


def _nudged_or_filled(array: Any) -> Any:
    """Return a moved array; in place of an empty one, one that is not empty."""
    is_empty = isinstance(array, np.ndarray) and not array.size
    return np.zeros([max(dim, 1) for dim in array.shape], array.dtype) if is_empty else nudge(array)


def _is_condition_handed_on(node: ir.Node, body: ir.Graph, value: ir.Value) -> bool:
    """Whether a value is the condition that a Loop's body only hands on, which decides nothing."""
    if not node.is_op("Loop") or value is not body.outputs[0]:
        return False
    return copied(value) in body.inputs[1:2]
