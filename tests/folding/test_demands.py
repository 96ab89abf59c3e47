"""Values that others read too: what one reader asks for, the others undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import bnfold
from tests.folding.nets import Folded, Net, declined, fold_only, folded


def count(result: Folded) -> int:
    return result.ops.count("BatchNormalization")


def conv(net: Net, x: str, channels: int, of: int, taps: int = 1, **attributes: object) -> str:
    weights = [net.const(channels, of, taps, taps), net.const(channels)]
    return net.node("Conv", x, *weights, **attributes)


def linear(net: Net, x: str, of: int, width: int) -> str:
    return net.node("Add", net.node("MatMul", x, net.const(of, width)), net.const(width))


def norm_tokens(net: Net, x: str, width: int, *, positive: bool = False) -> str:
    """BatchNormalization over the features of (batch, tokens, features)."""
    x = net.node("Transpose", x, perm=[0, 2, 1])
    return net.node("Transpose", net.batchnorm(x, width, positive=positive), perm=[0, 2, 1])


def attention(net: Net, x: str, width: int) -> str:
    query, key, value = (linear(net, x, width, width) for _ in range(3))
    scores = net.node("MatMul", query, net.node("Transpose", key, perm=[0, 2, 1]))
    weights = net.node("Softmax", net.node("Mul", scores, net.const(value=0.1)), axis=-1)
    return linear(net, net.node("MatMul", weights, value), width, width)


def feed_forward(net: Net, x: str, width: int) -> str:
    return linear(net, net.node("Relu", linear(net, x, width, 2 * width)), 2 * width, width)


def post_norm(net: Net, blocks: int = 2, width: int = 6) -> str:
    x = norm_tokens(net, linear(net, net.input(2, 5, 3), 3, width), width)
    for _ in range(blocks):
        for part in (attention, feed_forward):
            x = norm_tokens(net, net.node("Add", x, part(net, x, width)), width)
    return net.node("MatMul", net.node("ReduceMean", x, axes=[1], keepdims=0), net.const(width, 3))


def vit(net: Net, depth: int, width: int = 6) -> str:
    """A ViT of VNN-COMP: BatchNormalization where others have LayerNormalization, before each part and at the end."""
    patches = conv(net, net.input(2, 3, 8, 8), width, 3, 4, strides=[4, 4])
    x = net.node("Transpose", net.node("Reshape", patches, net.ints(0, width, -1)), perm=[0, 2, 1])
    x = net.node("Add", net.node("Concat", net.const(2, 1, width), x, axis=1), net.const(1, 5, width))
    for _ in range(depth):
        for part in (attention, feed_forward):
            x = net.node("Add", part(net, norm_tokens(net, x, width), width), x)
    x = norm_tokens(net, net.node("ReduceMean", x, axes=[1], keepdims=1), width)
    return linear(net, net.node("Squeeze", x, net.ints(1)), width, 3)


def pre_activation(net: Net, *signs: tuple[int, ...]) -> str:
    """One stage, and the BatchNormalization behind it."""
    x = conv(net, net.input(2, 3, 7, 6), 4, 3)
    for sign in signs[:-1]:
        y = net.node("Relu", net.batchnorm(x, 4, scale=net.rng.uniform(0.5, 2, 4) * sign))
        y = net.node("Relu", net.batchnorm(conv(net, y, 5, 4), 5))
        x = net.node("Add", x, conv(net, y, 4, 5, 3, pads=[1, 1, 1, 1]))
    return conv(net, net.node("Relu", net.batchnorm(x, 4, scale=net.rng.uniform(0.5, 2, 4) * signs[-1])), 2, 4)


def chained_features(net: Net) -> str:
    """DenseNet as Caffe has it: each layer appends to the features that the one before has read."""
    x, width = net.node("AveragePool", conv(net, net.input(2, 3, 8, 7), 4, 3), kernel_shape=[2, 2]), 4
    for _ in range(3):
        y = net.node("Relu", net.batchnorm(x, width, scale=signed(net, width)))
        x, width = net.node("Concat", x, conv(net, y, 2, width), axis=1), width + 2
    return conv(net, net.node("Relu", net.batchnorm(x, width, scale=signed(net, width))), 3, width)


def signed(net: Net, channels: int) -> npt.NDArray[np.float64]:
    return np.asarray(net.rng.uniform(0.5, 2, channels) * net.rng.choice([-1.0, 1.0], channels), np.float64)


NETWORKS: dict[str, tuple[Callable[[Net], str], int]] = {
    "post-norm transformer": (post_norm, 0),
    "ViT": (lambda net: vit(net, 2), 0),
    "pre-activation": (lambda net: pre_activation(net, (1, 1, 1, 1), (1, 1, -1, 1), (-1, 1, 1, 1)), 2),
    "features that are appended": (chained_features, 3),
}


@pytest.mark.parametrize("depth", ["local", "full"])
@pytest.mark.parametrize("name", NETWORKS)
def test_verification_follows(name: str, depth: Literal["local", "full"]) -> None:
    """Also where a fold lies in the region of another, whose values have other readers since."""
    network, left = NETWORKS[name]
    net = Net(dtype=np.float32)
    outcome = bnfold.optimize(net.model(network(net)), verify=bnfold.VerifyOptions(depth=depth))
    assert outcome.verdict is not None
    assert outcome.verdict.status == "verified"
    assert outcome.report.left == left


def test_a_transformer_that_normalises_behind_each_part() -> None:
    net = Net()
    result = folded(net, post_norm(net), tolerance=1e-8)
    assert count(result) == 0


@pytest.mark.parametrize("depth", [2, 3])
def test_vision_transformers_of_the_verification_competition(depth: int) -> None:
    net = Net()
    result = folded(net, vit(net, depth), tolerance=1e-8)
    assert count(result) == 0


@pytest.mark.parametrize(
    ("signs", "left"),
    [
        ([(1, 1, 1, 1)] * 4, 0),
        ([(1, -1, 1, 1)] * 4, 0),
        ([(1, -1, 1, 1), (1, -1, -1, 1), (1, 1, -1, 1), (-1, -1, -1, -1)], 3),
    ],
    ids=["positive", "alike", "different"],
)
def test_a_residual_network_that_normalises_before_each_convolution(signs: list[tuple[int, ...]], left: int) -> None:
    """One goes for its signs, whatever they are; those of the same signs find only positive factors left."""
    net = Net()
    assert count(folded(net, pre_activation(net, *signs))) == left


@pytest.mark.parametrize("pads", [0, 1])
def test_a_convolution_read_by_a_batchnorm_and_another_convolution(pads: int) -> None:
    """Zeros at the border are not to be shifted: an Add in front of the padding stays."""
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3, 3)
    bn = net.node("Exp", net.batchnorm(y, 4))
    other = net.node("Sin", conv(net, y, 5, 4, 3, pads=[pads] * 4))
    result = folded(net, bn, other)
    assert sorted(result.ops) == ["Add"] * (pads > 0) + ["Conv", "Conv", "Exp", "Sin"]


@pytest.mark.parametrize(
    ("scale", "shift"),
    [
        ([1.0, 0.0, 2.0, 1.0], [0.0] * 4),
        ([1.0, 1e-5, 2.0, 1.0], [0.0] * 4),
        ([1.0, 1e-2, 2.0, 1.0], [0.0, 3.0, 0.0, 0.0]),
    ],
    ids=["zero", "near zero", "a shift of many deviations"],
)
def test_an_inverse_that_would_cancel_digits(scale: list[float], shift: list[float]) -> None:
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    s, b, mean, var = (net.const(value=np.array(numbers)) for numbers in (scale, shift, [0.0] * 4, [1.0] * 4))
    bn = net.node("Exp", net.node("BatchNormalization", y, s, b, mean, var))
    result = fold_only(net.model(bn, conv(net, y, 2, 4)))
    assert result.reasons == ["shared-value"]


def test_float16_leaves_less_room() -> None:
    net = Net(dtype=np.float16)
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    bn = net.node("Exp", net.batchnorm(y, 4, scale=[1.0, 0.02, 2.0, 1.0], shift=np.zeros(4)))
    assert fold_only(net.model(bn, conv(net, y, 2, 4))).reasons == ["shared-value"]


def test_a_shift_from_which_another_summand_lies_far_stays() -> None:
    """Its own statistics nobody knows."""
    net = Net()
    one, two = (conv(net, net.input(2, 3, 7, 6), 4, 3) for _ in range(2))
    bn = net.batchnorm(net.node("Add", one, two), 4)
    consumers = [net.node("Sin", conv(net, value, 2, 4)) for value in (one, two)]
    assert declined(net, net.node("Exp", bn), *consumers) == ["shared-value"]


@pytest.mark.parametrize("consumer", ["Exp", "Relu", "output"])
def test_readers_that_cannot(consumer: str) -> None:
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    other = y if consumer == "output" else conv(net, net.node(consumer, y), 2, 4)
    reason = "graph-output" if consumer == "output" else "shared-value"
    assert declined(net, net.node("Exp", net.batchnorm(y, 4)), other) == [reason]


def test_a_value_that_a_subgraph_reads_too() -> None:
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    branches = [
        onnx.helper.make_graph(
            [onnx.helper.make_node(op, [y], [op])],
            op,
            [],
            [onnx.helper.make_tensor_value_info(op, onnx.TensorProto.DOUBLE, (2, 4, 7, 6))],
        )
        for op in ("Sin", "Identity")
    ]
    other = net.node("If", net.tensor(np.array(True)), then_branch=branches[0], else_branch=branches[1])
    assert declined(net, net.node("Exp", net.batchnorm(y, 4)), conv(net, y, 2, 4), other) == ["shared-value"]


def test_a_value_twice_in_one_sum() -> None:
    """Both operands are rescaled alike, and it is shifted back twice."""
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    other = conv(net, net.node("Add", y, y), 2, 4)
    assert count(folded(net, net.node("Exp", net.batchnorm(y, 4)), net.node("Sin", other))) == 0


def test_a_value_twice_in_one_product() -> None:
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    bn = net.node("Exp", net.batchnorm(y, 4))
    assert declined(net, bn, conv(net, net.node("Mul", y, y), 2, 4)) == ["shared-value"]


def test_a_reader_that_also_makes_another_arm() -> None:
    """The convolution on the arm would be rescaled at its input for one reason, and at its output for another."""
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    arm = net.node("ConvTranspose", y, net.const(4, 4, 1, 1))
    assert declined(net, net.node("Exp", net.batchnorm(net.node("Add", y, arm), 4))) == ["shared-value"]


def test_the_normalised_value_meets_the_one_before() -> None:
    net = Net()
    y = conv(net, net.input(2, 3, 7, 6), 4, 3)
    assert declined(net, net.node("Exp", net.node("Add", y, net.batchnorm(y, 4)))) == ["no-handler"]
