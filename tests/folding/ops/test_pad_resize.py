"""Pad and Resize: what they make up must be of the kind of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.folding.nets import Net, declined, folded

PADS = (0, 0, 1, 2, 0, 0, 0, 1)


def padded(net: Net, pads: tuple[int, ...] = PADS, *operands: str, **attributes: Any) -> str:
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    return net.node("Pad", y, net.ints(*pads), *operands, **attributes)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_mirrors_up(mode: str) -> None:
    net = Net(opset=19)
    assert folded(net, net.batchnorm(padded(net, mode=mode), 4)).ops == ["Conv", "Pad"]


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_mirrors_down(mode: str) -> None:
    net = Net(opset=19)
    x = net.node("Pad", net.batchnorm(net.input(2, 3, 5, 7), 3), net.ints(*PADS), mode=mode)
    assert folded(net, net.node("Conv", x, net.const(4, 3, 2, 2))).ops == ["Pad", "Conv"]


def test_a_constant_border_under_a_scale_alone() -> None:
    net = Net()
    assert folded(net, net.batchnorm(padded(net), 4, shift=np.zeros(4))).ops == ["Conv", "Pad"]


def test_a_constant_border_that_would_differ_by_channel() -> None:
    net = Net()
    assert declined(net, net.batchnorm(padded(net), 4)) == ["shift-through-padding"]


@pytest.mark.parametrize("value", [None, 0.5])
def test_a_constant_border_takes_a_map_that_all_channels_share(value: float | None) -> None:
    net = Net()
    y = padded(net, PADS, *([] if value is None else [net.const(value=value)]))
    alike = [net.const(value=np.full(4, number)) for number in (2.0, 3.0, -1.0, 0.25)]
    result = folded(net, net.node("BatchNormalization", y, *alike))
    assert result.ops == ["Conv", "Pad"]
    assert result.weight("Pad", 2).shape == ()


def test_a_constant_border_takes_the_inverse_on_the_way_down() -> None:
    net = Net()
    alike = [net.const(value=np.full(3, number)) for number in (2.0, 3.0, -1.0, 0.25)]
    x = net.node("Pad", net.node("BatchNormalization", net.input(2, 3, 5, 7), *alike), net.ints(*PADS))
    assert folded(net, net.node("Conv", x, net.const(4, 3, 2, 2))).ops == ["Pad", "Conv"]


def padded_by_attribute(dtype: type) -> tuple[Net, str]:
    net = Net(opset=9, dtype=dtype)
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    alike = [net.const(value=np.full(4, number)) for number in (2.0, 3.0, -1.0, 0.25)]
    return net, net.node("BatchNormalization", net.node("Pad", y, pads=list(PADS), value=0.5), *alike)


def test_a_border_of_the_attribute() -> None:
    assert folded(*padded_by_attribute(np.float32), tolerance=1e-5).ops == ["Conv", "Pad"]


def test_double_data_do_not_get_a_border_rounded_to_float32() -> None:
    assert declined(*padded_by_attribute(np.float64)) == ["range"]


def test_padding_the_channels() -> None:
    net = Net()
    y = padded(net, (0, 1, 0, 0, 0, 0, 0, 0))
    assert declined(net, net.batchnorm(y, 5)) == ["axis"]


def test_padding_nothing() -> None:
    net = Net()
    assert folded(net, net.batchnorm(padded(net, (0,) * 8), 4)).ops == ["Conv", "Pad"]


def test_padding_chosen_axes() -> None:
    net = Net(opset=18)
    y = padded(net, (1, 2), "", net.ints(-2), mode="edge")
    assert folded(net, net.batchnorm(y, 4)).ops == ["Conv", "Pad"]


def resized(net: Net, scales: list[float], **attributes: Any) -> str:
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    weights = np.array(scales, np.float32)
    net.weights.append(numpy_helper.from_array(weights, net.name("scales")))
    return net.node("Resize", y, "", net.weights[-1].name, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("transform", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_resize_up(mode: str, transform: str) -> None:
    net = Net()
    y = resized(net, [1, 1, 2, 1.5], mode=mode, coordinate_transformation_mode=transform)
    assert folded(net, net.batchnorm(y, 4)).ops == ["Conv", "Resize"]


def test_resize_that_extrapolates() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    roi, scales = net.const(value=[0.0, 0, -0.5, -0.5, 1, 1, 1.5, 1.5]), np.array([1, 1, 2, 2], np.float32)
    net.weights.append(numpy_helper.from_array(scales, "scales"))
    y = net.node("Resize", y, roi, "scales", mode="linear", coordinate_transformation_mode="tf_crop_and_resize")
    assert declined(net, net.batchnorm(y, 4)) == ["shift-through-padding"]


def test_resize_of_the_channels() -> None:
    net = Net()
    assert declined(net, net.batchnorm(resized(net, [1, 2, 1, 1]), 8)) == ["axis"]


@pytest.mark.parametrize("declared", [True, False])
def test_resize_to_sizes(declared: bool) -> None:
    net = Net()
    x = net.input(2, 4, 5, 7, declared=None if declared else (2, None, 5, 7))
    y = net.node("Resize", net.batchnorm(x, 4), "", "", net.ints(2, 4, 10, 9), mode="nearest")
    y = net.node("Conv", y, net.const(3, 4, 1, 1))
    if declared:
        assert folded(net, y).ops == ["Resize", "Conv"]
    else:
        assert declined(net, y) == ["axis"]


def test_resize_to_sizes_computed_at_run_time() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4)
    sizes = net.node("Concat", net.ints(2, 4), net.node("Cast", net.input(2), to=7), axis=0)
    net.feeds["x6"] = np.array([10.0, 9.0])
    y = net.node("Resize", x, "", "", sizes, mode="nearest")
    assert declined(net, net.node("Conv", y, net.const(3, 4, 1, 1))) == ["not-static"]


def test_upsample() -> None:
    net = Net(opset=9)
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    scales = np.array([1, 1, 2, 3], np.float32)
    net.weights.append(numpy_helper.from_array(scales, "scales"))
    assert folded(net, net.batchnorm(net.node("Upsample", y, "scales", mode="nearest"), 4)).ops == ["Conv", "Upsample"]
