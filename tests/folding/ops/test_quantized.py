"""Weights behind DequantizeLinear: the scale takes the factors, the integers stay integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.folding.nets import Folded, Net, declined, folded


def weight(
    net: Net, *, per_channel: bool, dtype: Any = np.int8, zero: Any = None, low: int = -127, axis: int = 0
) -> str:
    dims = (4, 3, 2, 2)
    limits = np.iinfo(dtype)
    integers = net.rng.integers(max(low, limits.min), limits.max + 1, dims).astype(dtype)
    q = net.const(value=integers)
    scale = net.const(value=net.rng.uniform(0.01, 0.02, dims[axis] if per_channel else ()))
    zeros = [] if zero is None else [net.const(value=np.full(dims[axis] if per_channel else (), zero, dtype))]
    return net.node("DequantizeLinear", q, scale, *zeros, **({"axis": axis} if per_channel else {}))


def integers(result: Folded) -> np.ndarray:
    return result.weight("DequantizeLinear", 0)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("zero", [None, 0])
@pytest.mark.parametrize("positive", [True, False])
def test_scales_by_channel(per_channel: bool, zero: int | None, positive: bool) -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=per_channel, zero=zero))
    result = folded(net, net.batchnorm(y, 4, positive=positive), tolerance=1e-6)
    assert result.ops == ["DequantizeLinear", "Conv"]
    assert integers(result).dtype == np.int8


def test_positive_scales_leave_the_integers_alone() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True, low=-128))
    proto = net.model(bn := net.batchnorm(y, 4, positive=True))
    result = folded(net, bn, tolerance=1e-6)
    before = next(
        tensor for tensor in proto.graph.initializer if tensor.name == result.node("DequantizeLinear").proto.input[0]
    )
    after = next(tensor for tensor in result.proto.graph.initializer if tensor.name == before.name)
    assert after.SerializeToString() == before.SerializeToString()


def test_unsigned_integers_mirror_at_their_zero_point() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True, dtype=np.uint8, zero=128, low=1))
    assert folded(net, net.batchnorm(y, 4), tolerance=1e-6).ops == ["DequantizeLinear", "Conv"]


def test_the_least_integer_has_no_negative() -> None:
    net = Net(dtype=np.float32)
    q = net.const(value=np.full((4, 3, 2, 2), -128, np.int8))
    y = net.node("Conv", net.input(2, 3, 5, 7), net.node("DequantizeLinear", q, net.const(value=0.01)))
    assert declined(net, net.batchnorm(y, 4)) == ["negative-scale"]


def test_scales_along_the_other_axis() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True, axis=1))
    assert declined(net, net.batchnorm(y, 4)) == ["axis"]


def test_a_dead_channel() -> None:
    net = Net(dtype=np.float32)
    y = net.node("Conv", net.input(2, 3, 5, 7), weight(net, per_channel=True))
    assert declined(net, net.batchnorm(y, 4, scale=[1.0, 0.0, 1.0, 2.0])) == ["zero-scale"]


def test_a_quantized_bias_stays() -> None:
    net = Net(dtype=np.float32)
    bias = net.node("DequantizeLinear", net.const(value=np.arange(4, dtype=np.int32)), net.const(value=0.5))
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2), bias)
    assert declined(net, net.batchnorm(y, 4)) == ["type"]


def test_gemm_and_matmul() -> None:
    for op in ("Gemm", "MatMul"):
        net = Net(dtype=np.float32)
        q = net.const(value=net.rng.integers(-127, 128, (3, 5)).astype(np.int8))
        matrix = net.node("DequantizeLinear", q, net.const(value=net.rng.uniform(0.1, 0.2, 5)), axis=1)
        y = net.node(op, net.input(4, 3), matrix)
        assert folded(net, net.batchnorm(y, 5), tolerance=1e-6).ops == ["DequantizeLinear", "Gemm"]


def test_a_weight_that_another_node_reads_too() -> None:
    net = Net(dtype=np.float32)
    matrix = weight(net, per_channel=True)
    x = net.input(2, 3, 5, 7)
    y = net.batchnorm(net.node("Conv", x, matrix), 4)
    assert declined(net, y, net.node("Conv", x, matrix)) == ["shared-value"]
