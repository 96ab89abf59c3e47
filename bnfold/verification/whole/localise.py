"""Find the first value that the two models disagree about, and the rewrite that made it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.verification.differences.extract import walk
from bnfold.verification.feeding.inputs import Feeds
from bnfold.verification.numbers.compare import compare_values
from bnfold.verification.numbers.rounding import Array
from bnfold.verification.request import Request
from bnfold.verification.verdict import Location
from bnfold.verification.whole.pair import Pair

_ELEMENTS = 8192
"""Kept of every value: whole values of a deep network do not fit into memory."""

Kept = dict[str, Array]


def localise(request: Request, pair: Pair, feeds: Feeds) -> Location | None:
    """Run both models once more, keeping a little of every value that both name; the first that differs, or None.

    Values come in the order in which the rewritten model makes them, so nothing the first one depends on differs.
    """
    common = set(request.before.graph.values) & set(request.after.graph.values)
    try:
        expected = _observe(request, request.before, feeds, common, pair.outputs)
        actual = _observe(request, request.after, feeds, common, pair.outputs)
        moved = pair.round(request.after, 0)
        draws = [_observe(request, request.after, feeds, common, pair.outputs, altered) for altered in moved]
    except (BnfoldError, MemoryError):
        return None
    for name, value in actual.items():
        if name not in expected:
            continue
        dtype = request.before.graph.values[name].dtype
        found = compare_values(expected[name], value, [[draw[name] for draw in draws]], dtype, by_channel=False)
        if found.excess > 1:
            return Location(name, _rewrite(request, name), found.relative)
    return None


def _observe(
    request: Request,
    model: ir.Model,
    feeds: Feeds,
    names: set[str],
    outputs: list[str],
    altered: reference.Alterations | None = None,
) -> Kept:
    kept: Kept = {}
    reference.evaluate(
        model,
        feeds,
        outputs,
        observer=_keeper(kept, names),
        altered=altered,
        limit_seconds=request.clock.left,
        policy=request.policy,
        noise=reference.Noise(),
    )
    return kept


def _keeper(kept: Kept, names: set[str]) -> Callable[[str, Array], None]:
    def keep(name: str, array: Any) -> None:
        if name in names and isinstance(array, np.ndarray):
            kept[name] = _some(name, array)

    return keep


def _some(name: str, array: Array) -> Array:
    """All of a small array; of a large one, elements at places that its name and size decide."""
    if array.size <= _ELEMENTS:
        return array
    places = np.random.default_rng(zlib.crc32(name.encode())).integers(0, array.size, _ELEMENTS)
    return np.concatenate([array.reshape(-1)[places], np.array(array.shape[-1:]).astype(array.dtype)])


def _rewrite(request: Request, name: str) -> str:
    """The label of the cut that makes a value, or has it inside."""
    labels = _labels(request)
    if name in labels:
        return labels[name]
    producer = request.after.graph.values[name].producer
    return f"{producer.op_type} {producer.label}" if producer is not None else ""


def _labels(request: Request) -> Mapping[str, str]:
    values = request.after.graph.values
    labels: dict[str, str] = {}
    for cut in (cut for cut in request.cuts if not cut.graph):
        stops = {values[name] for name in cut.inputs if name in values}
        for node in walk([values[name] for name in cut.outputs if name in values], stops)[0]:
            labels.update({value.name: cut.label for value in node.outputs if value is not None})
    return labels
