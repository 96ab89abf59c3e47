"""Flatten, Reshape, Squeeze, Unsqueeze: legal iff every element's channel is well defined for all unknown sizes."""

from __future__ import annotations

import pytest

from tests.folding.nets import Net, declined, folded


def conv(net: Net, channels: int = 4) -> str:
    return net.node("Conv", net.input(2, 3, 5, 7), net.const(channels, 3, 2, 2))


def test_flatten_up() -> None:
    net = Net()
    y = net.node("Flatten", conv(net))
    assert folded(net, net.batchnorm(net.node("Unsqueeze", y, net.ints(1)), 1)).ops == ["Conv", "Flatten", "Unsqueeze"]


def test_flatten_up_with_a_factor_for_each_element() -> None:
    net = Net()
    y = net.node("Flatten", conv(net))
    assert declined(net, net.batchnorm(y, 4 * 4 * 6)) == ["axis"]


@pytest.mark.parametrize("axis", [1, -2])
def test_flatten_down_repeats(axis: int) -> None:
    net = Net()
    y = net.node("Flatten", net.batchnorm(net.input(2, 3, 4), 3), axis=axis)
    assert folded(net, net.node("Gemm", y, net.const(12, 5))).ops == ["Flatten", "Gemm"]


def test_flatten_down_with_the_channels_among_the_rows() -> None:
    net = Net()
    y = net.node("Flatten", net.batchnorm(net.input(2, 3, 4), 3), axis=2)
    assert declined(net, net.node("Gemm", y, net.const(4, 5))) == ["axis"]


@pytest.mark.parametrize("target", [(2, -1), (0, -1), (0, 12), (-1, 12)])
@pytest.mark.parametrize("declared", [(2, 3, 4), ("N", 3, 4)])
def test_reshape_down_into_a_matrix(target: tuple[int, int], declared: tuple[int | str, ...]) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 4, declared=declared), 3)
    y = net.node("Gemm", net.node("Reshape", x, net.ints(*target)), net.const(12, 5))
    if declared[0] == "N" and target[0] == 2:
        assert declined(net, y) == ["not-static"]
    else:
        assert folded(net, y).ops == ["Reshape", "Gemm"]


def test_reshape_of_an_image_of_unknown_size() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 4, 5, declared=(2, 3, "H", "W")), 3)
    y = net.node("Reshape", x, net.ints(0, 3, -1))
    assert folded(net, net.node("Conv", y, net.const(4, 3, 1))).ops == ["Reshape", "Conv"]


def test_reshape_that_deals_the_channels_out_by_an_unknown_size() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 4, declared=(2, 3, "L")), 3)
    y = net.node("Reshape", x, net.ints(0, -1, 3))
    assert declined(net, net.node("Conv", y, net.const(5, 4, 1))) == ["not-static"]


def test_reshape_to_a_shape_that_coincides_is_no_transpose() -> None:
    net = Net()
    y = net.node("Reshape", net.node("MatMul", net.input(6, 3), net.const(3, 6)), net.ints(1, 6, 6))
    assert declined(net, net.batchnorm(y, 6)) == ["axis"]


def test_reshape_to_an_image_of_one_pixel() -> None:
    net = Net()
    y = net.node("Reshape", net.node("MatMul", net.input(4, 3), net.const(3, 6)), net.ints(-1, 6, 1, 1))
    assert folded(net, net.batchnorm(y, 6)).ops == ["Gemm", "Reshape"]


def test_a_channel_shuffle() -> None:
    net = Net()
    y = net.node("Reshape", conv(net, 6), net.ints(0, 2, 3, 4, 6))
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3, 4]), net.ints(0, -1, 4, 6))
    assert folded(net, net.batchnorm(y, 6)).ops == ["Conv", "Reshape", "Transpose", "Reshape"]


def test_a_reshape_by_a_shape_computed_at_run_time() -> None:
    net = Net()
    shape = net.node("Shape", net.input(2, 4, 3))
    y = net.node("Reshape", net.node("MatMul", net.input(8, 5), net.const(5, 3)), shape)
    assert declined(net, net.batchnorm(y, 4)) == ["not-static"]


@pytest.mark.parametrize("opset", [11, 13])
def test_unsqueeze_and_squeeze(opset: int) -> None:
    net = Net(opset=opset)

    def axes(op: str, x: str, *numbers: int) -> str:
        return net.node(op, x, axes=list(numbers)) if opset < 13 else net.node(op, x, net.ints(*numbers))

    y = net.node("Gemm", net.input(4, 3), net.const(3, 5))
    y = axes("Squeeze", net.batchnorm(axes("Unsqueeze", y, -1, 2), 5), 2, 3)
    assert folded(net, y).ops == ["Gemm", "Unsqueeze", "Squeeze"]


def test_squeeze_of_whatever_is_one() -> None:
    net = Net(opset=13)
    y = net.node("Conv", net.input(2, 3, 1, 5), net.const(4, 3, 1, 1))
    assert folded(net, net.batchnorm(net.node("Squeeze", y), 4)).ops == ["Conv", "Squeeze"]


def test_squeeze_of_whatever_may_be_one() -> None:
    net = Net(opset=13)
    y = net.node("Conv", net.input(2, 3, 1, 5, declared=("N", 3, 1, 5)), net.const(4, 3, 1, 1))
    assert "BatchNormalization" in folded(net, net.batchnorm(net.node("Squeeze", y), 4)).ops


def test_a_declared_size_of_zero_proves_nothing() -> None:
    """Some exporters write 0 for a batch that they leave open; then the rows are there."""
    net = Net()
    y = net.node("Flatten", net.batchnorm(net.input(0, 3, 3, 5), 3), axis=2)
    assert declined(net, y) == ["not-static"]
