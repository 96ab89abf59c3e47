"""No fold overflows a type, loses its bits, or spreads a NaN."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.folding.nets import Net, declined, folded


def conv(net: Net, weight: Any, scale: Any, var: float = 1.0) -> str:
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(value=weight))
    count = len(scale)
    parameters = [np.asarray(scale, np.float64), np.zeros(count), np.zeros(count), np.full(count, var)]
    return net.node("BatchNormalization", y, *(net.const(value=array) for array in parameters), epsilon=0.0)


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float16, 300.0), (ml_dtypes.bfloat16, 1e38), (np.float32, 1e38), (np.float64, 1e308)]
)
def test_overflow(dtype: Any, scale: float) -> None:
    net = Net(dtype=dtype, opset=22)
    weight = np.full((4, 3, 1, 1), 1e3)
    assert declined(net, conv(net, weight, [1.0, scale, 1.0, 1.0])) == ["range"]


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_weight_that_is_not_finite(dtype: Any, odd: float) -> None:
    """What it holds decides, not what the fold makes of it: nothing overflows, and nothing is spread."""
    net = Net(dtype=dtype)
    weight = np.full((4, 3, 1, 1), 0.5)
    weight[2, 1] = odd
    assert declined(net, conv(net, weight, [2.0**-70, 1.0, 0.5, 1.0])) == ["non-finite"]


def test_bits_lost_among_the_subnormals() -> None:
    net = Net(dtype=np.float16)
    weight = net.rng.uniform(0.5, 1.0, (4, 3, 1, 1))
    assert declined(net, conv(net, weight, [1.0, 1.0, 1e-6, 1.0])) == ["range"]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2), (np.float32, 1e-6)])
def test_ordinary_numbers(dtype: Any, tolerance: float) -> None:
    net = Net(dtype=dtype, opset=22)
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2), net.const(4)), 4)
    assert folded(net, y, tolerance=tolerance).ops == ["Conv"]


def test_a_residual_that_overflows() -> None:
    net = Net(dtype=np.float16)
    x = net.batchnorm(net.input(2, 3, 5, 7), 3, scale=[1.0, 1e-4, 1.0], shift=[1.0, 60.0, 1.0])
    assert declined(net, net.node("Conv", net.node("Relu", x), net.const(2, 3, 1, 1))) == ["range"]


@pytest.mark.parametrize(
    "parameters",
    [
        ([1, np.nan, 1], [1, 1, 1]),
        ([1, 1, np.inf], [1, 1, 1]),
        ([1, 1, 1], [1, -1, 1]),
        ([1, 1, 1], [1, 0, 1]),
        ([1, 1, 1], [1, np.nan, 1]),
    ],
)
def test_parameters_that_are_not_numbers(parameters: tuple[list[float], list[float]]) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 2, 5, 7), net.const(3, 2, 1, 1))
    scale, var = (net.const(value=np.array(numbers, np.float64)) for numbers in parameters)
    y = net.node("BatchNormalization", y, scale, net.const(3), net.const(3), var, epsilon=0.0)
    assert declined(net, y) == ["non-finite"]


def test_a_weight_that_is_not_a_number() -> None:
    net = Net()
    weight = np.ones((3, 3, 1, 1))
    weight[1, 0] = np.nan
    y = conv(net, weight, [1.0, 1e200, 1.0])
    assert declined(net, y)[0] in ("non-finite", "range")


def test_mixed_types() -> None:
    net = Net(dtype=np.float16)
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    half, net.dtype = net.dtype, np.dtype(np.float32)
    y = net.batchnorm(y, 4)
    net.dtype = half
    result = folded(net, y, tolerance=3e-3)
    assert result.ops == ["Conv"]
    assert result.weight("Conv").dtype == np.float16
    assert result.weight("Conv", 2).dtype == np.float16
