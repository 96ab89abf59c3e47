"""Slice and Gather: every picked element is followed to where it came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import bnfold
from tests.folding.nets import Net, declined, folded


def conv(net: Net, channels: int = 6) -> str:
    return net.node("Conv", net.input(2, 3, 5, 7), net.const(channels, 3, 2, 2))


WINDOWS = [(1, 5, 1), (0, 6, 2), (-1, -7, -1), (5, 0, -2), (-4, -1, 1), (2, 2**40, 1), (4, -(2**40), -1)]


@pytest.mark.parametrize("window", WINDOWS)
def test_slice_up_along_the_channels(window: tuple[int, int, int]) -> None:
    net = Net()
    start, end, step = window
    y = net.node("Slice", conv(net), net.ints(start), net.ints(end), net.ints(1), net.ints(step))
    channels = len(range(6)[slice(start, end, step)])
    assert folded(net, net.batchnorm(y, channels)).ops == ["Conv", "Slice"]


@pytest.mark.parametrize("window", WINDOWS)
def test_slice_down_along_the_channels(window: tuple[int, int, int]) -> None:
    net = Net()
    start, end, step = window
    x = net.batchnorm(net.input(2, 6, 4), 6)
    y = net.node("Slice", x, net.ints(start), net.ints(end), net.ints(-2), net.ints(step))
    channels = len(range(6)[slice(start, end, step)])
    assert folded(net, net.node("Conv", y, net.const(3, channels, 2))).ops == ["Slice", "Conv"]


def test_what_a_slice_backward_to_the_largest_integer_picks_nobody_knows() -> None:
    """By its text nothing; in onnxruntime everything."""
    net = Net()
    y = net.node("Slice", conv(net), net.ints(-1), net.ints(2**63 - 1), net.ints(2), net.ints(-1))
    assert declined(net, net.batchnorm(y, 6)) == ["not-static"]


def test_slice_as_opset_nine_writes_it() -> None:
    net = Net(opset=9)
    y = net.node("Slice", conv(net), starts=[1], ends=[4], axes=[1])
    assert folded(net, net.batchnorm(y, 3)).ops == ["Conv", "Slice"]


def test_slice_along_another_axis() -> None:
    net = Net()
    y = net.node("Slice", conv(net), net.ints(1), net.ints(3), net.ints(2))
    assert folded(net, net.batchnorm(y, 6)).ops == ["Conv", "Slice"]


def test_slices_that_share_nothing_are_told_apart() -> None:
    net = Net()
    x = conv(net)
    halves = [net.node("Slice", x, net.ints(start), net.ints(start + 3), net.ints(1)) for start in (0, 3)]
    assert folded(net, *(net.batchnorm(half, 3) for half in halves)).ops == ["Conv", "Slice", "Slice"]


def test_slices_that_overlap() -> None:
    net = Net()
    x = conv(net)
    halves = [net.node("Slice", x, net.ints(start), net.ints(start + 3), net.ints(1)) for start in (0, 2)]
    result = folded(net, *(net.batchnorm(half, 3) for half in halves))
    assert result.ops == ["Conv", "Slice", "Slice", "BatchNormalization"], "which takes the inverse"


def test_slice_by_bounds_computed_at_run_time() -> None:
    net = Net()
    start = net.node("Cast", net.input(1), to=7)
    y = net.node("Slice", net.input(2, 6, 5), start, net.ints(4), net.ints(1))
    assert declined(net, net.batchnorm(y, 3)) == ["not-static"]


@pytest.mark.parametrize("indices", [[0, 2, 5], [-1, 3, 0]])
def test_gather_up(indices: list[int]) -> None:
    net = Net()
    y = net.node("Gather", net.node("Gemm", net.input(3, 2), net.const(2, 6)), net.ints(*indices), axis=1)
    assert folded(net, net.batchnorm(y, 3)).ops == ["Gemm", "Gather"]


def test_gather_up_into_two_axes() -> None:
    net = Net()
    data = net.node("Gemm", net.input(3, 2), net.const(2, 6))
    y = net.node("Gather", data, net.const(value=np.array([[1, 4, 0], [5, 2, 3]], np.int64)), axis=1)
    assert folded(net, net.batchnorm(y, 2)).ops == ["Gemm", "Gather"]


def test_gather_of_one_element_twice() -> None:
    net = Net()
    data = net.node("Gemm", net.input(3, 2), net.const(2, 6))
    twice = net.node("Gather", data, net.ints(1, 4, 1), axis=1)
    assert declined(net, net.batchnorm(twice, 3)) == ["shared-value"]


def test_gather_from_a_table() -> None:
    net = Net()
    indices = net.node("Cast", net.input(2, 5), to=7)
    embedded = net.node("Gather", net.const(9, 4), net.node("Abs", indices))
    turned = net.node("Transpose", embedded, perm=[0, 2, 1])
    assert folded(net, net.batchnorm(turned, 4)).ops == ["Cast", "Abs", "Gather", "Transpose"]


def test_gather_by_indices_computed_at_run_time() -> None:
    net = Net()
    indices = net.node("Cast", net.node("Abs", net.input(5)), to=7)
    y = net.node("Gather", conv(net), indices, axis=1)
    assert declined(net, net.batchnorm(y, 5)) == ["axis"]


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("indices", [[0, 2, 2], [[3, 1], [0, 0]], 2])
def test_gather_down(indices: Any, axis: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5), 4)
    y = net.node("Gather", x, net.const(value=np.array(indices, np.int64)), axis=axis)
    flat = net.node("Flatten", y)
    size = 4 * 5 // (4 if axis == 1 else 5) * np.size(indices)
    assert folded(net, net.node("Gemm", flat, net.const(size, 3))).ops == ["Gather", "Flatten", "Gemm"]


@pytest.mark.parametrize("body", ["s = Mul (x, two) y = Gather (s, one)", "g = Gather (x, one) y = Mul (g, two)"])
def test_an_element_of_a_vector(body: str) -> None:
    """Nothing is left of the axes."""
    constants = "float two = {2}, int64 one = {1}"
    head = '<ir_version: 8, opset_import: ["": 15]>'
    model = onnx.parser.parse_model(f"{head} g (float[5] x) => (float y) <{constants}> {{ {body} }}")
    assert bnfold.optimize(model, all_affines=True).verified
