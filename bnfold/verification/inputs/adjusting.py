"""Change what was drawn: other rows of a table, flags turned, smaller numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product

import numpy as np

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.verification.inputs.drawing import DrawnFeeds
from bnfold.verification.inputs.roles import role, uses
from bnfold.verification.tolerance.floats import float_type, is_float

_FAR = 2.0**20
"""How many times as large, or as small, as usual ones numbers are that no drawn ones reach."""

_MOST_FLAGS = 3

_SMALLER = 128.0
"""What large activations are divided by where rounding hides too much beside them: then they are usual ones still."""


def choosing(inputs: Iterable[ir.Value], feeds: DrawnFeeds, rows: Mapping[str, Array], turn: int) -> DrawnFeeds:
    """Return the feeds with some of ``rows``, by table, among the indices into it, other ones at each ``turn``."""
    chosen = dict(feeds)
    for value in inputs:
        tables = [node.input(0) for node, slot in uses(value) if node.is_op("Gather") and slot == 1]
        wanted = next((rows[table.name] for table in tables if table is not None and table.name in rows), None)
        indices = np.array(feeds[value.name])
        number = min(indices.size, 0 if wanted is None else wanted.size)
        if wanted is None or not number:
            continue
        places = np.random.default_rng(turn).permutation(indices.size)[:number]
        indices.reshape(-1)[places] = np.take(wanted, turn * number + np.arange(number), mode="wrap")
        chosen[value.name] = indices
    return chosen


def with_flags_turned(feeds: DrawnFeeds) -> Iterator[DrawnFeeds]:
    """Yield the feeds with single flags turned, in every other combination: each may choose a branch."""
    flags = [name for name, array in feeds.items() if array.dtype == np.bool_ and array.size == 1][:_MOST_FLAGS]
    for turns in islice(product((False, True), repeat=len(flags)), 1, None):
        yield {**feeds, **{name: feeds[name] ^ turn for name, turn in zip(flags, turns, strict=True)}}


def smaller(inputs: Mapping[str, ir.Value], feeds: DrawnFeeds) -> DrawnFeeds:
    """Return the feeds with activations that are a fraction of what they were; parameters stay."""
    return {
        name: array / array.dtype.type(_SMALLER) if array.dtype.kind == "f" and role(inputs[name]) == "data" else array
        for name, array in feeds.items()
    }


def far(inputs: Mapping[str, ir.Value], feeds: DrawnFeeds, *, with_zeros: bool) -> Iterator[DrawnFeeds]:
    """Yield the feeds with floats that are far larger, far smaller, all of one sign, or, ``with_zeros``, zeros."""
    largest = {name: float_type(value.dtype).largest for name, value in inputs.items() if is_float(value.dtype)}
    for factor, has_one_sign in ((_FAR, False), (1 / _FAR, False), (_FAR, True), (-_FAR, True), (0.0, True)):
        if not factor and not with_zeros:
            continue
        yield {
            name: _scaled(array, factor, largest[name], has_one_sign=has_one_sign) if name in largest else array
            for name, array in feeds.items()
        }


def _scaled(array: Array, factor: float, largest: float, *, has_one_sign: bool) -> Array:
    numbers = factor * (np.abs(array) if has_one_sign else array).astype(np.float64)
    return np.asarray(np.clip(numbers, -largest, largest), array.dtype)
