"""Conv takes an affine from behind always, from before where no zero padding dilutes the shift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold.folding import facts
from tests.folding.nets import Net, declined, folded

SIZES = {3: (5,), 4: (6, 7), 5: (5, 6, 7)}


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize("bias", ["absent", "empty", "given"])
def test_up_scales_output_channels(rank: int, group: int, bias: str) -> None:
    net = Net()
    x = net.input(2, 6, *SIZES[rank])
    inputs = [net.const(12, 6 // group, *(2, 1, 2)[: rank - 2])]
    inputs += {"absent": [], "empty": [""], "given": [net.const(12)]}[bias]
    y = net.batchnorm(net.node("Conv", x, *inputs, group=group, pads=[1] * 2 * (rank - 2)), 12)
    result = folded(net, y)
    assert result.ops == ["Conv"]
    assert result.report.batchnorms[0].verdict == "folded"


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 1]},
        {"dilations": [2, 1]},
        {"auto_pad": "SAME_UPPER"},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
        {"pads": [0, 1, 2, 0]},
    ],
)
def test_up_whatever_the_window(attributes: dict[str, Any]) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 8, 7), net.const(5, 3, 3, 2), **attributes)
    assert folded(net, net.batchnorm(y, 5)).ops == ["Conv"]


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 14, 15, 22])
def test_up_at_every_opset(opset: int) -> None:
    net = Net(opset=opset)
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 1, 2))
    assert folded(net, net.batchnorm(y, 4)).ops == ["Conv"]


@pytest.mark.parametrize("group", [1, 2, 3, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_down_without_padding(group: int, bias: bool) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 6, 5, 7), 6)
    y = net.node("Conv", x, net.const(12, 6 // group, 3, 2), *([net.const(12)] if bias else []), group=group)
    assert folded(net, y).ops == ["Conv"]


def test_down_with_a_scale_alone_whatever_the_padding() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 6, 5, 7), 6, shift=np.zeros(6))
    result = folded(net, net.node("Conv", x, net.const(4, 3, 3, 2), group=2, pads=[1, 1, 1, 1]))
    assert result.ops == ["Conv"]
    assert len(result.node("Conv").inputs) == 2, "no bias where none is needed"


@pytest.mark.parametrize("group", [1, 2, 6])
def test_down_with_padding_leaves_an_add(group: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 6, 5, 7), 6)
    result = folded(net, net.node("Conv", x, net.const(6, 6 // group, 3, 2), group=group, pads=[1, 0, 1, 1]))
    assert result.ops == ["Add", "Conv"]


@pytest.mark.parametrize(
    ("size", "stride", "padded"), [(5, 1, True), (4, 2, False), (6, 2, False), (5, 2, True), (7, 3, True)]
)
def test_down_knows_whether_same_padding_pads(size: int, stride: int, padded: bool) -> None:
    net = Net()
    x = net.batchnorm(net.input(1, 2, size, size), 2)
    y = net.node("Conv", x, net.const(3, 2, 2, 2), auto_pad="SAME_UPPER", strides=[stride, stride])
    assert sorted(folded(net, y).ops) == (["Add", "Conv"] if padded else ["Conv"])


def test_down_with_same_padding_over_an_unknown_size() -> None:
    net = Net()
    x = net.batchnorm(net.input(1, 2, 4, 4, declared=(1, 2, "H", "W")), 2)
    assert folded(net, net.node("Conv", x, net.const(3, 2, 2, 2), auto_pad="SAME_UPPER", strides=[2, 2])).ops == [
        "Add",
        "Conv",
    ]


def test_several_readers_that_all_accept() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4)
    one, two = (net.node("Conv", x, net.const(size, 4, 2, 1)) for size in (3, 5))
    assert folded(net, one, two).ops == ["Conv", "Conv"]


def test_several_padded_readers_share_one_add() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4)
    one, two = (net.node("Conv", x, net.const(size, 4, 3, 3), pads=[1, 1, 1, 1]) for size in (3, 5))
    assert folded(net, one, two).ops == ["Add", "Conv", "Conv"]


def test_a_value_that_is_its_own_weight() -> None:
    net = Net()
    x = net.batchnorm(net.input(3, 3, 2, 2), 3)
    assert declined(net, net.node("Conv", x, x)) == ["dynamic-weight"]


def test_a_weight_computed_at_run_time() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.input(4, 3, 1, 2))
    assert declined(net, net.batchnorm(y, 4)) == ["dynamic-weight"]


def test_a_bias_computed_at_run_time() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 1, 2), net.input(4))
    assert declined(net, net.batchnorm(y, 4)) == ["dynamic-weight"]


def test_an_affine_along_another_axis() -> None:
    net = Net()
    y = net.node("Conv", net.input(5, 3, 5, 5), net.const(5, 3, 1, 1))
    turned = net.node("Transpose", y, perm=[0, 2, 1, 3])
    assert declined(net, net.batchnorm(turned, 5)) == ["axis"]


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_a_weight_without_elements(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift of no channels at all: there is nothing to sum over, and no run would show a fault."""
    monkeypatch.setattr(facts, "MISFIT", ())
    net = Net()
    x = net.node("Mul", net.input(2, 0, 5, 7), net.const(value=np.full((1, 1, 1, 1), 2.0)))
    x = net.node("Add", x, net.const(value=np.full((1, 1, 1, 1), shift)))
    result = folded(net, net.node("Conv", x, net.const(4, 0, 1, 1), net.const(4)), all_affines=True)
    assert ("Add" in result.ops) == (shift != 0)
