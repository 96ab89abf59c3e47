"""Where the values of two models part: both run on the same inputs, and what matched nodes make is compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bnfold import ir, reference
from bnfold.diffing.matching import Matching
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.settings import VerifyOptions
from bnfold.verification.engine import candidates, float_type

QUICK_SECONDS, QUICK_NODES = 5.0, 5000
"""What comparing values may take, and nodes of models that it is done for, where nobody asked."""
_HELD = 1 << 24
"""Numbers of the first model that are kept until the second one has run, over all values."""
_SIZES = 3
"""Choices of open sizes that are tried."""
_NOTABLE = 256
"""Roundings of a value's own type, relative to its largest number, from which on it counts as another one."""
_MOST = 5

_FEW = 8
"""Numbers of one channel that tell whether it only has another scale."""


class ValueSample(NamedTuple):
    """Some numbers of a value: its shape, the places in its flat array, and what stands there."""

    shape: tuple[int, ...]
    places: Array
    numbers: Array


Kept = dict[str, ValueSample]


def compare_values(
    before: ir.Model, after: ir.Model, match: Matching, checks: VerifyOptions, *, seconds: float
) -> dict[str, Any]:
    """Run both models and compare what matched nodes read.

    Returns:
        ``errors`` of the values in the order of the first model; how many are ``differing``, ``notable`` (by more than
        rounding) and ``scaled`` (inner values, notable, that have another factor and shift in each channel);
        ``outputs`` alone; and where differences that reach an output ``begin``. Or a ``reason`` why there is none.
    """
    twins: dict[str, str] = {}
    for one, other in _pairs(before, after, match):
        twins.setdefault(one.name, other.name)
    most = max(64, min(4096, _HELD // max(len(twins), 1)))
    try:
        feeds, kept = _first(before, checks, set(twins), most, seconds)
        given = _given(after, match, feeds)
        seen: Kept = {}
        made = {other: one for one, other in twins.items() if one in kept}
        _run(after, given, _keeper(seen, made, most, kept), seconds)
    except (BnfoldError, MemoryError) as error:
        return {"reason": str(error) or "not enough memory"}
    values = before.graph.values
    errors = {
        name: _error(kept[name], seen[twins[name]], shaped=values[name].is_output)
        for name in kept
        if twins[name] in seen
    }
    notable = {name for name, error in errors.items() if error > _NOTABLE * float_type(values[name].dtype).roundoff}
    outputs = [name for name in errors if values[name].is_output]
    inside = notable.difference(outputs)
    scaled = [name for name in inside if _is_scaled(kept[name], seen[twins[name]], values[name])]
    begins = _beginnings(before.graph, errors, notable, [name for name in outputs if name in notable])

    def told(name: str) -> dict[str, Any]:
        producer = values[name].producer
        return {
            "before": name,
            "after": twins[name],
            "operator": producer.op_type if producer else "",
            "error": errors[name],
        }

    return {
        "inputs": {name: list(np.shape(array)) for name, array in feeds.items()},
        "errors": [[name, error] for name, error in errors.items()],
        "differing": sum(error > 0 for error in errors.values()),
        "notable": len(notable),
        "scaled": len(scaled),
        "outputs": {
            "count": len(outputs),
            "notable": len(notable.intersection(outputs)),
            "largest": told(max(outputs, key=errors.__getitem__)) if outputs else None,
        },
        "begins": [told(name) for name in begins[:_MOST]],
        "largest": told(max(errors, key=errors.__getitem__)) if errors else None,
    }


def _pairs(before: ir.Model, after: ir.Model, match: Matching) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield values that should be the same: outputs of one name, and what two matched nodes read in one place.

    What they make need not be: a BatchNormalization may still be to come in one model that the other has folded.
    """
    outputs = {value.name: value for value in after.graph.outputs}
    yield from ((value, outputs[value.name]) for value in before.graph.outputs if value.name in outputs)
    for old, new in match.pairs.items():
        for one, other in zip(old.inputs, new.inputs, strict=False):
            sides = (one, before.graph), (other, after.graph)
            if all(value is not None and value.producer is not None and value.graph is graph for value, graph in sides):
                yield one, other  # type: ignore[misc] # neither is None


def _first(
    model: ir.Model, checks: VerifyOptions, names: set[str], most: int, seconds: float
) -> tuple[dict[str, Array], Kept]:
    """Return the first inputs that the model takes, and what it makes of them."""
    trouble: BnfoldError | None = None
    for feeds, *_ in islice(candidates(model, replace(checks, samples=1)), _SIZES):
        kept: Kept = {}
        try:
            _run(model, feeds, _keeper(kept, names, most), seconds)
        except reference.CannotEvaluate as error:
            trouble = trouble or error
        else:
            return feeds, kept
    raise trouble or BnfoldError("there are no inputs to run the first model on")


def _given(model: ir.Model, match: Matching, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return the same inputs, as the other model calls them."""
    names = {old.name: new.name for old, new in match.inputs.items() if old.name in feeds}
    given = {names[name]: array for name, array in feeds.items() if name in names}
    missing = {value.name for value in model.required_inputs()} - given.keys()
    if (
        missing
        or len(given) < len(feeds)
        or not all(model.graph.values[name].takes(np.shape(array)) for name, array in given.items())
    ):
        raise BnfoldError("the models have other inputs")
    return given


def _run(model: ir.Model, feeds: dict[str, Array], observer: Callable[[str, Any], None], seconds: float) -> None:
    reference.evaluate(model, feeds, observer=observer, limit_seconds=seconds, noise=reference.Noise())


def _keeper(
    kept: Kept, names: Mapping[str, str] | set[str], most: int, first: Kept | None = None
) -> Callable[[str, Any], None]:
    """Return an observer that keeps at most so many numbers of each named value, from the places of the ``first``."""

    def keep(name: str, datum: Any) -> None:
        if name in names and isinstance(datum, np.ndarray) and datum.dtype.kind in "biuf":
            twin = first[names[name]] if first is not None and isinstance(names, Mapping) else None
            is_alike = twin is not None and math.prod(twin.shape) == datum.size
            places = twin.places if twin is not None and is_alike else _places(datum.shape, most)
            kept[name] = ValueSample(datum.shape, places, datum.reshape(-1)[places].astype(np.float64))

    return keep


def _places(shape: tuple[int, ...], most: int) -> Array:
    """Choose places of a flat array: all of a small one, else random ones, several in each channel that is chosen."""
    size = math.prod(shape)
    if size <= most:
        return np.arange(size)
    generator = np.random.default_rng(size)
    inner = math.prod(shape[2:])
    if len(shape) < 2 or size // shape[1] < _FEW:
        return generator.integers(0, size, most)
    channels = np.unique(np.linspace(0, shape[1] - 1, min(shape[1], most // _FEW)).astype(np.int64))
    each = most // channels.size
    batch, place = (generator.integers(0, high, (channels.size, each)) for high in (shape[0], inner))
    return ((batch * shape[1] + channels[:, None]) * inner + place).reshape(-1)


def _is_scaled(old: ValueSample, new: ValueSample, value: ir.Value) -> bool:
    """Whether each channel of the second value is the first one's times a factor, plus a shift, but for rounding.

    That is what folding does to values inside. Channels of which too few numbers were kept show nothing.
    """
    if old.shape != new.shape or len(old.shape) < 2:
        return False
    channels = old.places // math.prod(old.shape[2:]) % old.shape[1]
    allowed = _NOTABLE * float_type(value.dtype).roundoff * np.abs(new.numbers).max(initial=0.0)
    for channel in np.unique(channels):
        one, other = (side.numbers[channels == channel] for side in (old, new))
        if one.size < 3 or not (np.isfinite(one).all() and np.isfinite(other).all()):
            return False
        spread = one - one.mean()
        power = spread @ spread
        factor = spread @ (other - other.mean()) / power if power else 0.0
        if np.abs(other - other.mean() - factor * spread).max() > allowed:
            return False
    return True


def _beginnings(graph: ir.Graph, errors: Mapping[str, float], notable: set[str], wrong: list[str]) -> list[str]:
    """Find notable values that nothing notable goes into; of these, if outputs are ``wrong``, the ones behind these."""
    touched: dict[ir.Value, bool] = {}
    first: list[str] = []
    for node in graph.nodes:
        reads = any(touched.get(value, False) for value in node.inputs if value is not None)
        for value in node.outputs:
            if value is not None:
                touched[value] = value.name in notable if value.name in errors else reads
                if value.name in notable and not reads:
                    first.append(value.name)
    behind: set[ir.Value] = set()
    waiting = [graph.values[name] for name in wrong]
    while waiting:
        value = waiting.pop()
        if value in behind or not touched.get(value, False):
            continue
        behind.add(value)
        waiting += [read for read in value.producer.inputs if read is not None] if value.producer is not None else []
    return [name for name in first if not wrong or graph.values[name] in behind]


def _error(old: ValueSample, new: ValueSample, *, shaped: bool) -> float:
    """Return the largest difference, relative to the largest number of the first.

    Infinite where they cannot be compared.

    Unless values are ``shaped``, other dims of as many numbers are a Reshape that only one model has.
    """
    one, other = old.numbers, new.numbers
    finite = np.isfinite(one)
    is_alike = old.shape == new.shape or (not shaped and math.prod(old.shape) == math.prod(new.shape))
    if not is_alike or not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return float("inf")
    gap = np.abs(one[finite] - other[finite]).max(initial=0.0)
    scale = np.abs(one[finite]).max(initial=0.0)
    return float("inf") if np.isnan(gap) else float(gap / scale) if scale else float(gap)
