"""What a fold leaves behind: names, weights that others read, Constant nodes, types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import bnfold
from tests.folding.nets import Net, compare, fold_only, folded
from tests.verification.graphs import model


def names(model: onnx.ModelProto) -> set[str]:
    return {tensor.name for tensor in model.graph.initializer}


def test_the_output_keeps_its_name_and_the_weight_too() -> None:
    net = Net()
    w = net.const(4, 3, 2, 2)
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w), 4)
    result = folded(net, y)
    node = result.node("Conv")
    assert list(node.proto.output) == [y]
    assert node.proto.input[1] == w
    assert names(result.proto) == {w, node.proto.input[2]}, "parameters without a reader are gone"


def test_a_bias_gets_a_name_that_nothing_has() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    taken = f"{net.nodes[-1].name}_bias"
    net.weights.append(numpy_helper.from_array(np.ones(4), taken))
    y = net.batchnorm(y, 4)
    other = net.node("Neg", taken)
    assert folded(net, y, other).node("Conv").proto.input[2] == f"{taken}_1"


def test_values_on_the_way_get_fresh_names() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    flipped = net.node("Transpose", y, perm=[0, 1, 3, 2])
    result = folded(net, net.batchnorm(flipped, 4))
    assert not result.model.has_name(y) or result.node("Conv").proto.output[0] != y
    assert flipped not in [value.name for node in result.model.graph.nodes for value in node.outputs if value]


def test_a_weight_that_another_node_reads_stays_what_it_is() -> None:
    net = Net()
    w = net.const(3, 3, 1, 1)
    x = net.input(2, 3, 5, 7)
    y = net.batchnorm(net.node("Conv", x, w), 3)
    result = folded(net, y, net.node("Conv", x, w))
    assert result.ops == ["Conv", "Conv"]
    assert {w, f"{w}_1"} <= names(result.proto)


def test_a_weight_that_is_an_output_of_the_graph() -> None:
    net = Net()
    w = net.const(4, 3, 2, 2)
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w), 4)
    assert folded(net, y, w).ops == ["Conv"]


def test_parameters_that_two_norms_share() -> None:
    net = Net()
    shared = [net.const(value=np.abs(net.rng.standard_normal(4)) + 0.5) for _ in range(4)]
    ends = []
    for _ in range(2):
        y = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
        ends.append(net.node("BatchNormalization", y, *shared))
    assert folded(net, *ends).ops == ["Conv", "Conv"]


@pytest.mark.parametrize("chain", ["Identity", "Transpose", "Cast"])
def test_a_weight_that_a_chain_computes(chain: str) -> None:
    net = Net()
    w = net.const(2, 2, 3, 4)
    options: dict[str, dict[str, Any]] = {"Transpose": {"perm": [3, 2, 1, 0]}, "Cast": {"to": onnx.TensorProto.DOUBLE}}
    attributes = options.get(chain, {})
    w = net.node(chain, w if chain == "Transpose" else net.const(4, 3, 2, 2), **attributes)
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w), 4)
    assert folded(net, y).ops == ["Conv"]


def test_weights_in_constant_nodes() -> None:
    net = Net()
    w, b = net.const(4, 3, 2, 2), net.const(4)
    y = net.batchnorm(net.node("Conv", net.input(2, 3, 5, 7), w, b), 4)
    constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in net.weights]
    net.nodes[:0], net.weights = constants, []
    result = folded(net, y)
    assert result.ops == ["Conv"]
    assert list(result.node("Conv").proto.input)[1:] == [w, b]


def test_a_chain_that_becomes_an_identity_between_two_names() -> None:
    net = Net()
    ones, zeros = [net.const(value=np.ones(3)) for _ in range(2)], [net.const(value=np.zeros(3)) for _ in range(2)]
    x = net.input(2, 3, 5)
    y = net.node("BatchNormalization", x, ones[0], zeros[0], zeros[1], ones[1], epsilon=0.0)
    result = folded(net, y)
    assert result.ops == ["Identity"]
    assert not result.node("Identity").attrs
    assert result.report.batchnorms[0].verdict == "removed"


@pytest.mark.parametrize("output", [True, False])
def test_an_identity_behind_a_node_passes_its_name_on(output: bool) -> None:
    net = Net()
    ones, zeros = [net.const(value=np.ones(3)) for _ in range(2)], [net.const(value=np.zeros(3)) for _ in range(2)]
    x = net.node("Relu", net.input(2, 3, 5))
    y = net.node("BatchNormalization", x, ones[0], zeros[0], zeros[1], ones[1], epsilon=0.0)
    other = net.node("Neg", x)
    last = y if output else net.node("Abs", y)
    assert folded(net, last, other).ops == (["Relu", "Neg"] if output else ["Relu", "Neg", "Abs"])


def test_an_affine_that_others_undo_is_an_identity() -> None:
    net = Net()
    x = net.input(2, 3, 5)
    s, zero = net.const(value=np.array([2.0, -4.0, 0.5])), net.const(value=np.zeros(3))
    y = net.node("BatchNormalization", x, s, zero, zero, net.const(value=np.ones(3)), epsilon=0.0)
    y = net.node("Div", y, net.const(value=np.array([[2.0], [-4.0], [0.5]])))
    assert folded(net, net.node("Relu", y)).ops == ["Relu"]


def test_a_constant_that_is_normalised() -> None:
    net = Net()
    y = net.node("Add", net.batchnorm(net.const(2, 3, 5), 3), net.input(2, 3, 5))
    assert folded(net, y).ops == ["Identity", "Add"]


def test_bytes_are_the_same_every_time() -> None:
    net = Net()
    x = net.node("Conv", net.input(2, 3, 5, 7), net.const(4, 3, 2, 2))
    y = net.batchnorm(net.node("Relu", net.batchnorm(x, 4, positive=True)), 4, positive=True)
    proto = net.model(net.node("Conv", y, net.const(2, 4, 3, 3), pads=[1, 1, 1, 1]))
    first, second = (fold_only(proto).proto.SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_folding_twice_changes_nothing() -> None:
    net = Net()
    x = net.node("Relu", net.batchnorm(net.input(2, 3, 5, 7), 3, positive=True))
    proto = net.model(net.node("Conv", x, net.const(2, 3, 3, 3), pads=[1, 1, 1, 1]))
    once = fold_only(proto).proto
    compare(proto, once, net.feeds)
    assert fold_only(once).proto.SerializeToString() == once.SerializeToString()


@pytest.mark.parametrize("count", [2, 3])
def test_a_factor_that_takes_another_stays_who_makes_its_product(count: int) -> None:
    """Also a graph output, and when it takes several, one after the other."""
    net = Net()
    y = net.node("Mul", net.input(2, 3, 5, 7), net.const(value=np.full((3, 1, 1), 2.0)))
    for _ in range(count - 1):
        y = net.node("Mul", net.node("Relu", y), net.const(value=np.array([[[2.0]], [[3.0]], [[5.0]]])))
    result = folded(net, y, all_affines=True)
    assert result.ops == ["Mul", *["Relu"] * (count - 1)]
    net = Net()
    product = net.node("Mul", net.input(2, 3, 5, 7), net.const(3, 1, 1))
    result = folded(net, net.node("Neg", product), all_affines=True)
    assert all(value.name in result.model.graph.values for value in result.model.graph.outputs)


@pytest.mark.parametrize(("first", "second"), [("Neg (x)", "Neg (t)"), ("Mul (x, two)", "Mul (t, half)")])
def test_what_undoes_the_first_operator_becomes_an_identity(first: str, second: str) -> None:
    """Once the first one is gone, what it read is an input, which cannot take another name."""
    norm = "BatchNormalization (t, a, b, c, d)"
    head = "(float[2,3,4] x) => (float[2,3,4] y, float[2,3,4] z)"
    weights = {name: np.array([1.0, 2.0, 3.0], np.float32) for name in "abcd"}
    weights |= {"two": np.array(2.0, np.float32), "half": np.array(0.5, np.float32)}
    outcome = bnfold.optimize(model(f"{head} {{ t = {first}  z = {second}  y = {norm} }}", weights))
    assert outcome.verified
    assert [node.op_type for node in outcome.to_proto().graph.node] == ["Identity", "BatchNormalization"]
