"""Blocks of real networks: what is left of their BatchNormalizations, and why."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tests.folding.nets import Net, folded


def scales(net: Net, channels: int, *, positive: bool) -> npt.NDArray[np.float64]:
    """Of signs that differ from call to call."""
    signs = 1.0 if positive else net.rng.choice([-1.0, 1.0], channels)
    return np.asarray(net.rng.uniform(0.5, 2, channels) * signs, np.float64)


def dense_block(net: Net, *, positive: bool) -> str:
    """Pre-activation, as DenseNet has it: every layer reads all features before it."""
    features = [net.node("Conv", net.input(2, 3, 8, 7), net.const(4, 3, 3, 3), pads=[1] * 4)]
    width = 4
    for _ in range(3):
        y = net.node("Concat", *features, axis=1) if len(features) > 1 else features[0]
        y = net.node("Relu", net.batchnorm(y, width, scale=scales(net, width, positive=positive)))
        y = net.batchnorm(net.node("Conv", y, net.const(5, width, 1, 1)), 5)
        features.append(net.node("Conv", net.node("Relu", y), net.const(2, 5, 3, 3), pads=[1] * 4))
        width += 2
    y = net.node("Concat", *features, axis=1)
    y = net.node("Relu", net.batchnorm(y, width, scale=scales(net, width, positive=positive)))
    return net.node("Gemm", net.node("Flatten", net.node("GlobalAveragePool", y)), net.const(width, 3))


def test_dense_net_with_positive_scales() -> None:
    net = Net()
    result = folded(net, dense_block(net, positive=True))
    assert result.ops.count("BatchNormalization") == 0
    assert result.ops.count("Add") == 4, "one for each BatchNormalization that stood before a Relu"


def test_dense_net_with_negative_scales() -> None:
    """The features get the factors of one BatchNormalization; before the Relu of another, the signs are in the way."""
    net = Net()
    result = folded(net, dense_block(net, positive=False))
    assert result.ops.count("BatchNormalization") == 3
    assert result.reasons == ["negative-scale", "shared-value", "shared-value"]


def test_residual_block_with_pre_activation() -> None:
    net = Net()
    x = net.input(2, 4, 8, 7)
    y = net.node("Relu", net.batchnorm(x, 4, positive=True))
    shortcut = net.node("Conv", y, net.const(6, 4, 1, 1))
    y = net.batchnorm(net.node("Conv", y, net.const(6, 4, 3, 3), pads=[1] * 4), 6)
    y = net.node("Conv", net.node("Relu", y), net.const(6, 6, 3, 3), pads=[1] * 4)
    result = folded(net, net.node("Add", y, shortcut))
    assert result.ops == ["Add", "Relu", "Conv", "Conv", "Relu", "Conv", "Add"]


def test_residual_block_with_a_norm_behind_the_sum() -> None:
    net = Net()
    x = net.input(2, 4, 8, 7)
    arms = [net.batchnorm(net.node("Conv", x, net.const(6, 4, 1, 1)), 6) for _ in range(2)]
    result = folded(net, net.node("Relu", net.batchnorm(net.node("Add", *arms), 6)))
    assert result.ops == ["Conv", "Relu"]


def test_shuffled_depthwise_block() -> None:
    net = Net()
    y = net.batchnorm(net.node("Conv", net.input(2, 6, 8, 7), net.const(6, 3, 1, 1), group=2), 6)
    y = net.node("Reshape", net.node("Relu", y), net.ints(2, 2, 3, 8, 7))
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3, 4]), net.ints(2, 6, 8, 7))
    y = net.batchnorm(net.node("Conv", y, net.const(6, 1, 3, 3), group=6, pads=[1] * 4), 6)
    y = net.batchnorm(net.node("Conv", y, net.const(4, 3, 1, 1), group=2), 4)
    assert folded(net, y).ops.count("BatchNormalization") == 0


@pytest.mark.parametrize("tail", ["Dropout", "Identity"])
def test_face_embedding_tail(tail: str) -> None:
    net = Net()
    y = net.node(tail, net.batchnorm(net.input(2, 4, 3, 5), 4))
    y = net.node("Gemm", net.node("Flatten", y), net.const(6, 60), net.const(6), transB=1)
    assert folded(net, net.batchnorm(y, 6)).ops == [tail, "Flatten", "Gemm"]


def test_token_mixer_over_unknown_batch_and_length() -> None:
    net = Net()
    x = net.input(2, 5, 7, declared=("N", "L", 7))
    y = net.node("Add", net.node("MatMul", x, net.const(7, 4)), net.const(4))
    y = net.node("Transpose", net.batchnorm(net.node("Transpose", y, perm=[0, 2, 1]), 4), perm=[0, 2, 1])
    result = folded(net, net.node("MatMul", y, net.const(4, 3)))
    assert result.ops == ["MatMul", "Add", "Transpose", "Transpose", "MatMul"]
    assert np.prod(result.weight("Add").shape) == 4
