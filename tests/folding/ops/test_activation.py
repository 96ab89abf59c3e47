"""Positively homogeneous functions carry a scale; the shift stays as an Add."""

from __future__ import annotations

import numpy as np
import pytest

from tests.folding.nets import Net, declined, fold_only, folded

FUNCTIONS = ["Relu", "LeakyRelu", "PRelu", "Abs"]


def apply(net: Net, op: str, x: str, channels: int = 4) -> str:
    return net.node(op, x, *([net.const(channels, 1, 1)] if op == "PRelu" else []))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_up_leaves_the_shift(op: str) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    result = folded(net, net.batchnorm(apply(net, op, y), 4, positive=True))
    assert result.ops == ["Conv", op, "Add"]
    assert result.weight("Add").shape == (4, 1, 1)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_down_leaves_the_shift(op: str) -> None:
    net = Net()
    x = apply(net, op, net.batchnorm(net.input(2, 4, 5, 7), 4, positive=True))
    assert folded(net, net.node("Conv", x, net.const(3, 4, 3, 3), pads=[1, 1, 1, 1])).ops == ["Add", op, "Conv"]


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_scale_alone_goes_through(op: str) -> None:
    net = Net()
    x = apply(net, op, net.batchnorm(net.input(2, 4, 5, 7), 4, positive=True, shift=np.zeros(4)))
    assert folded(net, net.node("Conv", x, net.const(3, 4, 3, 3), pads=[1, 1, 1, 1])).ops == [op, "Conv"]


@pytest.mark.parametrize("op", ["Relu", "LeakyRelu", "Abs"])
def test_a_dead_channel_is_a_constant_behind_the_function(op: str) -> None:
    net = Net()
    x = apply(net, op, net.batchnorm(net.input(2, 4, 5, 7), 4, scale=[1.0, 0.0, 2.0, 0.0], shift=[1, -2, 3, 4]))
    assert folded(net, net.node("Conv", x, net.const(3, 4, 1, 1))).ops == ["Add", op, "Conv"]


def test_a_dead_channel_before_zero_padding() -> None:
    net = Net()
    x = apply(net, "Relu", net.batchnorm(net.input(2, 4, 5, 7), 4, scale=[1.0, 0.0, 2.0, 0.0], shift=[1, 2, 3, 4]))
    y = net.node("Conv", x, net.const(3, 4, 3, 3), pads=[1, 1, 1, 1])
    assert declined(net, y) == ["zero-scale"]


def test_a_dead_channel_with_a_slope_of_its_own() -> None:
    net = Net()
    x = apply(net, "PRelu", net.batchnorm(net.input(2, 4, 5, 7), 4, scale=[1.0, 0.0, 2.0, 0.0], shift=[1, 2, 3, 4]))
    assert declined(net, net.node("Conv", x, net.const(3, 4, 1, 1))) == ["zero-scale"]


@pytest.mark.parametrize("op", FUNCTIONS)
def test_negative_scales(op: str) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    bn = net.batchnorm(apply(net, op, y), 4)
    assert declined(net, net.node("Conv", apply(net, op, bn), net.const(3, 4, 1, 1))) == ["negative-scale"]


def test_a_plan_without_a_residual_is_preferred() -> None:
    net = Net()
    y = net.node("Relu", net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)))
    result = folded(net, net.node("Conv", net.batchnorm(y, 4, positive=True), net.const(3, 4, 1, 1)))
    assert result.ops == ["Conv", "Relu", "Conv"]
    assert result.report.batchnorms[0].direction == "down"


def test_an_add_before_opset_seven() -> None:
    net = Net(opset=6)
    y = net.node("Relu", net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)))
    assert declined(net, net.batchnorm(y, 4, positive=True, is_test=1)) == ["opset"]


def test_the_slope_is_no_value_to_scale() -> None:
    net = Net()
    slope = net.batchnorm(net.input(2, 4, 5, 7), 4)
    assert declined(net, net.node("PRelu", net.input(2, 4, 5, 7), slope)) == ["no-handler"]


def test_two_functions_share_one_add() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4, positive=True)
    ends = [net.node("Conv", apply(net, op, x), net.const(3, 4, 1, 1)) for op in ("Relu", "Abs")]
    assert folded(net, *ends).ops.count("Add") == 1, "the Add is the same for both"


@pytest.mark.parametrize("up", [True, False])
def test_no_factor_passes_a_function_that_is_not_homogeneous(up: bool) -> None:
    net = Net(opset=18)
    x = net.input(2, 4, 5, 7)
    y = net.batchnorm(net.node("Mish", x), 4) if up else net.node("Mish", net.batchnorm(x, 4))
    proto = net.model(y if up else net.node("Conv", y, net.const(3, 4, 1, 1)))
    (event,) = fold_only(proto).report.batchnorms
    assert event.reason is not None
    assert event.reason.code == "no-handler"
    assert "f(s·x) is s·f(x)" in event.detail
