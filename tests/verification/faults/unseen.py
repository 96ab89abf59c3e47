"""Faults that show only on some inputs or at some sizes: in a row of a table, at a bound, in a shape."""

from __future__ import annotations

import numpy as np

from tests.verification.faults.rewrite import Rewrite
from tests.verification.graphs import model, numbers, single


def table() -> Rewrite:
    """Gather from a table → Mul: every row is scaled, whichever is chosen."""
    weight, factor = single(numbers(31).normal(size=(300, 4))), single(numbers(32).uniform(0.5, 1.5, 4))
    head = "(int64[N,L] i) => (float[N,L,4] y)"
    scaled = weight.astype(np.float64) * factor
    first, last = scaled.copy(), scaled.copy()
    first[0], last[299] = weight[0], weight[299]
    right, *wrong = (model(f"{head} {{ y = Gather (T, i) }}", {"T": rows}) for rows in (scaled, first, last))
    return Rewrite(
        "Gather from a table, Mul",
        model(f"{head} {{ h = Gather (T, i)  y = Mul (h, s) }}", {"T": weight, "s": factor}),
        right,
        dict(zip(("first row not scaled", "last row not scaled"), wrong, strict=True)),
        (("i",), ("y",)),
        shows_whole=False,
    )


def computed_rows() -> Rewrite:
    """ArgMax → Gather from a table → Mul: every row is scaled, whichever is chosen."""
    table_rows, factor = single(numbers(33).normal(size=(90, 4))), single(numbers(34).uniform(0.5, 1.5, 4))
    weight = single(numbers(35).normal(size=(8, 90)))
    head, index = "(float[N,8] x) => (float[N,4] y)", "l = MatMul (x, W)  i = ArgMax <axis = 1, keepdims = 0> (l)"
    scaled = table_rows.astype(np.float64) * factor
    unscaled, exchanged = scaled.copy(), scaled.copy()
    unscaled[89], exchanged[[3, 4]] = table_rows[89], scaled[[4, 3]]
    right, *wrong = (
        model(f"{head} {{ {index}  y = Gather (T, i) }}", {"T": rows, "W": weight})
        for rows in (scaled, unscaled, exchanged)
    )
    nodes = f"{index}  h = Gather (T, i)  y = Mul (h, s)"
    return Rewrite(
        "Gather at computed indices, Mul",
        model(f"{head} {{ {nodes} }}", {"T": table_rows, "s": factor, "W": weight}),
        right,
        dict(zip(("last row not scaled", "two rows exchanged"), wrong, strict=True)),
        shows_whole=False,
    )


def bounds() -> Rewrite:
    """Clip → Max, Min: bounds far from what activations usually are."""
    head = "(float[N,4,H,W] x) => (float[N,4,H,W] y)"
    weights = {"low": np.array(-40.0), "high": np.array(50.0)}
    after = {
        nodes: model(f"{head} {{ {nodes} }}", weights)
        for nodes in ("h = Max (x, low)  y = Min (h, high)", "y = Max (x, low)", "y = Min (x, high)")
    }
    right, *wrong = after.values()
    return Rewrite(
        "Clip to Max, Min",
        model(f"{head} {{ y = Clip (x, low, high) }}", weights),
        right,
        dict(zip(("upper bound lost far out", "lower bound lost far out"), wrong, strict=True)),
        shows_whole=False,
    )


def computed_target() -> Rewrite:
    """Reshape to a target that is put together from the batch: dims in another order, and one that is illegal."""
    head = "(float[N,2,6] x) => (float[A,B,C] y)"
    weights = {"zero": np.array([0]), "two": np.array([2]), "rest": np.array([-1]), "below": np.array([-2])}
    nodes = "s = Shape (x)  n = Gather (s, zero)  t = Concat <axis = 0> ({})  y = Reshape (x, t)"
    wrong = {"dims exchanged": "rest, two, n", "two dims left open": "rest, two, rest", "dim of -2": "n, two, below"}
    return Rewrite(
        "Reshape to a computed target",
        model(f"{head} {{ {nodes.format('n, two, rest')} }}", weights),
        model(f"{head} {{ y = Reshape (x, t) }}", {"t": np.array([0, 2, -1])}),
        {fault: model(f"{head} {{ {nodes.format(dims)} }}", weights) for fault, dims in wrong.items()},
    )


def rewrites() -> list[Rewrite]:
    """All of this module."""
    return [table(), computed_rows(), bounds(), computed_target()]
