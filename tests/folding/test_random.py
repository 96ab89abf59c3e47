"""Random graphs from the whole table of operators compute after folding what they did before; so do past failures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from fuzz.builder import Drawn
from fuzz.draw import draw, feed
from fuzz.judge import judge, shrink

from bnfold.folding.ops import window
from tests.conftest import sample

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.onnx"))


@pytest.mark.parametrize("mode", ["fold", "affines"])
@pytest.mark.parametrize("first", sample(range(0, 200, 25), every=4))
def test_random_graphs(first: int, mode: str) -> None:
    outcomes = {seed: judge(*draw(seed), mode) for seed in range(first, first + 25)}
    assert {seed: outcome.error for seed, outcome in outcomes.items() if outcome.error} == {}
    assert sum(outcome.folded for outcome in outcomes.values()) > 0, "what folds nothing shows nothing"


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_past_failures(path: Path) -> None:
    model = onnx.load(path)
    rng = np.random.default_rng(0)
    feeds = {
        info.name: feed(rng, Drawn(info.name, info.type.tensor_type.elem_type, _shape(info)))
        for info in model.graph.input
    }
    assert judge(model, feeds, path.stem.split("-")[0]).error == ""


def _shape(info: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value or 3 for dim in info.type.tensor_type.shape.dim)


def test_a_handler_that_lies_is_found_out_and_the_failure_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "pads", lambda _: False)  # a shift through zero padding
    failing = next(seed for seed in range(1000) if judge(*draw(seed)).error)
    model, feeds = draw(failing)
    small = shrink(model, feeds, lambda candidate, feeds: bool(judge(candidate, feeds).error))
    assert "Conv" in [node.op_type for node in small.graph.node]
    assert len(small.graph.node) <= len(model.graph.node)
    assert judge(small, feeds).error
