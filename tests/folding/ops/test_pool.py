"""Pooling and reductions: only along axes that the affine does not vary on, and only as their kind allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.folding.nets import Net, declined, fold_only, folded

KERNEL: dict[str, Any] = {"kernel_shape": [3, 2]}


def between(net: Net, op: str, *, positive: bool = False, shift: Any = None, up: bool = True, **attributes: Any) -> str:
    """Conv → op → BatchNormalization, or the other way round."""
    x = net.input(2, 3, 6, 7)
    if up:
        y = net.node(op, net.node("Conv", x, net.const(4, 3, 1, 1)), **attributes)
        return net.batchnorm(y, 4, positive=positive, shift=shift)
    y = net.node(op, net.batchnorm(x, 3, positive=positive, shift=shift), **attributes)
    return net.node("Conv", y, net.const(4, 3, 1, 1))


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("AveragePool", KERNEL),
        ("AveragePool", {**KERNEL, "strides": [2, 1]}),
        ("AveragePool", {**KERNEL, "pads": [1, 1, 0, 0]}),
        ("AveragePool", {**KERNEL, "auto_pad": "SAME_UPPER"}),
        ("GlobalAveragePool", {}),
    ],
)
def test_means_carry_anything(op: str, attributes: dict[str, Any], up: bool) -> None:
    net = Net()
    ops = folded(net, between(net, op, up=up, **attributes)).ops
    assert ops == (["Conv", op] if up else [op, "Conv"])


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("op", ["MaxPool", "GlobalMaxPool"])
def test_maxima_carry_what_keeps_the_order(op: str, up: bool) -> None:
    attributes = {**KERNEL, "pads": [1, 0, 1, 1]} if op == "MaxPool" else {}
    net = Net()
    assert sorted(folded(net, between(net, op, positive=True, up=up, **attributes)).ops) == ["Conv", op]
    net = Net()
    assert declined(net, between(net, op, up=up, **attributes)) == ["negative-scale"]


@pytest.mark.parametrize(
    "attributes", [{"count_include_pad": 1, "pads": [1, 1, 0, 0]}, {"ceil_mode": 1, "strides": [2, 2]}]
)
def test_zeros_that_count(attributes: dict[str, Any]) -> None:
    net = Net()
    assert declined(net, between(net, "AveragePool", **KERNEL, **attributes)) == ["shift-through-padding"]


def test_zeros_that_count_do_not_mind_a_scale() -> None:
    net = Net()
    y = between(net, "AveragePool", shift=np.zeros(4), count_include_pad=1, pads=[1, 1, 0, 0], **KERNEL)
    assert folded(net, y).ops == ["Conv", "AveragePool"]


def test_indices_of_the_maxima() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 6, 7), net.const(4, 3, 1, 1))
    pooled, _ = net.nodes_of("MaxPool", y, outputs=2, kernel_shape=[2, 2])
    assert declined(net, net.batchnorm(pooled, 4, positive=True)) == ["unused-output"]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[2, 3], [-1], [2]])
@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceMin"])
def test_reductions_up(op: str, opset: int, axes: list[int], keepdims: int) -> None:
    net = Net(opset=opset)
    y = net.node("Conv", net.input(2, 3, 6, 7), net.const(4, 3, 1, 1))
    operands, attributes = ([y, net.ints(*axes)], {}) if opset >= 18 else ([y], {"axes": axes})
    reduced = net.node(op, *operands, keepdims=keepdims, **attributes)
    assert folded(net, net.batchnorm(reduced, 4, positive=True)).ops == ["Conv", op]


@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_down(keepdims: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 7), 4)
    y = net.node("ReduceMean", x, axes=[2, 3], keepdims=keepdims)
    flat = net.node("Flatten", y) if keepdims else y
    assert sorted(folded(net, net.node("Gemm", flat, net.const(4, 5))).ops) == sorted(
        ["ReduceMean", "Gemm"] + ["Flatten"] * keepdims
    )


def test_reducing_the_channels() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 7), 4)
    assert declined(net, net.node("ReduceMean", x, axes=[1])) == ["axis"]


def test_a_channel_axis_that_was_not_one_before() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 4, 4), net.const(4, 3, 1, 1))
    reduced = net.node("ReduceMean", y, axes=[1], keepdims=0)
    assert declined(net, net.batchnorm(reduced, 4)) == ["axis"]


@pytest.mark.parametrize("shift", [True, False])
def test_sums_carry_a_scale(shift: bool) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 6, 7), net.const(4, 3, 1, 1))
    bn = net.batchnorm(net.node("ReduceSum", y, net.ints(2, 3)), 4, shift=None if shift else np.zeros(4))
    if shift:
        assert declined(net, bn) == ["shift-no-room"]
    else:
        assert folded(net, bn).ops == ["Conv", "ReduceSum"]


def test_no_axes_and_nothing_to_do() -> None:
    net = Net(opset=18)
    y = net.node("Conv", net.input(2, 3, 6, 7), net.const(4, 3, 1, 1))
    assert folded(net, net.batchnorm(net.node("ReduceMean", y, noop_with_empty_axes=1), 4)).ops == [
        "Conv",
        "ReduceMean",
    ]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("size", "attributes", "is_empty"),
    [
        (2, {"kernel_shape": [2], "dilations": [3], "pads": [1, 1]}, True),
        (4, {"kernel_shape": [2], "dilations": [3], "pads": [1, 1]}, False),
        (3, {"kernel_shape": [3], "dilations": [2], "pads": [4, 0]}, False),
        (2, {"kernel_shape": [2], "dilations": [4], "pads": [2, 2]}, True),
        (7, {"kernel_shape": [2], "pads": [2, 0]}, True),
        (4, {"kernel_shape": [1], "strides": [2], "ceil_mode": 1}, True),
        (5, {"kernel_shape": [1], "strides": [2], "ceil_mode": 1}, False),
    ],
)
def test_windows_without_an_element(op: str, size: int, attributes: dict[str, Any], is_empty: bool) -> None:
    """What they make is nobody's affine, not even of scale only; dilated ones may miss a small image altogether."""
    net = Net(opset=19)
    y = net.node(op, net.node("Conv", net.input(2, 3, size), net.const(3, 3, 1)), **attributes)
    result = fold_only(net.model(net.batchnorm(y, 3, positive=True, shift=np.zeros(3))))
    assert result.reasons == (["shift-through-padding"] if is_empty else [])


def test_windows_over_an_image_of_unknown_size() -> None:
    net = Net(opset=19)
    y = net.node("Conv", net.input(2, 3, 5, declared=(2, 3, "n")), net.const(3, 3, 1))
    y = net.node("MaxPool", y, kernel_shape=[2], dilations=[3], pads=[1, 1])
    assert declined(net, net.batchnorm(y, 3, positive=True)) == ["not-static"]
