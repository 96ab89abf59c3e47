"""Operators over several computed values, both ways: who gets the scale, who the shift."""

from __future__ import annotations

import numpy as np
import pytest

from tests.folding.nets import Net, declined, folded


def conv(net: Net, channels: int = 4, name: str = "x") -> str:
    return net.node("Conv", net.input(2, 3, 5, 7, name=name), net.const(channels, 3, 2, 2))


@pytest.mark.parametrize("op", ["Add", "Sub", "Sum", "Mean"])
def test_sums_of_two_convolutions(op: str) -> None:
    net = Net()
    result = folded(net, net.batchnorm(net.node(op, conv(net), conv(net)), 4))
    assert result.ops == ["Conv", "Conv", op]


@pytest.mark.parametrize("op", ["Sum", "Mean"])
def test_sums_of_three(op: str) -> None:
    net = Net()
    y = net.node(op, conv(net), conv(net), conv(net))
    assert folded(net, net.batchnorm(y, 4)).ops == ["Conv", "Conv", "Conv", op]


@pytest.mark.parametrize("swap", [False, True])
def test_the_arm_with_a_bias_takes_the_shift(swap: bool) -> None:
    net = Net()
    product = net.node("Reshape", net.node("MatMul", net.input(2, 24, 3), net.const(3, 1)), net.ints(2, 4, 2, 3))
    arms = [product, net.node("Conv", net.input(2, 3, 3, 4), net.const(4, 3, 2, 2))]
    y = net.node("Sub", *(arms[::-1] if swap else arms))
    assert declined(net, net.batchnorm(y, 4)) == ["axis"], "the channels are rows of the product, which do not scale"
    net = Net()
    rows = net.node("MatMul", net.const(4, 3), net.input(2, 3, 6))
    arms = [rows, net.node("Conv", net.input(2, 3, 7), net.const(4, 3, 2))]
    y = net.node("Sub", *(arms[::-1] if swap else arms))
    assert sorted(folded(net, net.batchnorm(y, 4)).ops) == ["Conv", "MatMul", "Sub"]


@pytest.mark.parametrize("op", ["Add", "Sum"])
def test_an_arm_that_is_broadcast_along_the_channels(op: str) -> None:
    net = Net()
    narrow = conv(net, channels=1)
    assert declined(net, net.batchnorm(net.node(op, conv(net), narrow), 4)) == ["axis"]


def test_an_arm_that_is_broadcast_along_other_axes() -> None:
    net = Net()
    pooled = net.node("Conv", net.input(2, 3, 1, 1), net.const(4, 3, 1, 1))
    assert folded(net, net.batchnorm(net.node("Add", pooled, conv(net)), 4)).ops == ["Conv", "Conv", "Add"]


def test_an_arm_of_lower_rank() -> None:
    net = Net()
    low = net.node("Conv", net.input(4, 3, 3), net.const(7, 3, 2))  # (4, 7, 2)
    high = net.node("Conv", net.input(3, 2, 7, 3), net.const(4, 2, 1, 2))  # (3, 4, 7, 2)
    assert declined(net, net.batchnorm(net.node("Add", low, high), 4)) == ["axis"], "its first axis is a batch there"


def test_the_same_value_twice_takes_a_scale() -> None:
    net = Net()
    y = conv(net)
    assert folded(net, net.batchnorm(net.node("Add", y, y), 4, shift=np.zeros(4))).ops == ["Conv", "Add"]


def test_the_same_value_twice_cannot_share_a_shift() -> None:
    net = Net()
    y = conv(net)
    assert declined(net, net.batchnorm(net.node("Add", y, y), 4)) == ["shared-value"]


