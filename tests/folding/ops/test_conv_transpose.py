"""ConvTranspose: output channels are dealt out group by group, a shift goes down through a pointwise kernel only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.folding.nets import Net, declined, folded


@pytest.mark.parametrize("group", [1, 2, 3, 6])
@pytest.mark.parametrize("each", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_up(group: int, each: int, bias: bool) -> None:
    net = Net()
    inputs = [net.input(2, 6, 4, 5), net.const(6, each, 3, 2), *([net.const(group * each)] if bias else [])]
    y = net.node("ConvTranspose", *inputs, group=group, strides=[2, 1], pads=[1, 0, 0, 1], output_padding=[1, 0])
    assert folded(net, net.batchnorm(y, group * each)).ops == ["ConvTranspose"]


def test_up_with_one_scale_in_each_group() -> None:
    net = Net()
    y = net.node("ConvTranspose", net.input(2, 4, 5), net.const(4, 3, 2), group=2)
    result = folded(net, net.batchnorm(y, 6, scale=[1, 2, 3, 1, 2, 3]))
    assert result.ops == ["ConvTranspose"]


@pytest.mark.parametrize("group", [1, 2, 6])
def test_down_pointwise(group: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 6, 4, 5), 6)
    y = net.node("ConvTranspose", x, net.const(6, 3, 1, 1), group=group)
    assert folded(net, y).ops == ["ConvTranspose"]


@pytest.mark.parametrize(
    "attributes", [{"strides": [2, 2]}, {"output_padding": [1, 1], "strides": [2, 2]}, {"output_shape": [9, 11]}]
)
def test_down_pointwise_but_spread(attributes: dict[str, Any]) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 4, 5), 3)
    y = net.node("ConvTranspose", x, net.const(3, 4, 1, 1), **attributes)
    assert folded(net, y).ops == ["Add", "ConvTranspose"]


@pytest.mark.parametrize("group", [1, 3])
def test_down_with_a_wider_kernel(group: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 6, 4, 5), 6)
    result = folded(net, net.node("ConvTranspose", x, net.const(6, 2, 3, 2), group=group, pads=[1, 1, 0, 0]))
    assert result.ops == ["Add", "ConvTranspose"]


def test_down_with_a_wider_kernel_and_a_scale_alone() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 6, 4, 5), 6, shift=[0] * 6)
    assert folded(net, net.node("ConvTranspose", x, net.const(6, 2, 3, 2), strides=[2, 2])).ops == ["ConvTranspose"]


def test_groups_that_do_not_divide() -> None:
    net = Net()
    y = net.node("ConvTranspose", net.input(2, 3, 4, 5), net.const(3, 2, 1, 1), group=1)
    shifted = net.node("Transpose", net.batchnorm(net.node("Transpose", y, perm=[0, 2, 1, 3]), 4), perm=[0, 2, 1, 3])
    assert declined(net, shifted) == ["axis"]
