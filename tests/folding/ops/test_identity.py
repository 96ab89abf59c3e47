"""Identity, Dropout and Cast hand on what they get, where they really do."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tests.folding.nets import Net, declined, folded


def conv(net: Net) -> str:
    return net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))


@pytest.mark.parametrize("op", ["Identity", "Dropout"])
def test_up_and_down(op: str) -> None:
    net = Net()
    assert folded(net, net.batchnorm(net.node(op, conv(net)), 4)).ops == ["Conv", op]
    net = Net()
    x = net.node(op, net.batchnorm(net.input(2, 3, 5, 7), 3))
    assert folded(net, net.node("Conv", x, net.const(4, 3, 2, 2))).ops == [op, "Conv"]


def test_dropout_of_opset_six() -> None:
    net = Net(opset=6)
    y = net.node("Dropout", conv(net), is_test=1)
    assert folded(net, net.batchnorm(y, 4, is_test=1)).ops == ["Conv", "Dropout"]


@pytest.mark.parametrize("attributes", [{"is_test": 0}, {}])
def test_dropout_of_opset_six_in_training(attributes: dict[str, int]) -> None:
    net = Net(opset=6)
    y = net.node("Dropout", net.input(2, 4, 5), **attributes)
    reasons = declined(net, net.batchnorm(y, 4, is_test=1))
    assert reasons == ["training-mode"]


@pytest.mark.parametrize("training", [True, False])
def test_dropout_with_a_mode(training: bool) -> None:
    net = Net()
    y = net.node("Dropout", conv(net), "", net.const(value=np.array(training)))
    bn = net.batchnorm(y, 4)
    if training:
        assert declined(net, bn) == ["training-mode"]
    else:
        assert folded(net, bn).ops == ["Conv", "Dropout"]


def test_dropout_whose_mask_is_used() -> None:
    net = Net()
    y, _ = net.nodes_of("Dropout", conv(net), outputs=2)
    assert declined(net, net.batchnorm(y, 4)) == ["unused-output"]


def test_cast_upward_from_the_narrow_to_the_wide_side() -> None:
    net = Net()
    y = net.node("Cast", net.node("Cast", conv(net), to=TensorProto.DOUBLE), to=TensorProto.DOUBLE)
    assert folded(net, net.batchnorm(y, 4)).ops == ["Conv", "Cast", "Cast"]


def test_cast_down_to_the_wider_type() -> None:
    net = Net(dtype=np.float32)
    x = net.node("Cast", net.batchnorm(net.input(2, 3, 5, 7), 3), to=TensorProto.DOUBLE)
    net.dtype = np.dtype(np.float64)
    assert folded(net, net.node("Conv", x, net.const(4, 3, 2, 2)), tolerance=1e-6).ops == ["Cast", "Conv"]


def test_cast_up_from_the_wider_type() -> None:
    net = Net(dtype=np.float32)
    x = net.node("Cast", conv(net), to=TensorProto.DOUBLE)
    net.dtype = np.dtype(np.float64)
    assert declined(net, net.batchnorm(x, 4)) == ["type"]


def test_cast_from_integers() -> None:
    net = Net()
    x = net.node("Cast", net.node("Cast", net.input(2, 4, 5), to=TensorProto.INT32), to=TensorProto.DOUBLE)
    assert declined(net, net.batchnorm(x, 4)) == ["type"]


@pytest.mark.parametrize("up", [True, False])
def test_cast_like_where_the_type_is_kept(up: bool) -> None:
    net = Net()
    kept = net.const(1)
    if up:
        y = net.batchnorm(net.node("CastLike", conv(net), kept), 4)
    else:
        x = net.node("CastLike", net.batchnorm(net.input(2, 3, 5, 7), 3), kept)
        y = net.node("Conv", x, net.const(4, 3, 2, 2))
    assert sorted(folded(net, y).ops) == ["CastLike", "Conv"]


def test_cast_like_of_another_kind() -> None:
    net = Net()
    x = net.node("Cast", net.node("CastLike", conv(net), net.ints(1)), to=TensorProto.DOUBLE)
    assert declined(net, net.batchnorm(x, 4)) == ["type"]


def test_the_type_alone_of_a_value_is_read() -> None:
    net = Net()
    x = net.node("CastLike", net.input(2, 3, 5, 7), net.batchnorm(net.input(2, 3, 5, 7), 3))
    assert declined(net, net.node("Conv", x, net.const(4, 3, 2, 2))) == ["no-handler"]
