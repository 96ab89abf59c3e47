"""Channels evened out across layers: the function stays the same, ranges get alike, what cannot be scaled stays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import bnfold
from bnfold import analysis, equalize, ir
from bnfold.edits.apply import apply_edits
from bnfold.equalize import tied
from bnfold.folding.affine import Affine
from bnfold.folding.ops import HANDLERS, Handler
from bnfold.folding.step import leaves, wants
from bnfold.pipeline import passes
from bnfold.verification import verify
from tests.folding.nets import Folded, Net, folded

Array = np.ndarray[Any, Any]


def uneven(net: Net, channels: int, others: int, *kernel: int, axis: int = 0, decades: float = 3) -> str:
    """A weight whose ranges along ``axis`` span some powers of ten."""
    dims = [channels, others] if axis == 0 else [others, channels]
    shape = [1] * (2 + len(kernel))
    shape[axis] = channels
    scale = 10 ** np.linspace(-decades, 0, channels).reshape(shape)
    return net.const(value=net.rng.permuted(scale, axis=axis) * net.rng.standard_normal((*dims, *kernel)))


def ranges(array: Array, axis: int = 0) -> Array:
    """The largest magnitude of each channel, beside the largest of all."""
    found: Array = np.abs(np.moveaxis(array, axis, 0)).reshape(array.shape[axis], -1).max(1)
    return np.asarray(found / found.max())


def spread(array: Array) -> float:
    return float(1 / ranges(array).min())


def weights(result: Folded, op_type: str = "Conv") -> list[Array]:
    held = [analysis.constant(node.input(1)) for node in result.model.graph.nodes if node.op_type == op_type]
    return [tensor.numpy() for tensor in held if tensor is not None]


def reasons(result: Folded) -> list[str]:
    return [event.reason.code for event in result.report.equalized if event.reason is not None]


def pair(net: Net, carry: Callable[[str], str], *, channels: int = 6) -> str:
    """Conv → what ``carry`` puts behind it → Conv, uneven on both sides."""
    x = net.node("Conv", net.input(2, 3, 8, 9), uneven(net, channels, 3, 3, 3))
    return net.node("Conv", carry(x), uneven(net, channels, 4, 1, 1, axis=1), net.const(4))


CARRIERS: dict[str, Callable[[Net, str], str]] = {
    "nothing": lambda _, x: x,
    "Relu": lambda net, x: net.node("Relu", x),
    "LeakyRelu": lambda net, x: net.node("LeakyRelu", x, alpha=0.2),
    "PRelu": lambda net, x: net.node("PRelu", x, net.const(6, 1, 1)),
    "pooling": lambda net, x: net.node("MaxPool", net.node("Relu", x), kernel_shape=[2, 2]),
    "depthwise": lambda net, x: net.node("Relu", net.node("Conv", x, uneven(net, 6, 1, 3, 3), group=6)),
    "a constant factor": lambda net, x: net.node("Relu", net.node("Mul", x, net.const(value=[[[[-1.5]]]]))),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_ranges_get_alike_and_the_function_stays(carrier: str) -> None:
    net = Net()
    result = folded(net, pair(net, lambda x: CARRIERS[carrier](net, x)), equalize=True)
    for first, second in itertools.pairwise(weights(result)):
        np.testing.assert_allclose(ranges(first), ranges(second, 0 if second.shape[1] == 1 else 1), rtol=0.01)
    assert len([event for event in result.report.equalized if event.layers]) == len(weights(result)) - 1


@pytest.mark.parametrize(("decades", "depthwise"), [(0.5, True), (0.5, False), (3, False)])
def test_layers_that_sum_over_channels_are_scaled_where_these_are_far_apart(decades: float, depthwise: bool) -> None:
    """Else a scale for each of their own channels would be worth more."""
    net = Net()
    x = net.node("Conv", net.input(2, 3, 8, 9), uneven(net, 6, 3, 3, 3, decades=decades))
    dims = (6, 1, 3, 3) if depthwise else (4, 6, 3, 3)
    result = folded(net, net.node("Conv", x, net.const(*dims), group=6 if depthwise else 1), equalize=True)
    assert any(event.layers for event in result.report.equalized) == (depthwise or decades == 3)


def test_constants_that_are_added_take_the_factor() -> None:
    net = Net()
    result = folded(net, pair(net, lambda x: net.node("Relu", net.node("Add", net.const(6, 1, 1), x))), equalize=True)
    assert result.ops == ["Conv", "Add", "Relu", "Conv"]
    assert spread(weights(result)[0]) < 200


def test_arms_of_a_sum_take_one_factor() -> None:
    net = Net()
    scale = np.logspace(-3, 0, 6).reshape(6, 1, 1, 1)
    stem, arm = (net.const(value=scale * net.rng.standard_normal((6, others, 1, 1))) for others in (3, 5))
    x = net.node("Relu", net.node("Conv", net.input(2, 3, 8, 8), stem))
    inner = net.node("Relu", net.node("Conv", x, net.const(5, 6, 1, 1), net.const(5)))
    total = net.node("Add", x, net.node("Conv", inner, arm))
    result = folded(net, net.node("Conv", net.node("Relu", total), net.const(4, 6, 1, 1)), equalize=True)
    first = next(event for event in result.report.equalized if event.layers)
    assert first.channels == 6
    assert sorted(first.layers) == sorted(node.name for node in net.nodes if node.op_type == "Conv")
    assert "Add" in " ".join(first.passed)


def test_an_arm_that_cannot_be_scaled_stops_all() -> None:
    net = Net()
    x = net.input(2, 6, 8, 8)
    total = net.node("Add", x, net.node("Conv", net.node("Sigmoid", x), uneven(net, 6, 6, 1, 1)))
    result = folded(net, net.node("Conv", total, net.const(4, 6, 1, 1)), equalize=True)
    assert reasons(result) == ["graph-input", "graph-output"]


@pytest.mark.parametrize("operator", ["Clip", "Sigmoid", "HardSwish", "Softmax"])
def test_what_no_factor_passes_is_left(operator: str) -> None:
    net = Net()
    bounds = [net.const(value=0.0), net.const(value=6.0)] if operator == "Clip" else []
    y = pair(net, lambda x: net.node(operator, x, *bounds))
    before = net.model(y)
    result = folded(net, y, equalize=True)
    assert not any(event.layers for event in result.report.equalized)
    assert {tensor.name: tensor for tensor in result.proto.graph.initializer} == {
        tensor.name: tensor for tensor in before.graph.initializer
    }


def test_a_graph_output_stays() -> None:
    net = Net()
    x = net.node("Conv", net.input(2, 3, 8, 8), uneven(net, 6, 3, 1, 1))
    result = folded(net, x, net.node("Conv", net.node("Relu", x), net.const(4, 6, 1, 1)), equalize=True)
    assert set(reasons(result)) == {"graph-output"}


def test_a_value_that_a_subgraph_reads_stays() -> None:
    from onnx import helper

    net = Net()
    x = net.node("Conv", net.input(2, 3, 8, 8), uneven(net, 6, 3, 1, 1))
    branch = helper.make_graph(
        [helper.make_node("Neg", [x], ["inside"])], "b", [], [helper.make_tensor_value_info("inside", 11, None)]
    )
    flag = net.tensor(np.array(True))
    y = net.node("If", flag, then_branch=branch, else_branch=branch)
    y = net.node("Add", y, net.node("Conv", net.node("Relu", x), net.const(6, 6, 1, 1)))
    assert "barrier" in reasons(folded(net, y, equalize=True))


def test_channels_of_zeros_and_unread_channels_stay() -> None:
    net = Net()
    kernel, consumer = net.rng.standard_normal((6, 3, 1, 1)), net.rng.standard_normal((4, 6, 1, 1))
    kernel *= np.array([1e-3, 1, 0.1, 1, 1e-2, 1]).reshape(6, 1, 1, 1)
    kernel[1], consumer[:, 3] = 0, 0
    bias = net.rng.standard_normal(6) * [1e-3, 0, 0.1, 1, 1e-2, 1]
    x = net.node("Conv", net.input(2, 3, 8, 8), net.const(value=kernel), net.const(value=bias))
    result = folded(net, net.node("Conv", net.node("Relu", x), net.const(value=consumer)), equalize=True)
    first, last = weights(result)
    held = analysis.constant(result.node("Conv").input(2))
    assert held is not None
    assert not first[1].any()
    np.testing.assert_array_equal(held.numpy()[[1, 3]], bias[[1, 3]])
    np.testing.assert_array_equal(last[:, [1, 3]], consumer[:, [1, 3]])
    assert spread(first[[0, 2, 4, 5]]) < spread(kernel[[0, 2, 4, 5]]) / 5


def test_a_loud_bias_keeps_a_silent_channel_from_growing() -> None:
    net = Net()
    scale = np.ones((6, 1, 1, 1))
    scale[2] = 1e-9
    x = net.node(
        "Conv", net.input(2, 3, 8, 8), net.const(value=scale * net.rng.standard_normal((6, 3, 1, 1))), net.const(6)
    )
    result = folded(net, net.node("Conv", net.node("Relu", x), net.const(4, 6, 1, 1)), equalize=True)
    held = analysis.constant(result.node("Conv").input(2))
    assert held is not None
    assert np.abs(held.numpy()).max() < 30


def test_half_precision_does_not_overflow() -> None:
    net = Net(dtype=np.float16)
    kernel = net.rng.standard_normal((6, 3, 1, 1)) * np.array([1e-3, 1, 10, 3e4, 1, 1]).reshape(6, 1, 1, 1)
    x = net.node("Conv", net.input(2, 3, 4, 4), net.const(value=kernel))
    y = net.node("Conv", net.node("Relu", x), net.const(value=net.rng.standard_normal((4, 6, 1, 1)) * 1e-3))
    proto = net.model(y)
    outcome = bnfold.fold(proto, equalize=True)
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    (event,) = [event for event in outcome.report.equalized if event.layers]
    assert event.factors[1] <= 1
    assert event.factors[0] >= 2**-6 * 0.999
    for tensor in outcome.to_proto().graph.initializer:
        assert np.isfinite(numpy_helper.to_array(tensor)).all()


def test_groups_are_dealt_out() -> None:
    net = Net()
    x = net.node("Conv", net.input(2, 3, 6, 6), uneven(net, 6, 3, 1, 1))
    grouped = net.node("Conv", net.node("Relu", x), net.const(4, 3, 3, 3), net.const(4), group=2)
    result = folded(net, net.node("Conv", grouped, uneven(net, 4, 5, 1, 1, axis=1)), equalize=True)
    assert [event.channels for event in result.report.equalized if event.layers] == [6, 4]
    first, second, _ = weights(result)
    np.testing.assert_allclose(ranges(first), ranges(np.concatenate([second[:2], second[2:]], 1), 1), rtol=0.01)


def test_gemm_behind_flatten_and_matmul_with_an_add() -> None:
    net = Net()
    x = net.node("Relu", net.node("Conv", net.input(2, 3, 4, 4), uneven(net, 6, 3, 1, 1)))
    x = net.node("Gemm", net.node("Flatten", x), uneven(net, 5, 96), net.const(5), transB=1)
    x = net.node(
        "Add", net.node("MatMul", net.node("Relu", x), uneven(net, 7, 5, axis=1)), net.const(value=np.eye(7)[6])
    )
    result = folded(net, net.node("MatMul", net.node("Relu", x), uneven(net, 7, 4)), equalize=True)
    assert [event.channels for event in result.report.equalized if event.layers] == [6, 5, 7]
    (kernel,), matrix = weights(result), result.weight("Gemm")
    np.testing.assert_allclose(ranges(kernel), ranges(matrix.reshape(5, 6, 16), 1), rtol=0.01)


def test_twice_changes_nothing_more() -> None:
    net = Net(dtype=np.float32)
    once = bnfold.fold(net.model(pair(net, lambda x: net.node("Relu", x))), equalize=True)
    twice = bnfold.fold(once.to_proto(), equalize=True)
    assert any(event.layers for event in once.report.equalized)
    assert not any(event.layers for event in twice.report.equalized)


def test_excluded_operators_are_left() -> None:
    net = Net()
    y = pair(net, lambda x: net.node("Relu", x))
    assert "excluded" in reasons(folded(net, y, equalize=True, excluded=frozenset({"Relu"})))


def test_quantized_weights_are_left() -> None:
    net = Net(dtype=np.float32)
    scale = net.const(value=np.float32(0.1))
    kernel = net.node("DequantizeLinear", net.tensor(np.arange(-9, 9, dtype=np.int8).reshape(6, 3, 1, 1)), scale)
    x = net.node("Relu", net.node("Conv", net.input(2, 3, 4, 4), kernel))
    result = folded(net, net.node("Conv", x, net.const(4, 6, 1, 1)), equalize=True)
    assert reasons(result) == ["quantized-weight", "graph-output"]


def test_a_shared_weight_is_copied_or_left() -> None:
    net = Net()
    shared = uneven(net, 6, 6, 1, 1)
    x = net.node("Relu", net.node("Conv", net.input(2, 6, 4, 4), shared))
    y = net.node("Conv", net.node("Relu", net.node("Conv", x, shared)), net.const(4, 6, 1, 1))
    result = folded(net, y, equalize=True, growth=0)
    assert "shared-weight" in reasons(result)


def test_the_default_verification_says_so() -> None:
    net = Net(dtype=np.float32)
    x = net.node("Relu", net.batchnorm(net.node("Conv", net.input(2, 3, 8, 8), uneven(net, 6, 3, 3, 3)), 6))
    outcome = bnfold.optimize(
        net.model(net.node("Conv", x, net.const(4, 6, 1, 1))), options=bnfold.Options(equalize=True)
    )
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert outcome.report.count("folded") == 1
    assert any(note.startswith("channels equalized: Conv_") for note in outcome.report.notes)


def test_layers_are_compared_one_by_one() -> None:
    """Many layers with pruned channels: what comes out of the last would not show a fault in the first."""
    net = Net(dtype=np.float32)
    x = net.input(2, 8, 5, 6)
    for _ in range(12):
        kernel = net.rng.standard_normal((8, 8, 1, 1)) * 10 ** net.rng.uniform(-3, 0, (8, 1, 1, 1))
        kernel[:3], kernel[:, :3] = 0, 1e-38
        x = net.node("Relu", net.node("Conv", x, net.const(value=kernel), net.const(8)))
    outcome = bnfold.fold(
        net.model(net.node("Conv", x, net.const(4, 8, 1, 1))), equalize=True, verify=bnfold.VerifyOptions(depth="local")
    )
    assert outcome.verdict is not None
    assert outcome.verdict.verified
    assert len(outcome.verdict.local) > 12


def test_wrong_factors_prove_nothing() -> None:
    net = Net(dtype=np.float32)
    proto = net.model(pair(net, lambda x: net.node("Relu", x)))
    before, after = ir.load(proto), ir.load(proto)
    report = passes.rewrite(after, bnfold.Options(equalize=True))
    for depth in ("full", "local"):
        assert verify(before, after, depth=depth, cuts=report.cuts, scaled=report.scaled).verified
    key, scaled = next(iter(report.scaled.items()))
    assert isinstance(scaled, ir.ScaledValue)
    wrong = {**report.scaled, key: replace(scaled, factors=scaled.factors * 1.01)}
    assert not verify(before, after, depth="local", cuts=report.cuts, scaled=wrong).verified


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4)])
def test_a_weight_without_elements(sizes: tuple[int, int, int]) -> None:
    net = Net()
    x = net.node("MatMul", net.input(2, sizes[0]), net.const(sizes[0], sizes[1]))
    y = net.node("MatMul", net.node("Relu", x), net.const(sizes[1], sizes[2]))
    assert folded(net, y, equalize=True).ops == ["MatMul", "Relu", "MatMul"]


def two_readers(net: Net) -> str:
    x = net.node("Conv", net.input(2, 3, 8, 8), uneven(net, 6, 3, 1, 1))
    return net.node("Add", net.node("Sigmoid", x), net.node("Conv", net.node("Relu", x), net.const(6, 6, 1, 1)))


def turned_around(net: Net) -> str:
    x = net.node("Conv", net.input(2, 3, 8, 8), uneven(net, 6, 3, 1, 1))
    total = net.node("Add", x, net.node("Gather", x, net.ints(5, 4, 3, 2, 1, 0), axis=1))
    return net.node("Conv", total, net.const(4, 6, 1, 1))


def clipped(net: Net) -> str:
    return pair(net, lambda x: net.node("Clip", x, net.const(value=0.0), net.const(value=0.05)))


def asked_if_conv(found: tied.Tied, consumer: ir.Node, slot: int, affine: Affine) -> None:
    if not consumer.is_op("Sigmoid"):
        READ(found, consumer, slot, affine)


READ = tied.Tied._read
FAULTS: dict[str, tuple[Callable[[Net], str], Callable[[pytest.MonkeyPatch], None]]] = {
    "readers that are not asked": (two_readers, lambda patch: patch.setattr(tied.Tied, "_read", asked_if_conv)),
    "two factors for one value": (turned_around, lambda patch: patch.setattr(tied, "_agree", lambda *_: True)),
    "bounds that stay": (
        clipped,
        lambda patch: patch.setitem(
            HANDLERS, "Clip", Handler(lambda _, __, affine: wants(affine), lambda _, __, affine: leaves(affine))
        ),
    ),
    "a weight without its inverse": (
        lambda net: pair(net, lambda x: net.node("Relu", x)),
        lambda patch: patch.setattr(equalize, "apply_edits", lambda edits, budget: apply_edits(edits[:-1], budget)),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught_whole_and_locally(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(dtype=np.float32)
    make, break_it = FAULTS[fault]
    proto = net.model(make(net))
    assert bnfold.fold(proto, equalize=True).verdict is not None
    break_it(monkeypatch)
    for depth in ("full", "local"):
        with pytest.raises(bnfold.errors.VerificationFailed):
            bnfold.fold(proto, equalize=True, verify=bnfold.VerifyOptions(depth=depth))
