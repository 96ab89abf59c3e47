"""Tile, Expand, DepthToSpace, SpaceToDepth: elements repeated or dealt out anew."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.folding.affine import on_axis
from bnfold.folding.ops import repeat
from bnfold.report.reasons import Declined, Reason
from tests.folding.nets import Net, declined, folded


def conv(net: Net, channels: int = 4) -> str:
    return net.node("Conv", net.input(2, 3, 5, 7), net.const(channels, 3, 2, 2))


@pytest.mark.parametrize("repeats", [(1, 1, 3, 2), (2, 1, 1, 1)])
def test_tile_other_axes(repeats: tuple[int, ...]) -> None:
    net = Net()
    assert folded(net, net.batchnorm(net.node("Tile", conv(net), net.ints(*repeats)), 4)).ops == ["Conv", "Tile"]


def test_tile_the_channels_up() -> None:
    net = Net()
    tiled = net.node("Tile", conv(net, 2), net.ints(1, 3, 1, 1))
    alike = [net.const(value=np.tile(numbers, 3)) for numbers in ([1.0, -2.0], [0.5, 3.0], [2.0, 1.0], [1.0, 2.0])]
    assert folded(net, net.node("BatchNormalization", tiled, *alike)).ops == ["Conv", "Tile"]


def test_tile_the_channels_with_factors_that_do_not_repeat() -> None:
    net = Net()
    tiled = net.node("Tile", conv(net, 2), net.ints(1, 3, 1, 1))
    assert declined(net, net.batchnorm(tiled, 6)) == ["axis"]


def test_tile_down() -> None:
    net = Net()
    x = net.node("Tile", net.batchnorm(net.input(2, 3, 5), 3), net.ints(1, 2, 3))
    assert folded(net, net.node("Conv", x, net.const(4, 6, 2))).ops == ["Tile", "Conv"]


def test_tile_by_repeats_computed_at_run_time() -> None:
    net = Net()
    repeats = net.node("Cast", net.input(3), to=7)
    y = net.node("Tile", net.input(2, 4, 5), repeats)
    node = ir.load(net.model(y)).graph.nodes[1]
    with pytest.raises(Declined) as refusal:
        repeat.tile_up(node, on_axis(np.arange(1.0, 5.0), np.zeros(4), 1, 3))
    assert refusal.value.reason is Reason.NOT_STATIC


def test_expand_up() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 1, 1), net.const(4, 3, 1, 1))
    assert folded(net, net.batchnorm(net.node("Expand", y, net.ints(2, 4, 5, 7)), 4)).ops == ["Conv", "Expand"]


def test_expand_the_channels() -> None:
    net = Net()
    y = net.node("Expand", conv(net, 1), net.ints(2, 4, 4, 6))
    assert declined(net, net.batchnorm(y, 4)) == ["axis"]


def test_expand_down_into_more_axes() -> None:
    net = Net()
    x = net.node("Expand", net.batchnorm(net.input(3, 4, 1), 4), net.ints(2, 3, 4, 5))
    y = net.node("MatMul", net.node("Transpose", x, perm=[0, 1, 3, 2]), net.const(4, 6))
    assert folded(net, y).ops == ["Expand", "Transpose", "MatMul", "Add"]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_up(mode: str) -> None:
    net = Net()
    y = net.node("DepthToSpace", conv(net, 12), blocksize=2, mode=mode)
    assert folded(net, net.batchnorm(y, 3)).ops == ["Conv", "DepthToSpace"]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("fits", [True, False])
def test_depth_to_space_down(mode: str, fits: bool) -> None:
    net = Net()
    spread = np.tile if (mode == "DCR") == fits else np.repeat
    alike = [net.const(value=spread(numbers, 4)) for numbers in ([1.0, -2.0], [0.5, 3.0], [2.0, 1.0], [1.0, 2.0])]
    x = net.node("BatchNormalization", net.input(2, 8, 3, 5), *alike)
    y = net.node("Conv", net.node("DepthToSpace", x, blocksize=2, mode=mode), net.const(3, 2, 2, 2))
    if fits:
        assert folded(net, y).ops == ["DepthToSpace", "Conv"]
    else:
        assert declined(net, y) == ["axis"]


@pytest.mark.parametrize("fits", [True, False])
def test_space_to_depth_up(fits: bool) -> None:
    net = Net()
    y = net.node("SpaceToDepth", net.node("Conv", net.input(2, 3, 4, 6), net.const(2, 3, 1, 1)), blocksize=2)
    spread = np.tile if fits else np.repeat
    alike = [net.const(value=spread(numbers, 4)) for numbers in ([1.0, -2.0], [0.5, 3.0], [2.0, 1.0], [1.0, 2.0])]
    bn = net.node("BatchNormalization", y, *alike)
    if fits:
        assert folded(net, bn).ops == ["Conv", "SpaceToDepth"]
    else:
        assert declined(net, bn) == ["axis"]


def test_space_to_depth_down() -> None:
    net = Net()
    x = net.node("SpaceToDepth", net.batchnorm(net.input(2, 3, 4, 6), 3), blocksize=2)
    assert folded(net, net.node("Conv", x, net.const(4, 12, 1, 1))).ops == ["SpaceToDepth", "Conv"]
