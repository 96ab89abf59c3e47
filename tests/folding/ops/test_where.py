"""Where: both arms want the same, or one of them is a constant."""

from __future__ import annotations

import numpy as np

from tests.folding.nets import Net, declined, folded


def conv(net: Net, x: str, outputs: int = 4, inputs: int = 4) -> str:
    return net.node("Conv", x, net.const(outputs, inputs, 1, 1), net.const(outputs))


def mask(net: Net, *shape: int) -> str:
    return net.tensor(net.rng.random(shape) < 0.5)


def test_upward() -> None:
    net = Net()
    x = net.input(2, 4, 5, 7)
    y = net.batchnorm(net.node("Where", mask(net, 5, 7), conv(net, x), conv(net, x)), 4)
    assert folded(net, y).ops == ["Conv", "Conv", "Where"]
    net = Net()
    x = net.input(2, 4, 5, 7)
    y = net.batchnorm(net.node("Where", mask(net, 2, 1, 5, 7), net.const(value=np.array(0.5)), conv(net, x)), 4)
    assert folded(net, y).ops == ["Conv", "Where"]


def test_downward() -> None:
    net = Net()
    x = net.input(2, 4, 5, 7)
    y = conv(net, net.node("Where", mask(net, 5, 7), net.batchnorm(x, 4), net.const(4, 1, 1)))
    assert folded(net, y).ops == ["Where", "Conv"]
    net = Net()
    x = net.input(2, 4, 5, 7)
    n = net.batchnorm(x, 4)
    y = conv(net, net.node("Where", mask(net, 5, 7), net.node("Transpose", n, perm=[0, 1, 2, 3]), n))
    assert folded(net, y).ops == ["Transpose", "Where", "Conv"]


def test_two_affines_of_their_own() -> None:
    net = Net()
    x = net.input(2, 4, 5, 7)
    y = conv(net, net.node("Where", mask(net, 5, 7), net.batchnorm(x, 4), net.batchnorm(x, 4)))
    assert set(declined(net, y)) <= {"no-handler", "shared-value"}


def test_an_arm_that_is_computed_otherwise() -> None:
    net = Net()
    x = net.input(2, 4, 5, 7)
    y = conv(net, net.node("Where", mask(net, 5, 7), net.batchnorm(x, 4), net.node("Sigmoid", x)))
    assert len(declined(net, y)) == 1


def test_a_mask_that_stretches_the_arm() -> None:
    """The value has one channel, what is chosen has four."""
    net = Net()
    x = conv(net, net.input(2, 4, 5, 7), 1)
    y = net.batchnorm(net.node("Where", mask(net, 4, 1, 1), x, net.const(4, 1, 1)), 4)
    assert declined(net, y) == ["axis"]


def test_a_scale_of_zero_has_no_inverse() -> None:
    net = Net()
    n = net.batchnorm(net.input(2, 4, 5, 7), 4, scale=[1.0, 0.0, 2.0, 3.0])
    assert declined(net, conv(net, net.node("Where", mask(net, 5, 7), n, net.const(4, 1, 1)))) != []
