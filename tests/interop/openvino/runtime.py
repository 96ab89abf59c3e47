"""The real openvino package: models built with its own operators, and what it computes. Skips where it is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bnfold import Options, Outcome, VerifyOptions, optimize, reference
from bnfold.interop.openvino.load import load
from tests.interop.openvino.text import statistics

ov = pytest.importorskip("openvino")
v0, v5 = (pytest.importorskip(f"openvino.opset{number}") for number in (1, 15))

Array = npt.NDArray[Any]
UNCHECKED = VerifyOptions(depth="none")
ROUNDING = 2e-5
"""Of the scale: what float32 makes of sums of a few hundred terms, and of a cancellation or two."""
HALF = 5e-3
"""Likewise, where weights were rounded to float16."""


@cache
def core() -> Any:
    made = ov.Core()
    made.set_property({"ENABLE_MMAP": False})
    return made


def constant(array: Any) -> Any:
    return v5.constant(np.asarray(array))


def draw(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *dims]).standard_normal(dims).astype(np.float32)


def norm(x: Any, channels: int, *, version: int = 5, name: str = "bn", epsilon: float = 1e-3, seed: int = 0) -> Any:
    module = v0 if version == 0 else v5
    return module.batch_norm_inference(x, *map(constant, statistics(channels, seed)), epsilon, name=name)


def save(path: Path, outputs: Sequence[Any], inputs: Sequence[Any], *, compress: bool = False) -> Path:
    model = ov.Model([v5.result(output) for output in outputs], list(inputs), "net")
    ov.save_model(model, path, compress_to_fp16=compress)
    return path


def run(path: Path, *feeds: Array) -> list[Array]:
    compiled = core().compile_model(core().read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answer = compiled(list(feeds))
    return [np.array(answer[index]) for index in range(len(compiled.outputs))]


def types(path: Path) -> list[str]:
    return [node.get_type_name() for node in core().read_model(path).get_ordered_ops()]


def refold(path: Path, **options: Any) -> tuple[Outcome, Path]:
    """The model with its BatchNormInference folded, beside it, and not verified: the test is what verifies."""
    target = path.with_name("out.xml")
    return optimize(path, target, options=Options(**options), verify=UNCHECKED), target


def error(expected: Array, actual: Array) -> float:
    assert expected.shape == actual.shape
    return float(np.abs(expected - actual).max() / np.abs(expected).max())


def check(path: Path, target: Path, *feeds: Array, bound: float = ROUNDING) -> None:
    """Both files compute the same in OpenVINO, and what the referee makes of the first one in float64."""
    for before, after in zip(run(path, *feeds), run(target, *feeds), strict=True):
        assert error(before, after) < bound
    truth = referee(path, dict(zip((value.name for value in load(path).graph.inputs), feeds, strict=True)))
    for expected, after in zip(truth, run(target, *feeds), strict=True):
        assert error(expected, after) < bound


def referee(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    model = load(path)
    (scope, *_) = model.scopes
    names = [value.name for _, value in scope.results]
    found = reference.evaluate(model, dict(feeds), list(dict.fromkeys(names)))
    return [np.asarray(found[name]) for name in names]
