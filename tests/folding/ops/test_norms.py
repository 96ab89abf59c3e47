"""Normalisers take an affine into their own scale and bias; a constant shift before InstanceNormalization is dead."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.folding.affine import on_axis
from bnfold.folding.ops import norms
from bnfold.report.reasons import Declined, Reason
from tests.folding.nets import Net, declined, folded


def test_instance_normalization_up() -> None:
    net = Net()
    y = net.node("InstanceNormalization", net.input(2, 4, 5, 7), net.const(4), net.const(4))
    assert folded(net, net.batchnorm(y, 4)).ops == ["InstanceNormalization"]


def test_group_normalization_up() -> None:
    net = Net(opset=21)
    y = net.node("GroupNormalization", net.input(2, 4, 5, 7), net.const(4), net.const(4), num_groups=2)
    assert folded(net, net.batchnorm(y, 4)).ops == ["GroupNormalization"]


def test_group_normalization_scaled_groups_before_opset_21() -> None:
    net = Net(opset=18)
    y = net.node("GroupNormalization", net.input(2, 4, 5, 7), net.const(2), net.const(2), num_groups=2)
    node = ir.load(net.model(y)).graph.nodes[0]
    with pytest.raises(Declined) as refusal:
        norms.channels_up(node, 0, on_axis(np.arange(1.0, 5.0), np.zeros(4), 1, 4))
    assert refusal.value.reason is Reason.AXIS


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("axis", [1, -3])
def test_layer_normalization_up(axis: int, bias: bool) -> None:
    net = Net()
    dims = (4, 3, 2)
    operands = [net.input(2, *dims), net.const(*dims), *([net.const(*dims)] if bias else [])]
    assert folded(net, net.batchnorm(net.node("LayerNormalization", *operands, axis=axis), 4)).ops == [
        "LayerNormalization"
    ]


def test_layer_normalization_over_the_last_axis() -> None:
    net = Net()
    y = net.node("LayerNormalization", net.input(2, 3, 5), net.const(5))
    turned = net.node("Transpose", y, perm=[0, 2, 1])
    assert folded(net, net.batchnorm(turned, 5)).ops == ["LayerNormalization", "Transpose"]


def test_layer_normalization_over_other_axes() -> None:
    net = Net()
    y = net.node("LayerNormalization", net.input(2, 5, 5), net.const(5))
    assert declined(net, net.batchnorm(y, 5)) == ["axis"]


def test_layer_normalization_with_a_broadcast_scale() -> None:
    net = Net()
    y = net.node("LayerNormalization", net.input(2, 4, 3), net.const(3), axis=1)
    assert declined(net, net.batchnorm(y, 4)) == ["axis"]


def shifted_instances(scale: float, dtype: type) -> tuple[Net, str]:
    net = Net(dtype=dtype)
    signs = np.array([1.0, -1.0, 1.0, 1.0])
    weights = (net.const(value=scale * signs), net.const(4), net.const(4), net.const(value=np.full(4, 4.0)))
    x = net.node("BatchNormalization", net.input(2, 4, 5, 7), *weights, epsilon=0.0)
    return net, net.node("InstanceNormalization", x, net.const(4), net.const(4), epsilon=0.1)


@pytest.mark.parametrize(("scale", "dtype"), [(1.0, np.float64), (3.0, np.float32), (-0.5, np.float64)])
def test_a_shift_before_instance_normalization_is_dead(scale: float, dtype: type) -> None:
    net, y = shifted_instances(scale, dtype)
    assert folded(net, y, tolerance=1e-6 if dtype == np.float32 else 1e-10).ops == ["InstanceNormalization"]


def test_double_data_do_not_get_an_epsilon_rounded_to_float32() -> None:
    assert declined(*shifted_instances(3.0, np.float64)) == ["range"]


def test_scales_of_different_size_before_instance_normalization() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 5, 7), 4)
    y = net.node("InstanceNormalization", x, net.const(4), net.const(4))
    assert declined(net, y) == ["subgraph-statistics"]


def test_a_scale_computed_at_run_time() -> None:
    net = Net()
    y = net.node("InstanceNormalization", net.input(2, 4, 5, 7), net.input(4), net.const(4))
    assert declined(net, net.batchnorm(y, 4)) == ["dynamic-weight"]