def test_a_value_that_comes_back_on_another_arm() -> None:
    net = Net()
    y = conv(net)
    activated = net.node("Relu", y)
    bn = net.batchnorm(net.node("Mean", activated, net.node("Abs", y)), 4, positive=True, shift=np.zeros(4))
    assert folded(net, bn).ops == ["Conv", "Relu", "Abs", "Mean"]


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("constant", [(), (7,), (4, 1, 1)])
def test_extrema_with_a_constant(op: str, constant: tuple[int, ...]) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 8), net.const(4, 3, 2, 2))
    bn = net.batchnorm(net.node(op, net.const(*constant), y), 4, positive=True)
    assert folded(net, bn).ops == ["Conv", op]


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extrema_downward(op: str) -> None:
    net = Net()
    x = net.node(op, net.batchnorm(net.input(2, 4, 5, 7), 4, positive=True), net.const())
    assert folded(net, net.node("Conv", x, net.const(3, 4, 1, 1))).ops == [op, "Conv"]


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extrema_turn_around_under_a_negative_scale(op: str) -> None:
    net = Net()
    assert declined(net, net.batchnorm(net.node(op, conv(net), conv(net)), 4)) == ["negative-scale"]


@pytest.mark.parametrize("op", ["Mul", "Div"])
def test_products_leave_the_shift_behind(op: str) -> None:
    net = Net()
    gate = net.node("Exp", net.input(2, 4, 1, 1))
    result = folded(net, net.batchnorm(net.node(op, conv(net), gate), 4))
    assert sorted(result.ops) == sorted(["Add", "Conv", "Exp", op])


@pytest.mark.parametrize("op", ["Mul", "Div"])
def test_products_downward(op: str) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4, shift=np.zeros(4))
    y = net.node(op, x, net.node("Exp", net.input(2, 4, 1, 1)))
    assert sorted(folded(net, net.node("Conv", y, net.const(3, 4, 1, 1))).ops) == sorted(["Conv", "Exp", op])


def test_a_divisor_downward() -> None:
    net = Net()
    x = net.batchnorm(net.node("Exp", net.input(2, 4, 5, 7)), 4, shift=np.zeros(4))
    y = net.node("Div", net.input(2, 4, 5, 7), x)
    assert sorted(folded(net, net.node("Conv", y, net.const(3, 4, 1, 1)), tolerance=1e-8).ops) == ["Conv", "Div", "Exp"]


def test_a_product_has_no_room_for_a_shift() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4)
    y = net.node("Mul", x, net.input(2, 4, 1, 1))
    assert declined(net, net.node("Conv", y, net.const(3, 4, 1, 1))) == ["shift-no-room"]


@pytest.mark.parametrize(("op", "slot"), [("Add", 0), ("Sub", 0), ("Sub", 1), ("Sum", 1)])
def test_a_shift_alone_goes_down_a_sum(op: str, slot: int) -> None:
    net = Net()
    operands = [net.input(2, 4, 5, 7), net.input(2, 4, 5, 7)]
    scale = np.sqrt(np.full(4, 1.0))
    x = operands[slot]
    s, b = net.const(value=scale), net.const(4)
    mean, var = net.const(4), net.const(value=np.full(4, 1.0))
    operands[slot] = net.node("BatchNormalization", x, s, b, mean, var, epsilon=0.0)
    y = net.node("Conv", net.node(op, *operands), net.const(3, 4, 1, 1))
    assert folded(net, y).ops == [op, "Conv"]


@pytest.mark.parametrize("op", ["Add", "Sub", "Sum"])
@pytest.mark.parametrize("slot", [0, 1])
def test_a_scale_goes_down_a_sum_where_the_other_operand_takes_its_inverse(op: str, slot: int) -> None:
    net = Net()
    operands = [net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 1, 1))]
    operands.insert(slot, net.batchnorm(net.input(2, 4, 5, 7), 4))
    y = net.node("Conv", net.node(op, *operands), net.const(3, 4, 1, 1))
    assert folded(net, y).ops == ["Conv", op, "Conv"]


def test_a_scale_does_not_go_down_a_sum_with_an_operand_that_nobody_can_rescale() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4)
    y = net.node("Conv", net.node("Add", x, net.input(2, 4, 5, 7)), net.const(3, 4, 1, 1))
    assert declined(net, y) == ["graph-input"]


@pytest.mark.parametrize("smallest", [0.0, 1e-5])
def test_an_inverse_that_would_be_too_large(smallest: float) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4, scale=[smallest, 1.0, -0.5, 2.0], shift=np.zeros(4))
    other = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 1, 1))
    assert declined(net, net.node("Conv", net.node("Add", x, other), net.const(3, 4, 1, 1))) == ["zero-scale"]
