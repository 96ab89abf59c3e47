"""How often two models compute something else in onnxruntime, on numbers of many kinds and sizes of open dims."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from _fuzz import feeding, parts, runtime
from _fuzz.feeding import Feeds

Truth = Literal["same", "shows", "does not run", "unclear"]
RUNS, FEWEST = 20, 5
SAME, DIFFERENT = 1e-4, 1e-2
"""Of an output's scale."""


def truth(before: Path, after: Path, drawn: Feeds) -> Truth:
    """``shows`` and ``does not run``: on most feeds that the original runs on; ``same``: on all of them."""
    try:
        first = runtime.session(before)
    except Exception:  # noqa: BLE001 - it raises what it likes
        return "unclear"
    try:
        second = runtime.session(after)
    except Exception as error:  # noqa: BLE001 - as above
        if "NOT_IMPLEMENTED" in str(error):
            return "unclear"
        second = None
    original = onnx.load(before)
    is_disputed = runtime.is_disputed(before) or _averages_nothing(original, drawn)
    if is_disputed or not first.get_outputs() or not _declared(original) <= _declared(onnx.load(after)):
        return "unclear"  # what callers may no longer feed they see, and verification says so
    errors = [_error(first, second, feeds) for feeds in _feeds(original, drawn)]
    ran = np.array([error for error in errors if not np.isnan(error)])
    if len(ran) < FEWEST:
        return "unclear"
    if np.mean(ran == np.inf) > 0.5:
        return "does not run"
    return "shows" if np.mean(ran > DIFFERENT) > 0.5 else "same" if ran.max() < SAME else "unclear"


def _averages_nothing(model: onnx.ModelProto, feeds: Feeds) -> bool:
    """Whether it may take the mean of no elements, which ONNX leaves undefined; onnxruntime says 0."""
    has_mean = any(node.op_type in ("ReduceMean", "GlobalAveragePool") for node in parts.nodes(model))
    return has_mean and any(np.size(array) == 0 for array in feeds.values())


def _declared(model: onnx.ModelProto) -> set[bytes]:
    """What callers may feed."""
    constant = {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    return {info.SerializeToString() for info in model.graph.input if info.name not in constant}


def _names(values: Any) -> list[str]:
    return [value.name for value in values]


def _feeds(model: onnx.ModelProto, drawn: Feeds) -> Iterator[Feeds]:
    """A third of them with other sizes for open dims; what has a default is mostly left at it."""
    rng = np.random.default_rng(0)
    stored = {tensor.name for tensor in model.graph.initializer}
    for number in range(RUNS):
        fed = {name: array for name, array in drawn.items() if name not in stored or number % 5 == 4}
        yield feeding.resized(model, fed, rng) if number % 3 == 2 else feeding.numbers(fed, rng)


def _error(first: Any, second: Any, feeds: Feeds) -> float:
    """The largest of all outputs, of their scale; infinite where only the original runs, NaN where it does not."""
    names = _names(first.get_outputs())
    try:
        expected = first.run(names, feeds)
    except Exception:  # noqa: BLE001 - it raises what it likes
        return float("nan")
    try:
        found = second.run(names, feeds) if second is not None else None
    except Exception:  # noqa: BLE001 - as above
        found = None
    if found is None:
        return float("inf")
    return max((_distance(*pair) for pair in zip(expected, found, strict=True)), default=0.0)


def _distance(expected: Any, found: Any) -> float:
    if np.shape(expected) != np.shape(found) or expected.dtype != found.dtype:
        return 1.0
    if expected.dtype.kind not in "fiub":
        return float((expected != found).any())
    one, two = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(one)
    if (finite & ~np.isfinite(two)).any():
        return 1.0
    scale = np.abs(one, where=finite, out=np.zeros(one.shape)).max(initial=0.0)
    error = float(np.abs(np.subtract(one, two, where=finite, out=np.zeros(one.shape))).max(initial=0.0))
    return error / scale if scale else float(error > 0)
