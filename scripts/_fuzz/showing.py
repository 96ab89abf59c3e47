"""How often two models compute something else in onnxruntime, on numbers of many kinds and sizes of open dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

from _fuzz import runtime
from _fuzz.builder import Array

Feeds = Mapping[str, Array]
Truth = Literal["same", "shows", "does not run", "unclear"]
RUNS, FEWEST = 20, 5
SAME, DIFFERENT = 1e-4, 1e-2
"""Of an output's scale."""
FACTORS = (1.0, 1.0, 1.0, 0.1, 10.0)


def truth(before: Path, after: Path, drawn: Feeds) -> Truth:
    """``shows`` and ``does not run``: on most feeds that the original runs on; ``same``: on all of them."""
    try:
        first = runtime.session(before)
    except Exception:  # noqa: BLE001 - it raises what it likes
        return "unclear"
    try:
        second = runtime.session(after)
    except Exception as error:  # noqa: BLE001 - as above
        return "unclear" if "NOT_IMPLEMENTED" in str(error) else "does not run"
    errors = [_error(first, second, feeds) for feeds in _feeds(onnx.load(before), drawn)]
    ran = np.array([error for error in errors if not np.isnan(error)])
    if len(ran) < FEWEST:
        return "unclear"
    if np.mean(ran == np.inf) > 0.5:
        return "does not run"
    return "shows" if np.mean(ran > DIFFERENT) > 0.5 else "same" if ran.max() < SAME else "unclear"


def _feeds(model: onnx.ModelProto, drawn: Feeds) -> Iterator[Feeds]:
    """A third of them with other sizes for open dims; what has a default is mostly left at it."""
    rng = np.random.default_rng(0)
    stored = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name in drawn]
    for number in range(RUNS):
        sizes: dict[Any, int] = {}
        feeds: dict[str, Array] = {}
        for info in infos:
            shape = list(drawn[info.name].shape)
            for axis, dim in enumerate(info.type.tensor_type.shape.dim):
                if not dim.HasField("dim_value") and axis < len(shape) and number % 3 == 2:
                    symbol = dim.dim_param or (info.name, axis)
                    shape[axis] = sizes.setdefault(symbol, int(rng.choice([1, shape[axis] + 1, 2 * shape[axis]])))
            if info.name not in stored or rng.random() < 0.2:
                feeds[info.name] = _numbers(rng, drawn[info.name], shape)
        yield feeds


def _numbers(rng: np.random.Generator, drawn: Array, shape: list[int]) -> Array:
    """Floats of every scale; integers, which may be places or sizes, out of those drawn."""
    if drawn.dtype.kind in "iub":
        return rng.choice(drawn.reshape(-1), shape) if drawn.size else np.zeros(shape, drawn.dtype)
    return np.asarray(rng.standard_normal(shape) * rng.choice(FACTORS)).astype(drawn.dtype)


def _error(first: Any, second: Any, feeds: Feeds) -> float:
    """The largest of all outputs, of their scale; infinite where only the original runs, NaN where it does not."""
    names = [value.name for value in first.get_outputs()]
    try:
        expected = first.run(names, feeds)
    except Exception:  # noqa: BLE001 - it raises what it likes
        return float("nan")
    try:
        found = second.run(names, feeds)
    except Exception:  # noqa: BLE001 - as above
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
