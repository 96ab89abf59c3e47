"""A row of affines behind a Conv, BatchNormalization among them, goes into it as one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import numpy_helper

from bnfold.report.reasons import Reason
from tests.folding.nets import Net, fold_only, folded


def row(biases: bool, dtype: type = np.float32) -> Net:
    """Convolutions of different widths, groups and ranks of kernel, each with a BatchNormalization behind it."""
    net = Net(dtype=dtype)
    x = net.input(2, 6, 9, 8)
    for outputs, group in ((4, 2), (10, 1), (5, 5)):
        inputs = {4: 6, 10: 4, 5: 10}[outputs]
        kernel = net.const(outputs, inputs // group, 3, 2)
        operands = [x, kernel, net.const(outputs)] if biases else [x, kernel]
        x = net.node("Relu", net.batchnorm(net.node("Conv", *operands, group=group), outputs))
    net.node("Relu", x)
    return net


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_convolutions_of_different_widths_groups_and_kernels(biases: bool, dtype: type) -> None:
    net = row(biases, dtype)
    result = folded(net, net.nodes[-1].output[0], tolerance=1e-5 if dtype is np.float32 else 1e-10)
    assert result.ops == ["Conv", "Relu"] * 3 + ["Relu"]


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_where_two_rows_meet_both_are_folded(op_type: str) -> None:
    net = Net()
    images = [net.input(1, 3, 5, 6) for _ in range(2)]  # of one, Add and Sub would become one Conv
    arms = [net.batchnorm(net.node("Conv", x, net.const(4, 3, 1, 1)), 4) for x in images]
    assert folded(net, net.node("Relu", net.node(op_type, *arms))).ops == ["Conv", "Conv", op_type, "Relu"]


def scaled(net: Net, x: str) -> str:
    """As Caffe has it: one layer normalises, and the next scales and shifts."""
    return net.node("Add", net.const(4, 1, 1), net.node("Mul", x, net.const(1, 4, 1, 1)))


def halved(net: Net, x: str) -> str:
    return net.node("Mul", net.const(value=np.array(-0.5)), x)


def shifted_twice(net: Net, x: str) -> str:
    return net.node("Add", net.node("Add", x, net.const(1)), net.const(4, 1, 1))


def unsqueezed(net: Net, x: str) -> str:
    return net.node("Mul", x, net.node("Unsqueeze", net.const(4), net.ints(1, 2)))


def negated(net: Net, x: str) -> str:
    return net.node("Neg", x)


def divided(net: Net, x: str) -> str:
    return net.node("Div", x, net.const(4, 1, 1))


def six_times(net: Net, x: str) -> str:
    for _ in range(6):
        x = net.node("Mul", x, net.const(4, 1, 1))
    return x


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("tail", [scaled, halved, shifted_twice, unsqueezed, negated, divided, six_times])
def test_channelwise_arithmetic_behind_goes_along(tail: Callable[[Net, str], str], biases: bool) -> None:
    net = Net()
    operands = [net.input(2, 3, 5, 6), net.const(4, 3, 1, 1), *([net.const(4)] if biases else [])]
    end = net.node("Relu", tail(net, net.batchnorm(net.node("Conv", *operands), 4)))
    assert folded(net, end).ops == ["Conv", "Relu"]


def test_a_row_ends_where_a_value_is_shared() -> None:
    net = Net()
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)
    y = net.node("Mul", y, net.const(4, 1, 1))
    ends = net.node("Add", y, net.const(4, 1, 1)), net.node("Sigmoid", y)
    assert folded(net, *ends).ops == ["Conv", "Add", "Sigmoid"]


def test_a_row_that_comes_to_nothing_just_goes() -> None:
    net = Net()
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    zero, one, two = (net.const(value=np.full(4, number)) for number in (0.0, 1.0, 2.0))
    y = net.node("BatchNormalization", c, two, zero, zero, one, epsilon=0.0)
    result = folded(net, net.node("Relu", net.node("Mul", y, net.const(value=np.array(0.5)))))
    assert result.ops == ["Conv", "Relu"]
    assert result.report.batchnorms[0].verdict == "removed"


def test_fewer_parameters_than_channels_are_no_affine() -> None:
    net = Net()
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)
    model = net.model(y)
    for tensor in model.graph.initializer:
        if list(tensor.dims) == [4]:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:3], tensor.name))
    (event,) = fold_only(model).report.batchnorms
    assert (event.verdict, event.reason) == ("kept", Reason.UNREADABLE)


def test_a_neighbour_that_took_a_shift_is_read_anew() -> None:
    """The first Add goes into the second one, whose constant then is another and takes the scale; no Conv adds rows."""
    net = Net()
    x = net.node("Conv", net.input(2, 3, 7, 5), net.const(2, 3, 1, 1))
    x = net.node("Add", net.node("Add", x, net.const(2, 7, 1)), net.const(2, 1, 1))
    assert folded(net, net.batchnorm(x, 2), all_affines=True).ops == ["Conv", "Add"]


def test_a_constant_of_places_must_not_grow_beyond_the_limit() -> None:
    def build(size: int) -> tuple[Net, str]:
        net = Net()
        x = net.node("Conv", net.input(2, 3, size, size), net.const(2, 3, 1, 1))
        return net, net.batchnorm(net.node("Add", x, net.const(size, size)), 2)

    net, y = build(96)
    result = folded(net, y, growth=None)
    assert result.ops == ["Conv", "Add", "BatchNormalization"]
    net, y = build(96)
    assert folded(net, y).ops == ["Conv", "Add"]
    net, y = build(8)  # as small as parameters are
    assert folded(net, y, growth=None).ops == ["Conv", "Add"]


def test_a_number_passes_a_constant_of_one_axis() -> None:
    net = Net()
    x = net.node("Conv", net.input(2, 3, 4, 4), net.const(2, 3, 1, 1))
    x = net.node("Add", x, net.const(2, 1, 1))
    assert folded(
        net, net.node("Mul", net.node("MaxPool", x, kernel_shape=[2, 2]), net.const(value=2.5)), all_affines=True
    ).ops == ["Conv", "MaxPool"]
