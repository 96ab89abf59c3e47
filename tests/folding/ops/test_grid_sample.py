"""GridSample and DeformConv: a scale moves through, a shift only where nothing is read beside the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.folding.nets import Net, declined, folded


def conv(net: Net, x: str, outputs: int, inputs: int) -> str:
    return net.node("Conv", x, net.const(outputs, inputs, 1, 1), net.const(outputs))


def grid(net: Net, x: str, **attributes: Any) -> str:
    """Some positions lie outside."""
    return net.node("GridSample", x, net.const(value=net.rng.uniform(-1.4, 1.4, (2, 3, 2, 2))), **attributes)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
@pytest.mark.parametrize("align_corners", [0, 1])
def test_grid_sample(mode: str, padding_mode: str, align_corners: int) -> None:
    net = Net(opset=20)
    about = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    y = net.batchnorm(grid(net, conv(net, net.input(2, 3, 5, 7), 4, 3), **about), 4)
    assert folded(net, y).ops == ["Conv", "GridSample"]
    net = Net(opset=20)
    y = conv(net, grid(net, net.batchnorm(net.input(2, 4, 5, 7), 4), **about), 3, 4)
    assert folded(net, y).ops == ["GridSample", "Conv"]


def test_grid_sample_with_zeros_beside() -> None:
    net = Net(opset=20)
    y = net.batchnorm(grid(net, conv(net, net.input(2, 3, 5, 7), 4, 3)), 4)
    assert declined(net, y) == ["shift-through-padding"]
    net = Net(opset=20)
    y = net.batchnorm(grid(net, conv(net, net.input(2, 3, 5, 7), 4, 3)), 4, shift=np.zeros(4))
    assert folded(net, y).ops == ["Conv", "GridSample"]


def test_grid_sample_of_an_affine_by_row() -> None:
    net = Net(opset=20)
    y = conv(net, grid(net, net.node("Mul", net.input(2, 4, 5, 7), net.const(5, 1)), padding_mode="border"), 3, 4)
    assert folded(net, y, all_affines=True).ops == ["Mul", "GridSample", "Conv"]


def deform(net: Net, x: str, *more: str, group: int = 1) -> str:
    offset = net.const(2, 8, 4, 6)
    return net.node("DeformConv", x, net.const(6, 4 // group, 2, 2), offset, *more, kernel_shape=[2, 2], group=group)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_deform_conv(group: int, bias: bool, mask: bool) -> None:
    net = Net(opset=19)
    more = [net.const(6) if bias else "", *([net.const(2, 4, 4, 6)] if mask else [])]
    y = net.batchnorm(deform(net, net.input(2, 4, 5, 7), *more, group=group), 6)
    assert folded(net, y).ops == ["DeformConv"]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("shift", "ops"), [(None, ["Add", "DeformConv"]), (np.zeros(4), ["DeformConv"])])
def test_deform_conv_behind(group: int, shift: Any, ops: list[str]) -> None:
    net = Net(opset=19)
    y = deform(net, net.batchnorm(net.input(2, 4, 5, 7), 4, shift=shift), net.const(6), group=group)
    assert folded(net, y).ops == ops
