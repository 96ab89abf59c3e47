"""Run several models in turns in a runtime, and decide whether one is significantly slower than the first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Run = Callable[[], object]

LOSS = 1.02
"""A model loses if the lower bound of its ratio is above this."""
_WARM_UP, _SHORT, _RESAMPLED = 3, 0.002, 2000


class Race(NamedTuple):
    """Seconds of each model, round by round; the first is the baseline."""

    times: dict[str, list[float]]

    def ratios(self, name: str) -> Array:
        """Return seconds ÷ those of the first model, pair by pair."""
        first = next(iter(self.times.values()))
        quotients: Array = np.array(self.times[name]) / np.array(first)
        return quotients

    def median(self, name: str) -> float:
        """Return the median of the ratios."""
        return float(np.median(self.ratios(name)))

    def lower_bound(self, name: str) -> float:
        """Return the lower bound of the median ratio: 95 of 100 bootstrap samples are above it."""
        ratios, draw = self.ratios(name), np.random.default_rng(0)
        drawn = draw.integers(0, ratios.size, (_RESAMPLED, ratios.size))
        return float(np.quantile(np.median(ratios[drawn], axis=1), 0.05))

    def loses(self, name: str) -> bool:
        """Whether the model is significantly slower."""
        return self.lower_bound(name) > LOSS


def onnxruntime_run(path: Path, feeds: Mapping[str, Array], threads: int) -> Run:
    """Return a function that runs the model in onnxruntime with its default optimisation."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    chosen = {name: array for name, array in feeds.items() if name in wanted}
    return lambda: session.run(None, chosen)


def openvino_run(path: Path, feeds: Mapping[str, Array], threads: int) -> Run:
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


def race(runs: Mapping[str, Run], rounds: int, seconds: float) -> Race:
    """Run each model in turn, in an order drawn anew each round, until ``rounds`` or ``seconds`` are over."""
    coin, names = random.Random(0), list(runs)
    repeats = max(1, int(_SHORT / max(_timed(runs[names[0]], _WARM_UP) / _WARM_UP, 1e-6)))
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
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    return time.perf_counter() - started
