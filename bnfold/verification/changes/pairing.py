"""Pair the inputs and outputs of two models by position, if their names differ: exporters name them differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from bnfold import ir, reference
from bnfold.ir.elements import FLOATS
from bnfold.verification.changes.new_names import rename


def paired(before: ir.Model, after: ir.Model, *, any_float: bool = False) -> tuple[ir.Model, list[str]]:
    """Return the second model with the first one's names for its inputs and outputs, and a note about each side.

    Values are paired if number, types and shapes agree and the names are free. Otherwise the model is returned as it
    is, without a note. With ``any_float``, floats of two widths are of one type.
    """
    sides = [
        [[value for value in graph.inputs if reference.constant(value) is None], graph.outputs]
        for graph in (before.graph, after.graph)
    ]
    names: dict[str, str] = {}
    notes = []
    for what, old, new in zip(("inputs", "outputs"), *sides, strict=True):
        found = dict(_pairs(old, new, any_float))
        if found:
            listed = ", ".join(f"{mine} = {theirs}" for theirs, mine in found.items())
            notes.append(f"{what} are paired by position: {listed}")
            names |= found
    if not names or not _are_free(after, names):
        return after, []
    return after.clone(lambda proto: rename(proto.graph, names)), notes


def _pairs(old: Sequence[ir.Value], new: Sequence[ir.Value], any_float: bool) -> Iterator[tuple[str, str]]:
    """Yield the second model's name and the first one's of the values that have other names; none unless all fit."""
    names = [{value.name for value in side} for side in (old, new)]
    agree = partial(_agree, any_float=any_float)
    if len(old) != len(new) or names[0] == names[1] or not all(map(agree, old, new)):
        return
    if any(one.name in names[1] and one.name != other.name for one, other in zip(old, new, strict=True)):
        return  # in another order, too: then positions say nothing
    yield from ((other.name, one.name) for one, other in zip(old, new, strict=True) if one.name != other.name)


def _agree(one: ir.Value, other: ir.Value, *, any_float: bool) -> bool:
    is_one_type = one.dtype == other.dtype or (any_float and {one.dtype, other.dtype} <= FLOATS)
    if not is_one_type or one.dtype is None or one.shape is None or other.shape is None:
        return False
    sizes = zip(one.shape, other.shape, strict=False)
    return len(one.shape) == len(other.shape) and all(
        here == there for here, there in sizes if isinstance(here, int) and isinstance(there, int)
    )


def _are_free(model: ir.Model, names: Mapping[str, str]) -> bool:
    """Whether the new names are nothing else's in the model, and the old ones mean one thing everywhere."""
    main, *inner = model.graphs()
    taken = {name for graph in (main, *inner) for name in graph.values}
    return not taken.intersection(names.values()) and not any(
        value.name in names for graph in inner for value in graph.inputs
    )
