"""Run several models in turns in a runtime, and decide whether one is significantly slower than the first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

Array = np.ndarray[Any, Any]
Run = Callable[[], object]

LOSS = 1.02
"""A model loses if the lower bound of its ratio is above this."""
_WARM_UP, _SHORT, _RESAMPLED = 3, 0.002, 2000


class CannotRunError(Exception):
    """The runtime rejects the model; the message has its reason."""


class Race(NamedTuple):
    """Seconds of one run of each model, round by round; the first model is the baseline."""

    times: dict[str, list[float]]

    def ratios(self, name: str) -> Array:
        """Return seconds ÷ those of the first model, pair by pair."""
        first = next(iter(self.times.values()))
        quotients: Array = np.array(self.times[name]) / np.array(first)
        return quotients

    def median(self, name: str) -> float:
        """Return the median of the ratios."""
        return float(np.median(self.ratios(name)))

    def quartiles(self, name: str) -> tuple[float, float]:
        """Return the lower and the upper quartile of the ratios."""
        ratios = sorted(self.ratios(name).tolist())
        return ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]

    def lower_bound(self, name: str) -> float:
        """Return the lower bound of the median ratio: 95 of 100 bootstrap samples are above it."""
        ratios, draw = self.ratios(name), np.random.default_rng(0)
        drawn = draw.integers(0, ratios.size, (_RESAMPLED, ratios.size))
        return float(np.quantile(np.median(ratios[drawn], axis=1), 0.05))

    def loses(self, name: str) -> bool:
        """Whether the model is significantly slower."""
        return self.lower_bound(name) > LOSS


def random_feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Draw normal numbers for every input; a dynamic dim is 1."""
    draw = np.random.default_rng(seed)
    initializers = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in initializers:
            kind = value.type.tensor_type
            dims = [dim.dim_value or 1 for dim in kind.shape.dim]
            feeds[value.name] = draw.normal(size=dims).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return feeds


def session(model: onnx.ModelProto | Path, threads: int = 1, *, optimized: bool = True) -> Any:
    """Open a session in onnxruntime, with its default optimisation or without.

    Raises:
        CannotRunError: The runtime rejects the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base class of their own
        raise CannotRunError(str(error)) from error


def onnxruntime_run(
    model: onnx.ModelProto | Path, feeds: Mapping[str, Array], threads: int = 1, *, optimized: bool = True
) -> Run:
    """Return a function that runs the model in onnxruntime; ``feeds`` may have more than its inputs."""
    opened = session(model, threads, optimized=optimized)
    wanted = {value.name for value in opened.get_inputs()}
    chosen = {name: array for name, array in feeds.items() if name in wanted}
    return lambda: opened.run(None, chosen)


def openvino_run(path: Path, feeds: Mapping[str, Array], threads: int = 1) -> Run:
    """Return a function that runs the model in OpenVINO on the CPU, in float32."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(str(path)), "CPU", settings)
    named = {name: index for index, port in enumerate(compiled.inputs) for name in port.names}
    chosen = {named[name]: np.array(array) for name, array in feeds.items() if name in named}
    return lambda: compiled(chosen)


RUNTIMES: dict[str, Callable[[Path, Mapping[str, Array], int], Run]] = {
    "onnxruntime": onnxruntime_run,
    "openvino": openvino_run,
}


def race(runs: Mapping[str, Run], rounds: int, seconds: float = inf) -> Race:
    """Run each model in turn, in an order drawn anew each round, until ``rounds`` or ``seconds`` are over.

    A few runs of each come first and do not count. A model that takes less than 2 ms runs several times in a round.
    """
    coin, names = random.Random(0), list(runs)
    repeats = max(1, int(_SHORT / max(_timed(runs[names[0]], _WARM_UP), 1e-6)))
    for name in names[1:]:
        _timed(runs[name], _WARM_UP)
    times: dict[str, list[float]] = {name: [] for name in names}
    until = time.perf_counter() + seconds
    for turn in range(rounds):
        for name in coin.sample(names, len(names)):
            times[name].append(_timed(runs[name], repeats))
        if turn >= _WARM_UP and time.perf_counter() > until:
            break
    return Race(times)


def compare(before: onnx.ModelProto, after: onnx.ModelProto, rounds: int, *, optimized: bool) -> Race:
    """Race a model ``before`` and ``after`` a rewrite in onnxruntime on one thread, on random inputs."""
    feeds, models = random_feeds(before), {"before": before, "after": after}
    runs = {name: onnxruntime_run(model, feeds, optimized=optimized) for name, model in models.items()}
    return race(runs, rounds)


def losers(load: Callable[[], Mapping[str, Run]], rounds: int, seconds: float) -> tuple[Race, Sequence[str]]:
    """Return a race, and the models that are slower in it and in a second one of twice the rounds.

    Both load the models anew: where a runtime puts the weights can make one of two equal files 5 % slower for good.
    """
    runs = load()
    if len(runs) < 2:
        return Race({}), ()
    first = race(runs, rounds, seconds)
    slower = [name for name in list(first.times)[1:] if first.loses(name)]
    if not slower:
        return first, ()
    second = race(load(), 2 * rounds, 2 * seconds)
    return first, [name for name in slower if name in second.times and second.loses(name)]


def _timed(run: Run, repeats: int) -> float:
    """Return the mean seconds of one run."""
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - started) / repeats
