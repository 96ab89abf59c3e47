"""Latency of two models in onnxruntime: runs in turns, in one process, on one thread."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime

_LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "on": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_WARM_UP = 3
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Paired:
    """Seconds of both models, run by run: `before[i]` and `after[i]` were taken next to each other."""

    before: list[float]
    after: list[float]

    @property
    def ratio(self) -> float:
        """Return the median of after / before over the pairs."""
        return median(self._ratios())

    @property
    def spread(self) -> tuple[float, float]:
        """Return the quartiles of after / before over the pairs."""
        ratios = sorted(self._ratios())
        return ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]

    def _ratios(self) -> list[float]:
        return [after / before for before, after in zip(self.before, self.after, strict=True)]


class CannotRunError(Exception):
    """The runtime rejects the model; the message has its reason."""


def session(model: onnx.ModelProto, optimisation: str) -> onnxruntime.InferenceSession:
    """Open a session on one thread, optimisation "off" or "on".

    Raises:
        CannotRunError: The runtime rejects the model.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS[optimisation]
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base class of their own
        raise CannotRunError(str(error)) from error


def feeds_for(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Draw random numbers for every input; a dynamic dim is 1."""
    draw = np.random.default_rng(seed)
    held = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in held:
            kind = value.type.tensor_type
            dims = [dim.dim_value or 1 for dim in kind.shape.dim]
            feeds[value.name] = draw.normal(size=dims).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return feeds


def compare(before: onnx.ModelProto, after: onnx.ModelProto, optimisation: str, rounds: int) -> Paired:
    """Run both models in turns, in random order; a few runs at the start are not counted."""
    sessions = [session(model, optimisation) for model in (before, after)]
    feeds, coin = feeds_for(before), random.Random(0)
    times: list[list[float]] = [[], []]
    for turn in range(_WARM_UP + rounds):
        order = [0, 1] if coin.random() < 0.5 else [1, 0]
        for which in order:
            seconds = _timed(sessions[which], feeds)
            if turn >= _WARM_UP:
                times[which].append(seconds)
    return Paired(*times)


def _timed(runtime: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> float:
    started = time.perf_counter()
    runtime.run(None, dict(feeds))
    return time.perf_counter() - started
