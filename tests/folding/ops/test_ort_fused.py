"""FusedConv: a Conv, what is added to it, and an activation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.folding.nets import Net, declined, folded


def fused(net: Net, x: str, *more: str, inputs: int = 4, activation: str = "", **attributes: Any) -> str:
    if activation:
        attributes["activation"] = activation
    kernel = net.const(4, inputs // attributes.get("group", 1), 2, 2)
    return net.node("FusedConv", x, kernel, *more, domain="com.microsoft", **attributes)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_up_without_activation(group: int, bias: bool) -> None:
    net = Net()
    y = fused(net, net.input(2, 4, 5, 6), *([net.const(4)] if bias else []), group=group, pads=[1, 0, 0, 1])
    assert folded(net, net.batchnorm(y, 4)).ops == ["FusedConv"]


@pytest.mark.parametrize(("activation", "params"), [("Relu", None), ("LeakyRelu", [0.3])])
def test_up_behind_an_activation(activation: str, params: list[float] | None) -> None:
    about: dict[str, Any] = {"activation_params": params} if params else {}
    net = Net()
    y = fused(net, net.input(2, 4, 5, 6), net.const(4), activation=activation, **about)
    assert folded(net, net.batchnorm(y, 4, positive=True)).ops == ["FusedConv", "Add"]
    net = Net()
    y = fused(net, net.input(2, 4, 5, 6), net.const(4), activation=activation, **about)
    assert folded(net, net.batchnorm(y, 4, positive=True, shift=np.zeros(4))).ops == ["FusedConv"]


@pytest.mark.parametrize(
    ("activation", "params", "positive", "reason"),
    [
        ("Relu", [], False, "negative-scale"),
        ("LeakyRelu", [0.1], False, "negative-scale"),
        ("Sigmoid", [], True, "no-handler"),
        ("Clip", [0.0, 6.0], True, "no-handler"),
    ],
)
def test_activations_that_end_it(activation: str, params: list[float], positive: bool, reason: str) -> None:
    net = Net()
    about: dict[str, Any] = {"activation_params": params} if params else {}
    y = fused(net, net.input(2, 4, 5, 6), net.const(4), activation=activation, **about)
    assert declined(net, net.batchnorm(y, 4, positive=positive)) == [reason]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["", "Relu"])
def test_what_is_added_is_scaled_too(bias: bool, activation: str) -> None:
    net = Net()
    x = net.input(2, 4, 5, 6)
    added = net.node("Conv", x, net.const(4, 4, 2, 2), net.const(4))
    y = fused(net, x, net.const(4) if bias else "", added, activation=activation)
    ops = folded(net, net.batchnorm(y, 4, positive=True)).ops
    assert ops == ["Conv", "FusedConv", *(["Add"] if activation else [])]


def test_what_is_added_cannot_be_scaled() -> None:
    net = Net()
    y = fused(net, net.input(2, 4, 5, 6), net.const(4), net.input(2, 4, 4, 5))
    assert declined(net, net.batchnorm(y, 4)) == ["graph-input"]


@pytest.mark.parametrize("activation", ["", "Relu", "Sigmoid"])
@pytest.mark.parametrize("group", [1, 2])
def test_down(activation: str, group: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 6), 4)
    assert folded(net, fused(net, x, net.const(4), activation=activation, group=group)).ops == ["FusedConv"]


def test_down_before_padding() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 6), 4)
    y = fused(net, x, net.const(4), activation="Relu", pads=[1, 1, 1, 1])
    assert folded(net, net.node("GlobalAveragePool", y)).ops == ["Add", "FusedConv", "GlobalAveragePool"]


def test_what_is_added_does_not_pass() -> None:
    net = Net()
    x = net.input(2, 4, 5, 6)
    added = net.batchnorm(net.node("Sin", net.input(2, 4, 4, 5)), 4)
    assert declined(net, net.node("Relu", fused(net, x, net.const(4), added))) == ["no-handler"]
