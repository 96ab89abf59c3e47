"""One BatchNormalization absorbed by another, in inference and, from behind, in training mode too."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from bnfold.semantics import Policy
from tests.folding.nets import Net, declined, fold_only, folded

Mode = Literal["auto", "training", "inference"]


def test_two_in_a_row() -> None:
    net = Net()
    y = net.batchnorm(net.batchnorm(net.input(2, 3, 5, 7), 3), 3)
    result = folded(net, y)
    assert result.ops == ["BatchNormalization"]
    assert [event.verdict for event in result.report.batchnorms] == ["kept", "folded"]


def test_two_in_a_row_behind_a_convolution() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    assert folded(net, net.batchnorm(net.batchnorm(y, 4), 4)).ops == ["Conv"]


def test_a_mul_behind_goes_into_it() -> None:
    net = Net()
    y = net.node("Mul", net.batchnorm(net.input(2, 3, 5, 7), 3), net.const(3, 1, 1))
    assert folded(net, y).ops == ["BatchNormalization"]


@pytest.mark.parametrize("op", ["Mul", "Add", "Sub"])
def test_arithmetic_before_goes_into_it(op: str) -> None:
    net = Net()
    y = net.batchnorm(net.node(op, net.input(2, 3, 5, 7), net.const(3, 1, 1)), 3)
    assert folded(net, y).ops == ["BatchNormalization"]


def test_training_mode_takes_an_affine_from_behind() -> None:
    net = Net()
    weights = [net.const(4), net.const(4), net.const(4), net.const(value=np.full(4, 2.0))]
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    y, _, _ = net.nodes_of("BatchNormalization", y, *weights, outputs=3, training_mode=1)
    result = folded(net, net.batchnorm(y, 4))
    assert result.ops == ["Conv", "BatchNormalization"]
    assert result.reasons == ["training-mode"]


def test_training_mode_takes_nothing_from_before() -> None:
    net = Net()
    weights = [net.const(3), net.const(3), net.const(3), net.const(value=np.full(3, 2.0))]
    x = net.batchnorm(net.input(2, 3, 5, 7), 3)
    y, _, _ = net.nodes_of("BatchNormalization", x, *weights, outputs=3, training_mode=1)
    assert declined(net, y)[0] == "subgraph-statistics"


@pytest.mark.parametrize("mode", ["auto", "training", "inference"])
def test_before_opset_7_whoever_does_not_say_inference_takes_nothing_from_before(
    mode: Literal["auto", "training", "inference"],
) -> None:
    """What such a node means is for the caller to say, and under ``training`` its statistics would change."""
    net = Net(opset=6)
    y = net.batchnorm(net.batchnorm(net.input(2, 3, 5, 7), 3, is_test=1), 3)
    result = fold_only(net.model(y), policy=Policy(legacy_mode=mode))
    assert result.ops.count("BatchNormalization") == (2 if mode == "training" else 1)
    assert result.reasons == (["subgraph-statistics", "training-mode"] if mode == "training" else ["graph-input"])


def test_a_constant_affine_on_its_parameters_is_none_on_its_input() -> None:
    net = Net()
    scale = net.node("Relu", net.input(3))
    y = net.node(
        "BatchNormalization", net.input(2, 3, 5), scale, net.const(3), net.const(3), net.const(value=np.ones(3))
    )
    assert declined(net, net.batchnorm(y, 3))[0] == "dynamic-parameters"


@pytest.mark.parametrize("gamma", [1e-3, 1e-6, 1e-8])
def test_a_large_inverse_keeps_the_digits_of_the_mean(gamma: float) -> None:
    """The variance that one beside a very small scale would have cannot be stored; its mean can."""
    net = Net()
    y = net.node("Conv", net.input(2, 3, 4, 4), net.const(2, 3, 1, 1))
    zeros, ones = net.const(value=np.zeros(2)), net.const(value=np.ones(2))
    first = net.node("BatchNormalization", y, net.const(value=np.full(2, gamma)), zeros, zeros, ones)
    mean = net.const(value=np.array([2.7, -0.75]))
    second = net.node("BatchNormalization", y, ones, zeros, mean, ones)
    assert folded(net, first, second).ops == ["Conv", "BatchNormalization"]


def test_a_large_inverse_keeps_the_digits_of_the_mean_in_float16() -> None:
    """Beside a variance that is stored with all digits, too; kept as it was, the mean would be far from the values."""
    net = Net(dtype=np.float16)
    y = net.node("Conv", net.input(2, 3, 6, 6), net.const(2, 3, 1, 1))
    zeros, ones = net.const(value=np.zeros(2)), net.const(value=np.ones(2))
    first = net.node("BatchNormalization", y, net.const(value=np.full(2, 0.07)), zeros, zeros, ones)
    mean, var = net.const(value=np.array([2.7, -20.0])), net.const(value=np.array([1.0, 0.01]))
    second = net.node("BatchNormalization", y, ones, zeros, mean, var)
    assert folded(net, first, second, tolerance=5e-4).ops == ["Conv", "BatchNormalization"]
