"""Pairs folded all at once are folded as the search folds them, one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bnfold import ir
from bnfold.folding import direct
from bnfold.pipeline import order
from bnfold.semantics import Policy
from bnfold.settings import Options
from tests.folding.nets import Net, folded

MODELS = Path(__file__).parents[2] / "models"


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


def rewritten(model: onnx.ModelProto | Path) -> tuple[bytes, str]:
    loaded = ir.load(model)
    report = order.rewrite(loaded, Options())
    result = onnx.ModelProto.FromString(ir.encode(loaded))
    result.graph.initializer.sort(key=lambda tensor: tensor.name)  # new biases come in the order of the folds
    return result.SerializeToString(deterministic=True), json.dumps(report.to_json())


def plain(model: onnx.ModelProto) -> list[direct.Pair]:
    loaded = ir.load(model)
    return list(direct.pairs(loaded.graph.nodes, Policy(), loaded.original_names))


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_model_and_report_are_those_of_the_search(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = rewritten(path)
    monkeypatch.setattr(direct, "pairs", lambda *_: iter(()))
    assert rewritten(path) == at_once


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_drawn_rows_are_folded_as_by_the_search(biases: bool, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    net = row(biases, dtype)
    model = net.model(net.nodes[-1].output[0])
    assert len(plain(model)) == 3
    at_once = rewritten(model)
    monkeypatch.setattr(direct, "pairs", lambda *_: iter(()))
    assert rewritten(model) == at_once


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_where_two_rows_meet_both_are_folded_at_once(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(dtype=np.float32)
    x = net.input(1, 3, 5, 6)
    arms = [net.batchnorm(net.node("Conv", x, net.const(4, 3, 1, 1)), 4) for _ in range(2)]
    model = net.model(net.node("Relu", net.node(op_type, *arms)))
    assert len(plain(model)) == 2
    at_once = rewritten(model)
    monkeypatch.setattr(direct, "pairs", lambda *_: iter(()))
    assert rewritten(model) == at_once


def scaled(net: Net, x: str) -> str:
    """As Caffe has it: one layer normalises, and the next scales and shifts."""
    return net.node("Add", net.const(4, 1, 1), net.node("Mul", x, net.const(1, 4, 1, 1)))


def halved(net: Net, x: str) -> str:
    return net.node("Mul", net.const(value=np.array(-0.5)), x)


def shifted_twice(net: Net, x: str) -> str:
    return net.node("Add", net.node("Add", x, net.const(1)), net.const(4, 1, 1))


def unsqueezed(net: Net, x: str) -> str:
    return net.node("Mul", x, net.node("Unsqueeze", net.const(4), net.ints(1, 2)))


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("tail", [scaled, halved, shifted_twice, unsqueezed])
def test_channelwise_arithmetic_behind_goes_along(
    tail: Callable[[Net, str], str], biases: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net()
    operands = [net.input(2, 3, 5, 6), net.const(4, 3, 1, 1), *([net.const(4)] if biases else [])]
    end = net.node("Relu", tail(net, net.batchnorm(net.node("Conv", *operands), 4)))
    assert folded(net, end).ops == ["Conv", "Relu"]
    model = net.model(end)
    assert len(plain(model)) == 1
    at_once = rewritten(model)
    monkeypatch.setattr(direct, "pairs", lambda *_: iter(()))
    assert rewritten(model) == at_once


@pytest.mark.parametrize("biases", [False, True])
def test_the_numbers_are_right(biases: bool) -> None:
    net = row(biases, np.float64)
    result = folded(net, net.nodes[-1].output[0])
    assert result.ops == ["Conv", "Relu"] * 3 + ["Relu"]


def shared_value(net: Net) -> list[str]:
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    return [net.node("Relu", net.batchnorm(c, 4)), net.node("Abs", c)]


def output_between(net: Net) -> list[str]:
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    return [net.batchnorm(c, 4), c]


def shared_kernel(net: Net) -> list[str]:
    x, kernel = net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)
    return [net.batchnorm(net.node("Conv", x, kernel), 4) for _ in range(2)]


def shared_bias(net: Net) -> list[str]:
    x, bias = net.input(1, 3, 5, 6), net.const(4)
    return [net.batchnorm(net.node("Conv", x, net.const(4, 3, 1, 1), bias), 4) for _ in range(2)]


def normalised(net: Net) -> str:
    return net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)


def factor_along_another_axis(net: Net) -> list[str]:
    return [net.node("Mul", normalised(net), net.const(6))]


def factor_of_every_activation(net: Net) -> list[str]:
    return [net.node("Mul", normalised(net), net.const(4, 5, 6))]


def factor_that_adds_an_axis(net: Net) -> list[str]:
    return [net.node("Mul", normalised(net), net.const(1, 1, 4, 1, 1))]


def factor_that_is_infinite(net: Net) -> list[str]:
    return [net.node("Mul", normalised(net), net.const(value=np.array([1.0, np.inf, 2.0, 3.0]).reshape(4, 1, 1)))]


def factor_too_large(net: Net) -> list[str]:
    return [net.node("Mul", normalised(net), net.const(value=np.full((4, 1, 1), 2.0**70)))]


def divisor_behind(net: Net) -> list[str]:
    return [net.node("Div", normalised(net), net.const(4, 1, 1))]


def tail_with_a_shared_value(net: Net) -> list[str]:
    y = net.node("Mul", normalised(net), net.const(4, 1, 1))
    return [net.node("Add", y, net.const(4, 1, 1)), net.node("Sigmoid", y)]


def tail_that_undoes_the_rest(net: Net) -> list[str]:
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    zero, one, two = (net.const(value=np.full(4, number)) for number in (0.0, 1.0, 2.0))
    y = net.node("BatchNormalization", c, two, zero, zero, one, epsilon=0.0)
    return [net.node("Mul", y, net.const(value=np.array(0.5)))]


def long_tail(net: Net) -> list[str]:
    y = normalised(net)
    for _ in range(5):
        y = net.node("Mul", y, net.const(4, 1, 1))
    return [y]


def negated(net: Net) -> list[str]:
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)
    return [net.node("Neg", y)]


def read_as_divisor(net: Net) -> list[str]:
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)
    return [net.node("Div", net.const(4, 1, 1), y)]


def identity(net: Net) -> list[str]:
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    one, zero = (net.const(value=np.full(4, number)) for number in (1.0, 0.0))
    return [net.node("BatchNormalization", c, one, zero, zero, one, epsilon=0.0)]


def other_length(net: Net) -> list[str]:
    return [net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1), net.const(1)), 4)]


def zero_variance(net: Net) -> list[str]:
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    parameters = [net.const(4) for _ in range(3)]
    return [net.node("BatchNormalization", c, *parameters, net.const(value=np.full(4, -1.0)))]


def enormous_scale(net: Net) -> list[str]:
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    return [net.batchnorm(c, 4, scale=np.full(4, 2.0**70))]


def training(net: Net) -> list[str]:
    c = net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1))
    return [net.batchnorm(c, 4, training_mode=1)]


def constant_input(net: Net) -> list[str]:
    return [net.batchnorm(net.node("Conv", net.const(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)]


@pytest.mark.parametrize(
    "draw",
    [
        *(
            shared_value,
            output_between,
            shared_kernel,
            shared_bias,
            factor_along_another_axis,
            factor_of_every_activation,
            factor_that_adds_an_axis,
            factor_that_is_infinite,
            factor_too_large,
            divisor_behind,
            tail_that_undoes_the_rest,
            long_tail,
            negated,
            read_as_divisor,
            identity,
            other_length,
        ),
        *(zero_variance, enormous_scale, training, constant_input),
    ],
)
def test_what_is_not_plain_is_left_to_the_search(draw: Callable[[Net], list[str]]) -> None:
    net = Net(dtype=np.float32)
    assert plain(net.model(*draw(net))) == []


def test_a_tail_ends_where_a_value_is_shared() -> None:
    net = Net(dtype=np.float32)
    (pair,) = plain(net.model(*tail_with_a_shared_value(net)))
    assert [node.op_type for node in pair.row] == ["BatchNormalization", "Mul"]


def test_a_weight_that_a_caller_may_replace_is_left_to_the_search() -> None:
    net = Net(dtype=np.float32)
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)
    model = net.model(y)
    assert len(plain(model)) == 1
    weight = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 4)
    model.graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    assert plain(model) == []


def test_fewer_parameters_than_channels_are_left_to_the_search() -> None:
    net = Net(dtype=np.float32)
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)
    model = net.model(y)
    for tensor in model.graph.initializer:
        if list(tensor.dims) == [4]:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:3], tensor.name))
    assert plain(model) == []
