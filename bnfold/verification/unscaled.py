"""Values that a rewrite has scaled, under their old names again: each node between them can be compared alone."""

from __future__ import annotations

from collections.abc import Mapping

from bnfold import ir

Scaled = Mapping[tuple[str, str], ir.ScaledValue]
"""By the path of a graph and the name of a value there: what it was, and by which factors it is larger."""


def unscaled(model: ir.Model, scaled: Scaled) -> ir.Model:
    """Return an equivalent model in which each of these values also exists unscaled, under its old name.

    The value is divided by its factors and multiplied again behind that. If the factors are wrong, the unscaled value
    differs from the original's.
    """
    if not scaled:
        return model
    copy = model.clone()
    graphs = {graph.path: graph for graph in copy.graphs()}
    for (path, name), before in scaled.items():
        old, factors = before.name, ir.Exact(before.dtype, before.factors)
        value = graphs[path].values.get(name) if path in graphs else None
        if value is None or value.producer is None or old in value.graph.values or not factors.numpy().all():
            continue
        constant, again = value.graph.add_constant("factors", factors), value.graph.fresh(name)
        value.replace_uses(again)
        division = value.graph.insert("Div", (value, constant), (value.graph.define(old),), after=value.producer)
        value.graph.insert("Mul", (division.output(0), constant), (again,), after=division)
    copy.sync()
    return copy
