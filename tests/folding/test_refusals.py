"""Refusals that are not asked for again: the outcome is that of asking each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from _fuzz.draw import draw

from bnfold import ir
from bnfold.folding import attempts
from bnfold.folding.refusals import Refusals
from bnfold.pipeline import order
from bnfold.settings import Options
from tests.conftest import MODELS
from tests.folding.nets import Net, fold_only


def outcome(source: Path | onnx.ModelProto) -> tuple[bytes, list[str]]:
    model = ir.load(source)
    report = order.rewrite(model, Options())
    return ir.encode(model), [str(event) for event in report.batchnorms]


def outcome_of_asking_always(source: Path | onnx.ModelProto) -> tuple[bytes, list[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Refusals, "holds", lambda *_: False)
        patch.setattr(attempts.Attempt, "of_what_is_left", lambda *_: None)
        return outcome(source)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + 50):
        proto = draw(seed)[0]
        assert outcome(proto) == outcome_of_asking_always(proto), seed


@pytest.mark.parametrize("name", [path.name for path in sorted(MODELS.glob("*.onnx"))])
def test_stored_models(name: str) -> None:
    assert outcome(MODELS / name) == outcome_of_asking_always(MODELS / name)


def row_beside_another(*, shared: bool) -> onnx.ModelProto:
    """A BatchNormalization that nothing takes in, whose input a second one reads, which folds into the Conv behind it.

    Unless ``shared``, the second reads something else.
    """
    net = Net(dtype=np.float32)
    first = net.node("Sigmoid", net.input(2, 3, 5, 4))
    other = first if shared else net.node("Sigmoid", net.input(2, 3, 5, 4))
    left = net.batchnorm(first, 3)
    left = net.node("Add", net.node("Mul", left, net.const(3, 1, 1)), net.const(3, 1, 1))
    right = net.node("Conv", net.batchnorm(other, 3), net.const(6, 3, 2, 2))
    return net.model(net.node("Sigmoid", left), right)


@pytest.mark.parametrize(("shared", "asked"), [(False, 3), (True, 4)])
def test_only_an_edit_beside_it_is_a_reason_to_ask_again(
    shared: bool, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    ask = attempts.attempt

    def listening(node: ir.Node, *rest: Any) -> attempts.Attempt:
        calls.append(node.label)
        return ask(node, *rest)

    monkeypatch.setattr(attempts, "attempt", listening)
    folded = fold_only(row_beside_another(shared=shared))
    assert folded.ops.count("BatchNormalization") == 1
    assert len(calls) == asked
    assert len(set(calls)) == 2
