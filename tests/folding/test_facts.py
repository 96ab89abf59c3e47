"""Ranks and sizes: what weights tell, they tell without inference, and nothing that is not so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold import ir, reference
from bnfold.folding import shapes
from bnfold.pipeline import passes
from bnfold.report.reasons import Declined
from bnfold.settings import Options
from tests.folding.nets import Net


def convolved(net: Net, channels: int, *, spatial: tuple[int, ...] = (7, 9)) -> str:
    return net.node("Conv", net.input(2, 3, *spatial), net.const(channels, 3, *[1] * len(spatial)))


def joined(net: Net) -> str:
    parts = [net.node("Relu", convolved(net, 4)), net.node("MaxPool", convolved(net, 5), kernel_shape=[1, 1])]
    return net.node("Concat", *parts, axis=1)


def twice(net: Net, value: str, axis: int) -> str:
    return net.node("Concat", value, value, axis=axis)


def statistics(net: Net) -> str:
    net.opset = 14
    parameters = [net.const(4) for _ in range(3)]
    spread = net.const(value=[1.0, 2.0, 3.0, 4.0])
    return net.nodes_of("BatchNormalization", convolved(net, 4), *parameters, spread, outputs=3, training_mode=1)[1]


TOLD: dict[str, Callable[[Net], str]] = {
    "Conv": lambda net: convolved(net, 4),
    "Conv of rank 3": lambda net: convolved(net, 4, spatial=(7,)),
    "Concat": joined,
    "Concat of Concats": lambda net: twice(net, twice(net, joined(net), 1), 1),
    "BatchNormalization": lambda net: net.batchnorm(twice(net, convolved(net, 4), 2), 4),
    "Mul of channels": lambda net: net.node("Mul", net.const(9, 1, 1), joined(net)),
    "Add of a number": lambda net: net.node("Add", joined(net), net.const(1)),
}
UNTOLD: dict[str, Callable[[Net], str]] = {
    "Concat of pixels": lambda net: twice(net, convolved(net, 4), 2),
    "Concat from the end": lambda net: twice(net, convolved(net, 4), -1),
    "Mul that adds an axis": lambda net: net.node("Mul", convolved(net, 4, spatial=(7,)), net.const(6, 1, 1, 1)),
    "Mul that adds an axis of that size": lambda net: net.node(
        "Mul", convolved(net, 4, spatial=(7,)), net.const(4, 1, 1, 1)
    ),
    "Mul that stretches": lambda net: net.node("Mul", convolved(net, 1), net.const(6, 1, 1)),
    "Transpose": lambda net: net.node("Transpose", convolved(net, 4), perm=[0, 2, 1, 3]),
    "Pad": lambda net: net.node("Pad", convolved(net, 4), net.ints(0, 1, 0, 0, 0, 2, 0, 0)),
    "input": lambda net: net.input(2, 3, 7),
    "the mean that a BatchNormalization makes": statistics,
}


def facts_of(make: Callable[[Net], str], monkeypatch: pytest.MonkeyPatch) -> tuple[object, object, tuple[int, ...]]:
    """Rank, channels, and the true shape; where no shape is declared and nothing inferred."""
    net = Net()
    y = make(net)
    proto = net.model(y)
    truth = reference.evaluate(ir.load(proto), net.feeds, [y])[y].shape
    model = ir.load(proto)
    model.graph.types.clear()
    monkeypatch.setattr(shapes, "learn_types", lambda _: None)
    value = model.graph.values[y]
    return asked(lambda: shapes.rank(value)), asked(lambda: shapes.size(value, 1)), truth


def asked(question: Callable[[], object]) -> object:
    try:
        return question()
    except Declined:
        return None


@pytest.mark.parametrize("name", TOLD)
def test_weights_tell(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rank, channels, truth = facts_of(TOLD[name], monkeypatch)
    assert (rank, channels) == (len(truth), truth[1])


@pytest.mark.parametrize("name", UNTOLD)
def test_nothing_is_told_that_is_not_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rank, channels, truth = facts_of(UNTOLD[name], monkeypatch)
    assert rank in (None, len(truth))
    assert channels in (None, *truth[1:2])


def test_a_value_that_depends_on_itself_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    y = net.node("Add", net.node("Mul", net.input(2, 3, 5), net.const(3, 1)), net.const(1))
    model = ir.load(net.model(y))
    model.graph.types.clear()
    mul, add = model.graph.nodes
    mul.set_input(0, add.outputs[0])
    monkeypatch.setattr(shapes, "learn_types", lambda _: None)
    assert asked(lambda: shapes.size(model.graph.values[y], 1)) is None


def test_the_work_grows_with_the_nodes_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the first value has a shape, and each of the others asks for its rank."""
    steps = [steps_of(layers, monkeypatch) for layers in (600, 1200)]
    assert steps[1] < 2.5 * steps[0]


def steps_of(layers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    net = Net()
    y = net.input(1, 3, 2)
    parameters = [net.const(value=[1.0, -2.0, 3.0]), *[net.const(value=[1.0, 2.0, 3.0]) for _ in range(3)]]
    for _ in range(layers):
        y = net.node("Sigmoid", net.node("BatchNormalization", y, *parameters))
    model = ir.load(net.model(y))
    steps = 0
    is_op = ir.Node.is_op

    def counted(node: ir.Node, *names: str) -> bool:
        nonlocal steps
        steps += 1
        return is_op(node, *names)

    with monkeypatch.context() as patch:
        patch.setattr(ir.Node, "is_op", counted)
        passes.rewrite(model, Options())
    return steps


@pytest.mark.parametrize("opset", [9, 11, 13])
@pytest.mark.parametrize("batch", [2, "N"])
def test_shape_arithmetic_is_followed_in_old_opsets_too(opset: int, batch: int | str) -> None:
    """As exporters split heads: the target of a Reshape is put together of sizes of what is reshaped."""
    net = Net(opset=opset)
    x = net.input(2, 3, 4, 5, declared=(batch, 3, 4, 5))
    axes: tuple[list[str], dict[str, Any]] = ([net.ints(0)], {}) if opset >= 13 else ([], {"axes": [0]})
    first = net.node("Gather", net.node("Shape", x), net.const(value=np.array(0)))
    rest = net.node("Mul", net.ints(4), net.ints(5))
    target = net.node("Concat", net.node("Unsqueeze", first, *axes[0], **axes[1]), net.ints(3), rest, axis=0)
    value = net.node("Reshape", x, target)
    proto = net.model(net.node("Sigmoid", value))
    assert shapes.dims(ir.load(proto).graph.values[value]) == (batch, 3, 20)
