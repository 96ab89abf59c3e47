"""Where the values of two models part: both run on the same inputs, and what matched nodes make is compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.diffing.matching import Matching
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.settings import VerifyOptions
from bnfold.verification.feeding.data import load_data
from bnfold.verification.feeding.inputs import Feeds, input_shapes, random_feeds, required
from bnfold.verification.feeding.shapes import sizings
from bnfold.verification.numbers.floats import float_type

QUICK_SECONDS, QUICK_NODES = 5.0, 5000
"""What comparing values may take, and nodes of models that it is done for, where nobody asked."""
_HELD = 1 << 24
"""Numbers of the first model that are kept until the second one has run, over all values."""
_SIZES = 3
"""Choices of open sizes that are tried."""
_NOTABLE = 256
"""Roundings of a value's own type, relative to its largest number, from which on it counts as another one."""
_MOST = 5

Kept = dict[str, tuple[tuple[int, ...], Array]]


def compare_values(
    before: ir.Model, after: ir.Model, match: Matching, checks: VerifyOptions, *, seconds: float
) -> dict[str, Any]:
    """The errors of matched values in the order of the first model, and where differences begin; or a ``reason``."""
    twins: dict[str, str] = {}
    for one, other in _pairs(before, after, match):
        twins.setdefault(one.name, other.name)
    most = max(64, min(4096, _HELD // max(len(twins), 1)))
    try:
        feeds, kept = _first(before, checks, set(twins), most, seconds)
        given = _given(after, match, feeds)
        seen: Kept = {}
        made = {other: one for one, other in twins.items() if one in kept}
        _run(after, given, _keeper(seen, made, most), seconds)
    except (BnfoldError, MemoryError) as error:
        return {"reason": str(error) or "not enough memory"}
    values = before.graph.values
    errors = {
        name: _error(kept[name], seen[twins[name]], shaped=values[name].is_output)
        for name in kept
        if twins[name] in seen
    }
    notable = {name for name, error in errors.items() if error > _NOTABLE * float_type(values[name].dtype).roundoff}
    begins = [name for name in errors if name in notable and not notable.intersection(_read(values[name]))]

    def told(name: str) -> dict[str, Any]:
        maker = values[name].producer
        return {"before": name, "after": twins[name], "operator": maker.op_type if maker else "", "error": errors[name]}

    return {
        "inputs": {name: list(np.shape(array)) for name, array in feeds.items()},
        "errors": [[name, error] for name, error in errors.items()],
        "differing": sum(error > 0 for error in errors.values()),
        "notable": len(notable),
        "begins": [told(name) for name in begins[:_MOST]],
        "largest": told(max(errors, key=errors.__getitem__)) if errors else None,
    }


def _pairs(before: ir.Model, after: ir.Model, match: Matching) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Values that should be the same: outputs of one name, and what two matched nodes read in one place.

    What they make need not be: a BatchNormalization may still be to come in one model that the other has folded.
    """
    outputs = {value.name: value for value in after.graph.outputs}
    yield from ((value, outputs[value.name]) for value in before.graph.outputs if value.name in outputs)
    for old, new in match.pairs.items():
        for one, other in zip(old.inputs, new.inputs, strict=False):
            sides = (one, before.graph), (other, after.graph)
            if all(value is not None and value.producer is not None and value.graph is graph for value, graph in sides):
                yield one, other  # type: ignore[misc] # neither is None


def _first(model: ir.Model, checks: VerifyOptions, names: set[str], most: int, seconds: float) -> tuple[Feeds, Kept]:
    """The first inputs that the model takes, and what it makes of them."""
    trouble: BnfoldError | None = None
    for feeds in _candidates(model, checks):
        kept: Kept = {}
        try:
            _run(model, feeds, _keeper(kept, names, most), seconds)
        except reference.Unsupported as error:
            trouble = trouble or error
        else:
            return feeds, kept
    raise trouble or BnfoldError("there are no inputs to run the first model on")


def _candidates(model: ir.Model, checks: VerifyOptions) -> Iterator[Feeds]:
    if checks.data is not None:
        yield load_data(checks.data, model)[0].feeds
        return
    for sizing in sizings()[:_SIZES]:
        yield random_feeds(model, input_shapes(model, sizing, checks.inputs), checks.seed, 0)


def _given(model: ir.Model, match: Matching, feeds: Feeds) -> Feeds:
    """The same inputs, as the other model calls them."""
    names = {old.name: new.name for old, new in match.inputs.items() if old.name in feeds}
    given = {names[name]: array for name, array in feeds.items() if name in names}
    missing = {value.name for value in required(model)} - given.keys()
    if (
        missing
        or len(given) < len(feeds)
        or not all(model.graph.values[name].takes(np.shape(array)) for name, array in given.items())
    ):
        raise BnfoldError("the models have other inputs")
    return given


def _run(model: ir.Model, feeds: Feeds, observer: Callable[[str, Any], None], seconds: float) -> None:
    reference.evaluate(model, feeds, observer=observer, limit_seconds=seconds, noise=reference.Noise())


def _keeper(kept: Kept, names: Mapping[str, str] | set[str], most: int) -> Callable[[str, Any], None]:
    """Keeps the shape of each named value, and of its numbers not more than so many, from the same places."""

    def keep(name: str, datum: Any) -> None:
        if name in names and isinstance(datum, np.ndarray) and datum.dtype.kind in "biuf":
            flat = datum.reshape(-1)
            if flat.size > most:
                flat = flat[np.random.default_rng(flat.size).integers(0, flat.size, most)]
            kept[name] = datum.shape, flat.astype(np.float64)

    return keep


def _error(old: tuple[tuple[int, ...], Array], new: tuple[tuple[int, ...], Array], *, shaped: bool) -> float:
    """The largest difference, relative to the largest number of the first; infinite where they cannot be compared.

    Unless values are ``shaped``, other dims of as many numbers are a Reshape that only one model has.
    """
    one, other = old[1], new[1]
    finite = np.isfinite(one)
    is_alike = old[0] == new[0] or (not shaped and math.prod(old[0]) == math.prod(new[0]))
    if not is_alike or not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return float("inf")
    gap = np.abs(one[finite] - other[finite]).max(initial=0.0)
    scale = np.abs(one[finite]).max(initial=0.0)
    return float("inf") if np.isnan(gap) else float(gap / scale) if scale else float(gap)


def _read(value: ir.Value) -> set[str]:
    return {read.name for read in value.producer.inputs if read is not None} if value.producer is not None else set()
