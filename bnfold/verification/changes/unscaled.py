"""Values that a rewrite has scaled, and values that lost channels, under their old names again.

Each node between them can be compared alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bnfold import ir
from bnfold.ir.cut import ValueMaps
from bnfold.verification.changes.idle import silent_channels

_BROADCASTS = 7
"""The first opset whose arithmetic broadcasts by itself."""


def unscaled(before: ir.Model, after: ir.Model, scaled: ValueMaps) -> tuple[ir.Model, ir.Model]:
    """Return both models, with the values of the second one also as they were, under their old names.

    A scaled value is divided by its factors and multiplied again behind that. If the factors are wrong, the unscaled
    value differs from the original's.

    A value that has lost channels gets them back as the constants that they are said to be. What reads it in the first
    model reads these constants as well: a comparison that feeds it may feed anything there. Both are tested where the
    value itself is compared: there the first model computes the channels, and has to find the constants.
    """
    if not scaled:
        return before, after
    old_model, new_model = (model.clone() for model in (before, after))
    olds, news = ({graph.path: graph for graph in model.graphs()} for model in (old_model, new_model))
    for (path, name), was in scaled.items():
        value = news[path].values.get(name) if path in news else None
        if value is None or value.producer is None or was.name in value.graph.values:
            continue
        if isinstance(was, ir.ScaledValue):
            _divide(value, was)
            continue
        original = olds[path].values.get(was.name) if path in olds else None
        if original is not None and original.producer is not None and not original.is_output:
            _restore(original, value, was)
    old_model.sync()
    new_model.sync()
    return old_model, new_model


def _divide(value: ir.Value, scaled: ir.ScaledValue) -> None:
    factors = ir.Exact(scaled.dtype, scaled.factors)
    if not factors.numpy().all():
        return
    constant, again = value.graph.add_constant("factors", factors), value.graph.fresh(value.name)
    value.replace_uses(again)
    division = value.graph.insert("Div", (value, constant), (value.graph.define(scaled.name),), after=value.producer)
    value.graph.insert("Mul", (division.output(0), constant), (again,), after=division)


def _restore(original: ir.Value, value: ir.Value, selection: ir.SelectedValue) -> None:
    """Give a value its channels back, and let the consumers of the original read constants for them.

    Silent channels are 0 in both. That they are silent in the original is proven, or nothing is done.
    """
    axis, kept, constants = selection.axis, selection.kept, selection.constants
    old, new = original.graph, value.graph
    if min(old.opset(), new.opset()) < _BROADCASTS:
        return
    is_kept = np.isin(np.arange(constants.size), kept)
    is_silent = ~is_kept & np.isnan(constants)
    common = original.name
    if is_silent.any():
        silent = silent_channels(original, constants.size, {*old.nodes}, ()) if axis == 1 else is_kept
        common = f"{original.name}_heard"
        if not silent[is_silent].all() or common in old.values or common in new.values:
            return

    shape, dtype = (-1, *(1,) * (selection.rank - axis - 1)), selection.dtype
    mask, shift = is_kept.astype(np.float64), np.where(is_kept | is_silent, 0.0, constants)
    # Under the same names in both models: no fault of the rewrite is in them.
    factors, addends = (
        [graph.add_constant(f"{common}_{what}", ir.Exact(dtype, numbers.reshape(shape))) for graph in (old, new)]
        for what, numbers in (("kept", mask), ("constants", shift))
    )
    put = partial(_behind, old, "before")
    fixed = old.fresh(f"{original.name}_before")
    original.replace_uses(fixed)
    heard = original
    if is_silent.any():
        zeros = old.add_constant("heard", ir.Exact(dtype, (~is_silent).astype(np.float64).reshape(shape)))
        heard = put("Mul", original, zeros, old.define(common))
    put("Add", put("Mul", heard, factors[0]), addends[0], fixed)

    put = partial(_behind, new, "after")
    chosen = new.fresh(f"{value.name}_after")
    value.replace_uses(chosen)
    places = new.add_constant("places", np.where(is_kept, np.cumsum(is_kept) - 1, 0))
    spread = put("Gather", value, places, axis=axis)
    whole = put("Add", put("Mul", spread, factors[1]), addends[1], new.define(common))
    whole = put("Add", put("Mul", whole, factors[1]), addends[1])
    put("Gather", whole, new.add_constant("chosen", np.array(kept)), chosen, axis=axis)


def _behind(
    graph: ir.Graph,
    side: str,
    op_type: str,
    value: ir.Value,
    operand: ir.Value,
    made: ir.Value | None = None,
    **attrs: Any,
) -> ir.Value:
    """Put a node behind a value whose other operand is a constant; return what it makes.

    No value that is made on both sides may have one name: it would be taken for the same value.
    """
    made = made if made is not None else graph.fresh(f"{value.name}_{op_type}_{side}")
    graph.insert(op_type, (value, operand), (made,), after=value.producer, **attrs)
    return made
