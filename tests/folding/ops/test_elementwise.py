"""Constant Mul, Add, Sub, Div, Neg move along with a BatchNormalization, in either order of their operands."""

from __future__ import annotations

import numpy as np
import pytest

from tests.folding.nets import Net, declined, folded


@pytest.mark.parametrize("constant", [(), (1,), (4, 1, 1), (1, 4, 1, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("op", ["Mul", "Add", "Sub", "Div"])
@pytest.mark.parametrize("before", [True, False])
def test_beside_a_batchnorm(op: str, first: bool, constant: tuple[int, ...], before: bool) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    y = y if before else net.batchnorm(y, 4)
    operands = [net.const(*constant), y] if first else [y, net.const(*constant)]
    y = net.node(op, *operands)
    y = net.batchnorm(y, 4) if before else y
    result = folded(net, y, tolerance=1e-7)
    if op == "Div" and first:
        assert "Div" in result.ops, "dividing by the value is no affine"
    else:
        assert result.ops == ["Conv"]


def test_neg() -> None:
    net = Net()
    y = net.node("Neg", net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)))
    assert folded(net, net.batchnorm(y, 4)).ops == ["Conv"]


@pytest.mark.parametrize("constant", [(7,), (6, 1), (2, 1, 1, 1)])
def test_a_constant_along_another_axis(constant: tuple[int, ...]) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 6, 7), net.const(4, 3, 1, 1))
    y = net.node("Mul", y, net.const(*constant))
    assert declined(net, net.batchnorm(y, 4))[0] in ("axis", "not-static")


def test_a_vector_as_long_as_the_channels_on_another_axis() -> None:
    net = Net()
    y = net.node("Mul", net.node("Conv", net.input(2, 3, 4, 4), net.const(4, 3, 1, 1)), net.const(4))
    assert declined(net, net.batchnorm(y, 4)) == ["axis"]


def test_a_constant_that_stretches_the_value() -> None:
    net = Net()
    y = net.node("Mul", net.node("Conv", net.input(2, 3, 1, 5), net.const(4, 3, 1, 1)), net.const(6, 1))
    assert "BatchNormalization" in folded(net, net.batchnorm(y, 4)).ops


@pytest.mark.parametrize("constant", [(0, 4, 1, 1), (0, 5)])
def test_a_constant_without_elements(constant: tuple[int, ...]) -> None:
    """A declared size of 0 is often an unknown one: of one row that is fed, the constant leaves none."""
    net = Net()
    y = net.node("Mul", net.node("Conv", net.input(0, 3, 0, 5), net.const(4, 3, 1, 1)), net.const(*constant))
    assert declined(net, net.batchnorm(y, 4)) == ["not-static"]


def test_further_up_behind_a_carrier() -> None:
    net = Net()
    y = net.node("Mul", net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2)), net.const(4, 1, 1))
    assert folded(net, net.batchnorm(net.node("Identity", y), 4)).ops == ["Conv", "Identity"]


def test_further_down_behind_a_carrier() -> None:
    net = Net()
    x = net.node("Sub", net.const(3, 1, 1), net.node("Identity", net.batchnorm(net.input(2, 3, 5, 7), 3)))
    assert folded(net, net.node("Conv", x, net.const(4, 3, 2, 2))).ops == ["Identity", "Conv"]


def test_division_by_zero() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    y = net.node("Identity", net.node("Div", y, net.const(value=np.array([[[1.0]], [[0.0]], [[2.0]], [[1.0]]]))))
    assert declined(net, net.batchnorm(y, 4)) == ["non-finite"]


def test_legacy_broadcasting() -> None:
    net = Net(opset=6)
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    y = net.node("Identity", net.node("Mul", y, net.const(4), broadcast=1, axis=1))
    assert declined(net, net.batchnorm(y, 4, is_test=1)) == ["legacy-broadcast"]


@pytest.mark.parametrize("constant", [(), (5, 7), (3, 1, 1)])
@pytest.mark.parametrize("op", ["Mul", "Div"])
def test_two_scales_that_nothing_takes_are_one(op: str, constant: tuple[int, ...]) -> None:
    net = Net()
    y = net.node(op, net.node("Tanh", net.input(2, 3, 5, 7)), net.const(*constant))
    y = net.node("Mul", y, net.const(1, 3, 5, 7))
    assert folded(net, net.node("Exp", y), all_affines=True, tolerance=1e-8).ops == ["Tanh", "Mul", "Exp"]


def test_a_shift_between_two_scales_keeps_them() -> None:
    net = Net()
    y = net.node("Mul", net.node("Tanh", net.input(2, 3, 5, 7)), net.const())
    y = net.node("Mul", net.node("Abs", net.node("Add", y, net.const(3, 1, 1))), net.const(1, 3, 5, 7))
    assert folded(net, net.node("Exp", y), all_affines=True).ops == ["Tanh", "Mul", "Add", "Abs", "Mul", "Exp"]
