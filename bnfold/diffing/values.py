"""Find where the values of two models diverge: run both on the same inputs, and compare the inputs of matched nodes."""

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
"""Values are compared by default only within these limits: seconds, and nodes of a model."""
_KEPT = 1 << 24
"""Numbers of the first model that are kept, over all values, until the second model has run."""
_SIZES = 3
"""Choices of dynamic sizes that are tried."""
_NOTABLE = 256
"""A difference is notable from so many units of roundoff on, relative to the value's largest number."""
_MOST = 5

_FEW = 8
"""Numbers sampled of each channel. So many show whether the channel is only scaled and shifted."""


class ValueSample(NamedTuple):
    """Some numbers of a value: its shape, the positions in its flat array, and the numbers there."""

    shape: tuple[int, ...]
    places: Array
    numbers: Array


KeptValues = dict[str, ValueSample]


def compare_values(
    before: ir.Model, after: ir.Model, match: Matching, checks: VerifyOptions, *, seconds: float
) -> dict[str, Any]:
    """Run both models and compare the inputs of matched nodes.

    Returns:
        ``errors`` of the values, in the order of the first model. How many of them are ``differing``, ``notable``
        (beyond rounding) and ``scaled`` (notable, no output, and equal but for a scale and a shift of each channel).
        ``outputs`` counts outputs alone. ``begins`` lists where differences that reach an output begin. If the models
        cannot be compared, there is only a ``reason``.
    """
    counterparts: dict[str, str] = {}
    for one, other in _pairs(before, after, match):
        counterparts.setdefault(one.name, other.name)
    most = max(64, min(4096, _KEPT // max(len(counterparts), 1)))
    try:
        feeds, kept = _first(before, checks, set(counterparts), most, seconds)
        given = _given(after, match, feeds)
        seen: KeptValues = {}
        made = {other: one for one, other in counterparts.items() if one in kept}
        _run(after, given, _keeper(seen, made, most, kept), seconds)
    except (BnfoldError, MemoryError) as error:
        return {"reason": str(error) or "not enough memory"}
    values = before.graph.values
    errors = {
        name: _error(kept[name], seen[counterparts[name]], shaped=values[name].is_output)
        for name in kept
        if counterparts[name] in seen
    }
    notable = {name for name, error in errors.items() if error > _NOTABLE * float_type(values[name].dtype).roundoff}
    outputs = [name for name in errors if values[name].is_output]
    inside = notable.difference(outputs)
    scaled = [name for name in inside if _is_scaled(kept[name], seen[counterparts[name]], values[name])]
    begins = _beginnings(before.graph, errors, notable, [name for name in outputs if name in notable])

    def row(name: str) -> dict[str, Any]:
        producer = values[name].producer
        return {
            "before": name,
            "after": counterparts[name],
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
            "largest": row(max(outputs, key=errors.__getitem__)) if outputs else None,
        },
        "begins": [row(name) for name in begins[:_MOST]],
        "largest": row(max(errors, key=errors.__getitem__)) if errors else None,
    }


def _pairs(before: ir.Model, after: ir.Model, match: Matching) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield values that should be equal: outputs with equal names, and the inputs of matched nodes.

    The outputs of matched nodes may differ: one model may have folded a BatchNormalization that is still ahead in the
    other.
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
) -> tuple[dict[str, Array], KeptValues]:
    """Return the first inputs that the model accepts, and samples of the values that it computes from them."""
    trouble: BnfoldError | None = None
    for feeds, *_ in islice(candidates(model, replace(checks, samples=1)), _SIZES):
        kept: KeptValues = {}
        try:
            _run(model, feeds, _keeper(kept, names, most), seconds)
        except reference.CannotEvaluate as error:
            trouble = trouble or error
        else:
            return feeds, kept
    raise trouble or BnfoldError("there are no inputs to run the first model on")


def _given(model: ir.Model, match: Matching, feeds: dict[str, Array]) -> dict[str, Array]:
    """Return the same inputs under the names that the other model has for them."""
    names = {old.name: new.name for old, new in match.inputs.items() if old.name in feeds}
    given = {names[name]: array for name, array in feeds.items() if name in names}
    missing = {value.name for value in model.required_inputs()} - given.keys()
    if (
        missing
        or len(given) < len(feeds)
        or not all(model.graph.values[name].takes(np.shape(array)) for name, array in given.items())
    ):
        lone = {"A": feeds.keys() - names.keys(), "B": missing}
        told = [f"only {side} takes {', '.join(sorted(each))}" for side, each in lone.items() if each]
        there = {new: old for old, new in names.items()}
        sizes = [name for name, array in given.items() if not model.graph.values[name].takes(np.shape(array))]
        alike = [name for name in sizes if there[name] == name]
        told += [f"B takes other sizes of {', '.join(alike)}"] if alike else []
        told += [f"B's {name} takes other sizes than A's {there[name]}" for name in sizes if name not in alike]
        raise BnfoldError("; ".join(["the models have other inputs", *told]))
    return given


def _run(model: ir.Model, feeds: dict[str, Array], observer: Callable[[str, Any], None], seconds: float) -> None:
    reference.evaluate(model, feeds, observer=observer, limit_seconds=seconds, noise=reference.Noise())


def _keeper(
    kept: KeptValues, names: Mapping[str, str] | set[str], most: int, first: KeptValues | None = None
) -> Callable[[str, Any], None]:
    """Return an observer that keeps up to ``most`` numbers of each named value.

    If ``first`` has samples of the other model, the same positions are kept.
    """

    def keep(name: str, datum: Any) -> None:
        if name in names and isinstance(datum, np.ndarray) and datum.dtype.kind in "biuf":
            counterpart = first[names[name]] if first is not None and isinstance(names, Mapping) else None
            is_alike = counterpart is not None and math.prod(counterpart.shape) == datum.size
            places = counterpart.places if counterpart is not None and is_alike else _places(datum.shape, most)
            kept[name] = ValueSample(datum.shape, places, datum.reshape(-1)[places].astype(np.float64))

    return keep


def _places(shape: tuple[int, ...], most: int) -> Array:
    """Choose positions in a flat array: all of a small array, else random ones.

    Of a large array with channels, some channels are chosen, and several positions in each.
    """
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
    """Whether each channel of the second value is the first one, scaled and shifted, up to rounding.

    Folding changes inner values in this way. A channel with fewer than three kept numbers shows nothing.
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
    """Find notable values that are not computed from notable values.

    If outputs are ``wrong``, only values that these outputs depend on are returned.
    """
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
    """Return the largest difference, relative to the largest number of the first value.

    It is infinite if the values cannot be compared. Shapes have to be equal if the value is ``shaped``. Otherwise equal
    numbers of elements are enough, because one model may have a Reshape that the other does not need.
    """
    one, other = old.numbers, new.numbers
    finite = np.isfinite(one)
    is_alike = old.shape == new.shape or (not shaped and math.prod(old.shape) == math.prod(new.shape))
    if not is_alike or not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return float("inf")
    gap = np.abs(one[finite] - other[finite]).max(initial=0.0)
    scale = np.abs(one[finite]).max(initial=0.0)
    return float("inf") if np.isnan(gap) else float(gap / scale) if scale else float(gap)
