"""Pairs folded all at once are folded as the search folds them, one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bnfold import ir, pipeline
from bnfold.folding import direct
from bnfold.semantics import Policy
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
    report = pipeline.rewrite(loaded, pipeline.Options())
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


def affine_behind(net: Net) -> list[str]:
    y = net.batchnorm(net.node("Conv", net.input(1, 3, 5, 6), net.const(4, 3, 1, 1)), 4)
    return [net.node("Mul", y, net.const(4, 1, 1))]


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
            affine_behind,
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
