"""Channels that compute nothing leave: every kind of layer and carrier, in float64 before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from fuzz import channels as drawn
from fuzz import judge

import bnfold
from bnfold import channels, ir
from bnfold.pipeline import passes
from bnfold.report.events import Report
from bnfold.settings import Options
from tests.folding.nets import Net, compare, saved

DEAD = slice(8, 16)
"""Of sixteen channels, those that are zero."""


def optimized(net: Net, *outputs: str, **options: Any) -> tuple[onnx.ModelProto, Report]:
    """Optimise; assert equal results, and that a second run removes no channels."""
    proto = net.model(*outputs)
    model = ir.load(proto)
    report = passes.rewrite(model, Options(target_opset="keep", **options))
    result = saved(model)
    onnx.checker.check_model(result)
    compare(proto, result, net.feeds)
    assert not passes.rewrite(ir.load(result), Options(target_opset="keep", **options)).channels
    return result, report


def rows(report: Report) -> list[tuple[str, int, int]]:
    return [(row.operator, row.before, row.after) for row in report.channels]


def filters(net: Net, *shape: int, axis: int = 0, dead: slice = DEAD) -> str:
    """A weight with zero slices."""
    array = net.rng.standard_normal(shape)
    np.moveaxis(array, axis, 0)[dead] = 0
    return net.const(value=array)


def first(net: Net, *, size: int = 6, **attributes: Any) -> str:
    """A Conv of sixteen channels, eight of which are constant."""
    return net.node("Conv", net.input(2, 3, size, size), filters(net, 16, 3, 1, 1), net.const(16), **attributes)


def last(net: Net, x: str, channels: int = 16, **attributes: Any) -> str:
    return net.node("Conv", x, net.const(4, channels, 1, 1), net.const(4), **attributes)


UNARY = ["Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "Softplus",
         "Softsign", "Abs", "Neg", "Exp", "Erf", "Identity", "Mish"]  # fmt: skip


@pytest.mark.parametrize("op_type", UNARY)
def test_a_constant_passes_an_activation(op_type: str) -> None:
    net = Net(opset=18)
    _, report = optimized(net, last(net, net.node(op_type, first(net))))
    assert rows(report) == [("Conv", 16, 8)]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_a_constant_passes_a_gelu(approximate: str) -> None:
    net = Net(opset=20)
    _, report = optimized(net, last(net, net.node("Gelu", first(net), approximate=approximate)))
    assert rows(report) == [("Conv", 16, 8)]


def passing(net: Net, x: str, kind: str) -> str:
    """Append a carrier of channels."""
    operands: dict[str, tuple[Callable[[], str], ...]] = {
        "Clip": (lambda: net.const(value=-0.5), lambda: net.const(value=6.0)),
        "PRelu": (lambda: net.const(16, 1, 1),),
        "Mul": (lambda: net.const(1, 16, 1, 1),),
        "Add": (lambda: net.const(1, 16, 1, 1),),
        "Slice": (lambda: net.ints(0), lambda: net.ints(16), lambda: net.ints(1)),
        "Pad": (lambda: net.ints(0, 0, 1, 1, 0, 0, 1, 1),),
        "Resize": (lambda: "", lambda: net.tensor(np.array([1, 1, 2, 2], np.float32))),
    }
    attributes: dict[str, dict[str, Any]] = {
        "MaxPool": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        "AveragePool": {"kernel_shape": [2, 2]},
        "Pad": {"mode": "edge"},
        "Resize": {"mode": "nearest"},
    }
    if kind == "Transpose":
        return net.node(kind, net.node(kind, x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
    if kind == "BatchNormalization":
        return net.batchnorm(x, 16)
    return net.node(kind, x, *(make() for make in operands.get(kind, ())), **attributes.get(kind, {}))


CARRIERS = ["Clip", "PRelu", "Mul", "Add", "MaxPool", "AveragePool", "Transpose", "Slice", "Pad", "Resize",
            "BatchNormalization", "GlobalAveragePool", "GlobalMaxPool"]  # fmt: skip


@pytest.mark.parametrize("kind", CARRIERS)
def test_a_constant_passes_a_carrier(kind: str) -> None:
    net = Net()
    _, report = optimized(net, last(net, passing(net, net.node("Softsign", first(net)), kind)))
    assert ("Conv", 16, 8) in rows(report)


@pytest.mark.parametrize("kind", ["Softmax", "LRN", "ReduceSum", "ArgMax", "LayerNormalization", "TopK"])
def test_what_mixes_channels_keeps_them(kind: str) -> None:
    net = Net()
    x = net.node("Relu", first(net))
    if kind == "LRN":
        x = last(net, net.node(kind, x, size=3))
    elif kind == "ReduceSum":
        x = net.node(kind, x, net.ints(1))
    elif kind == "ArgMax":
        x = net.node("Cast", net.node(kind, x, axis=1), to=11)
    elif kind == "LayerNormalization":
        x = last(net, net.node(kind, x, net.const(16, 6, 6), axis=1))
    elif kind == "TopK":
        x = net.nodes_of(kind, x, net.ints(3), outputs=2, axis=1)[0]
    else:
        x = last(net, net.node(kind, x, axis=1))
    _, report = optimized(net, x)
    assert rows(report) == []


def test_padding_lets_zeros_go_and_no_other_constant() -> None:
    net = Net()
    bias = net.rng.standard_normal(16)
    bias[8:12] = 0
    x = net.node("Conv", net.input(1, 3, 6, 6), filters(net, 16, 3, 1, 1), net.const(value=bias))
    _, report = optimized(net, net.node("Conv", x, net.const(4, 16, 3, 3), pads=[1, 1, 1, 1]))
    assert rows(report) == []  # twelve would be left, and that is no multiple of eight
    net = Net()
    bias[8:] = -1
    x = net.node("Conv", net.input(1, 3, 6, 6), filters(net, 16, 3, 1, 1), net.const(value=bias))
    _, report = optimized(net, net.node("Conv", net.node("Relu", x), net.const(4, 16, 3, 3), pads=[1, 1, 1, 1]))
    assert rows(report) == [("Conv", 16, 8)]


@pytest.mark.parametrize("pad", ["SAME_UPPER", "VALID"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_automatic_padding(pad: str, kernel: int) -> None:
    net = Net()
    x = net.node("Conv", first(net), net.const(4, 16, kernel, kernel), auto_pad=pad)
    _, report = optimized(net, x)
    assert rows(report) == ([] if (pad, kernel) == ("SAME_UPPER", 3) else [("Conv", 16, 8)])


@pytest.mark.parametrize("counts", [0, 1])
def test_an_average_that_counts_its_padding(counts: int) -> None:
    net = Net()
    x = net.node("AveragePool", first(net), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=counts)
    _, report = optimized(net, last(net, x))
    assert bool(rows(report)) == (not counts)


def test_no_constant_but_zero_goes_into_a_transposed_convolution() -> None:
    for value, goes in ((0.0, True), (1.0, False)):
        net = Net()
        x = net.node("Conv", net.input(1, 3, 4, 4), filters(net, 16, 3, 1, 1), net.const(value=np.full(16, value)))
        _, report = optimized(net, net.node("ConvTranspose", x, net.const(16, 4, 2, 2), strides=[2, 2]))
        assert bool(rows(report)) == goes


def test_filters_of_a_transposed_convolution() -> None:
    net = Net()
    x = net.node("ConvTranspose", net.input(1, 3, 4, 4), filters(net, 3, 16, 2, 2, axis=1), net.const(16))
    _, report = optimized(net, last(net, x))
    assert rows(report) == [("ConvTranspose", 16, 8)]


def test_what_nothing_reads_is_not_computed() -> None:
    net = Net()
    x = net.node("Conv", net.input(1, 3, 6, 6), net.const(16, 3, 3, 3), net.const(16))
    x = net.node("Conv", net.node("Relu", x), filters(net, 4, 16, 3, 3, axis=1), pads=[1, 1, 1, 1])
    _, report = optimized(net, x)
    assert rows(report) == [("Conv", 16, 8)]


def test_one_layer_opens_the_way_for_another() -> None:
    """Of the second layer, only dead filters read some channels of the first one."""
    net = Net()
    x = net.node("Conv", net.input(1, 3, 6, 6), net.const(16, 3, 1, 1))
    kernel = net.rng.standard_normal((16, 16, 1, 1))
    kernel[8:] = 0
    kernel[:8, 8:] = 0
    x = net.node("Conv", net.node("Relu", x), net.const(value=kernel))
    result, report = optimized(net, last(net, net.node("Relu", x)))
    assert rows(report) == [("Conv", 16, 8), ("Conv", 16, 8)]
    assert {tuple(tensor.dims) for tensor in result.graph.initializer} >= {(8, 3, 1, 1), (8, 8, 1, 1), (4, 8, 1, 1)}


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Max", "Sum"])
def test_both_operands_have_to_be_dead(op_type: str) -> None:
    for dead, left in ((DEAD, 8), (slice(12, 16), 16)):
        net = Net()
        x = net.input(2, 3, 6, 6)
        one = net.node("Conv", x, filters(net, 16, 3, 1, 1), net.const(16))
        other = net.node("Conv", x, filters(net, 16, 3, 1, 1, dead=dead), net.const(16))
        _, report = optimized(net, last(net, net.node(op_type, one, other)), merge_branches=False)
        assert {row.after for row in report.channels} <= {left}
        assert bool(report.channels) == (left == 8)


def test_a_value_that_is_read_twice_goes_only_if_both_allow_it() -> None:
    net = Net()
    x = net.node("Sigmoid", first(net))
    _, report = optimized(net, last(net, x), net.node("Softmax", x, axis=1))
    assert rows(report) == []


def test_outputs_and_captured_values_keep_their_shapes() -> None:
    net = Net()
    x = net.node("Relu", first(net))
    _, report = optimized(net, last(net, x), x)
    assert rows(report) == []


def test_a_gate() -> None:
    net = Net()
    x = net.node("Relu", first(net))
    gate = net.node("Conv", net.node("GlobalAveragePool", x), net.const(8, 16, 1, 1), net.const(8))
    gate = net.node("Conv", net.node("Relu", gate), net.const(16, 8, 1, 1), net.const(16))
    gated = net.node("Mul", x, net.node("Sigmoid", gate))
    _, report = optimized(net, last(net, gated))
    assert rows(report) == []  # what is gated is a constant, but the gate is not
    net = Net()
    x = net.node("Conv", net.input(1, 3, 6, 6), filters(net, 16, 3, 1, 1))
    gate = net.node("Conv", net.node("GlobalAveragePool", x), net.const(16, 16, 1, 1), net.const(16))
    _, report = optimized(net, last(net, net.node("Mul", x, net.node("Sigmoid", gate))))
    assert rows(report) == [("Conv", 16, 8), ("Conv", 16, 8)]  # zero times anything is


@pytest.mark.parametrize("filters_each", [1, 2])
def test_depthwise(filters_each: int) -> None:
    net = Net()
    made = 16 * filters_each
    x = net.node("Conv", net.node("Relu", first(net)), net.const(made, 1, 3, 3), net.const(made), group=16)
    result, report = optimized(net, last(net, net.node("Relu", x), made))
    assert rows(report) == [("Conv", 16, 8), ("Conv", made, made // 2)]
    assert [onnx.helper.get_node_attr_value(node, "group") for node in result.graph.node if node.op_type == "Conv"
            if any(each.name == "group" for each in node.attribute)] == [8]  # fmt: skip


def test_groups_stay_equally_large() -> None:
    """Of one group six channels are dead, of the other one four, at other places: four of each go."""
    net = Net()
    kernel = net.rng.standard_normal((16, 3, 1, 1))
    kernel[[0, 1, 2, 3, 4, 5, 9, 11, 13, 15]] = 0
    x = net.node("Conv", net.input(1, 3, 6, 6), net.const(value=kernel), net.const(16))
    x = net.node("Conv", net.node("Relu", x), net.const(16, 8, 3, 3), net.const(16), group=2)
    result, report = optimized(net, last(net, x))
    assert rows(report) == [("Conv", 16, 8)]
    assert (16, 4, 3, 3) in {tuple(tensor.dims) for tensor in result.graph.initializer}


def test_a_shuffle() -> None:
    net = Net()
    kernel = net.rng.standard_normal((32, 3, 1, 1))
    kernel[[*range(8), *range(20, 32)]] = 0
    x = net.node("Relu", net.node("Conv", net.input(1, 3, 6, 6), net.const(value=kernel), net.const(32)))
    x = net.node("Reshape", x, net.ints(0, 2, 16, 6, 6))
    x = net.node("Reshape", net.node("Transpose", x, perm=[0, 2, 1, 3, 4]), net.ints(0, 32, 6, 6))
    _, report = optimized(net, last(net, x, 32))
    assert rows(report) == [("Conv", 32, 24)]  # four at the same places of both halves


@pytest.mark.parametrize("kind", ["Flatten", "Reshape", "copied"])
def test_in_front_of_a_matrix(kind: str) -> None:
    net = Net()
    x = net.node("Relu", first(net, size=3))
    target = {"Flatten": (), "Reshape": (-1, 144), "copied": (0, -1)}[kind]
    x = net.node("Reshape", x, net.ints(*target)) if target else net.node("Flatten", x)
    result, report = optimized(net, net.node("Gemm", x, net.const(5, 144), net.const(5), transB=1, alpha=0.5, beta=2.0))
    assert rows(report) == [("Conv", 16, 8)]
    assert (5, 72) in {tuple(tensor.dims) for tensor in result.graph.initializer}


def test_a_matrix_in_front_of_a_reshape() -> None:
    net = Net()
    kernel = net.rng.standard_normal((3, 16, 4))
    kernel[:, DEAD] = 0
    x = net.node("MatMul", net.input(2, 3), net.const(value=kernel.reshape(3, 64)))
    x = net.node("Reshape", net.node("Relu", x), net.ints(-1, 16, 2, 2))
    _, report = optimized(net, last(net, x))
    assert rows(report) == [("MatMul", 64, 32)]


def test_matrix_products_without_a_bias() -> None:
    net = Net()
    x = net.node("MatMul", net.input(2, 5, 3), filters(net, 3, 16, axis=1))
    x = net.node("Sigmoid", net.node("Add", x, net.const(16)))
    result, report = optimized(net, net.node("MatMul", x, net.const(16, 4)))
    assert rows(report) == [("MatMul", 16, 8)]
    assert [node.op_type for node in result.graph.node] == ["MatMul", "Add", "Sigmoid", "MatMul", "Add"]


@pytest.mark.parametrize("opset", [11, 17, 18])
def test_a_split(opset: int) -> None:
    net = Net(opset=opset)
    x = net.node("Conv", net.input(2, 3, 6, 6), filters(net, 16, 3, 1, 1, dead=slice(4, 12)), net.const(16))
    x = net.node("Relu", x)
    sizes = {"split": [12, 4]} if opset < 13 else {}
    parts = net.nodes_of("Split", x, *([] if sizes else [net.ints(12, 4)]), outputs=2, axis=1, **sizes)
    result, report = optimized(net, last(net, parts[0], 12), last(net, net.node("Tanh", parts[1]), 4))
    assert rows(report) == [("Conv", 16, 8)]
    assert "Split" in {node.op_type for node in result.graph.node}


@pytest.mark.parametrize(("opset", "attributes"), [(11, {}), (13, {}), (18, {"num_outputs": 3})])
def test_a_split_loses_what_nothing_reads(opset: int, attributes: dict[str, int]) -> None:
    """A constant takes the place of the middle part, whose channels need not be computed any more."""
    net = Net(opset=opset)
    x = net.node("Conv", net.input(2, 3, 6, 6), filters(net, 48, 3, 1, 1, dead=slice(16, 32)), net.const(48))
    one, gate, other = net.nodes_of("Split", x, outputs=3, axis=1, **attributes)
    gated = net.node("Mul", net.node("Tanh", one), net.node("Sigmoid", gate))
    ends = last(net, gated), last(net, net.node("Tanh", other))
    result, report = optimized(net, *ends)
    assert rows(report) == [("Sigmoid", 16, 0), ("Conv", 48, 32)]
    assert [len(node.output) for node in result.graph.node if node.op_type == "Split"] == [2]


def test_a_split_without_channels() -> None:
    """One part has none: they stay as they are."""
    net = Net()
    parts = net.nodes_of("Split", net.node("Relu", first(net)), net.ints(0, 16), outputs=2, axis=1)
    _, report = optimized(net, last(net, net.node("Concat", *parts, axis=1)))
    assert rows(report) == []


def test_a_layer_of_constants_is_one() -> None:
    """A residual branch whose last layer is dead; what it adds is put in its place."""
    net = Net()
    x = net.node("Relu", last(net, net.input(2, 3, 6, 6), 3))
    branch = net.node("Conv", x, net.const(8, 4, 3, 3), net.const(8), pads=[1, 1, 1, 1])
    branch = net.node("Conv", net.node("Relu", branch), net.const(value=np.zeros((4, 8, 1, 1))), net.const(4))
    result, report = optimized(net, net.node("Relu", net.node("Add", x, branch)))
    assert rows(report) == [("Conv", 4, 0)]
    assert [node.op_type for node in result.graph.node].count("Conv") == 1


@pytest.mark.parametrize("kind", ["padded", "gate", "groups", "ConvTranspose", "Gemm", "MatMul"])
def test_a_layer_that_reads_only_constants_is_one(kind: str) -> None:
    """The first layer of a branch is dead; the second one, which is not, makes constants of its own."""
    net = Net()
    x = net.node("Relu", net.node("Conv", net.input(2, 3, 6, 6), net.const(16, 3, 1, 1)))
    if kind in ("padded", "gate", "groups", "ConvTranspose"):
        dead = net.node("Conv", x, net.const(value=np.zeros((8, 16, 1, 1))), net.const(value=-np.ones(8)))
        branch = net.node("Relu" if kind in ("padded", "ConvTranspose") else "Sigmoid", dead)
        if kind == "ConvTranspose":
            branch = net.node(kind, branch, net.const(8, 16, 1, 1), net.const(16))
        else:
            size, group = 3 if kind == "padded" else 1, 2 if kind == "groups" else 1
            kernel = net.const(16, 8 // group, size, size)
            branch = net.node("Conv", branch, kernel, net.const(16), pads=[size // 2] * 4, group=group)
        y = net.node("Mul" if kind == "gate" else "Add", x, branch)
    else:
        x = net.node("ReduceMean", x, axes=[2, 3], keepdims=0)
        dead = net.node(kind, x, net.const(value=np.zeros((16, 8))))
        branch = net.node(kind, net.node("Sigmoid", dead), net.const(8, 16))
        y = net.node("Add", x, branch)
    result, report = optimized(net, net.node("Tanh", y))
    assert [row.after for row in report.channels] == [0]
    assert [node.op_type for node in result.graph.node if node.op_type in ("Conv", "Gemm", "MatMul", kind)] == ["Conv"]


@pytest.mark.parametrize(("op_type", "opset", "slot", "goes"), [
    ("Min", 7, 0, False), ("Sum", 7, 1, False), ("Min", 8, 0, True), ("Add", 7, 0, True),
    ("PRelu", 17, 0, False), ("PRelu", 17, 1, True),
])  # fmt: skip
def test_a_constant_takes_the_place_only_of_an_operand_that_is_broadcast(
    op_type: str, opset: int, slot: int, goes: bool
) -> None:
    net = Net(opset=opset)
    x = net.input(2, 3, 6, 6)
    dead = net.node("Conv", x, net.const(value=np.zeros((8, 3, 1, 1))), net.const(8))
    operands = [net.node("Tanh", net.node("Conv", x, net.const(8, 3, 1, 1)))]
    operands.insert(slot, dead)
    result, report = optimized(net, net.node(op_type, *operands))
    assert rows(report) == ([("Conv", 8, 0)] if goes else [])
    assert len([node for node in result.graph.node if node.op_type == "Conv"]) == 2 - goes


def test_a_concat_loses_an_operand() -> None:
    net = Net()
    x = net.input(2, 3, 6, 6)
    dead = net.node("Conv", x, net.const(value=np.zeros((8, 3, 1, 1))), net.const(8))
    alive = net.node("Conv", x, net.const(8, 3, 1, 1), net.const(8))
    result, report = optimized(net, last(net, net.node("Concat", net.node("Relu", dead), alive, axis=1)))
    assert rows(report) == [("Conv", 8, 0)]
    assert "Concat" not in {node.op_type for node in result.graph.node}


def test_shared_weights() -> None:
    """Two layers of one weight: a channel goes if it is dead behind both."""
    for end in (last, lambda net, x: net.node("Softmax", x, axis=1)):
        net = Net()
        weight, x = filters(net, 16, 3, 1, 1), net.input(1, 3, 6, 6)
        one, other = (net.node("Conv", each, weight, net.const(16)) for each in (x, net.node("Tanh", x)))
        _, report = optimized(net, last(net, one), end(net, other))
        assert rows(report) == ([("Conv", 16, 8)] * 2 if end is last else [])


def test_what_is_left_is_a_multiple_of_eight() -> None:
    for count, dead, left in ((64, 7, 64), (64, 8, 56), (64, 20, 48), (20, 5, 16), (12, 4, 8), (6, 3, 6)):
        net = Net()
        x = net.node("Conv", net.input(1, 3, 4, 4), filters(net, count, 3, 1, 1, dead=slice(0, dead)), net.const(count))
        _, report = optimized(net, last(net, net.node("Relu", x), count))
        assert rows(report) == ([("Conv", count, left)] if left < count else [])


def test_a_name_leaves_it_out() -> None:
    net = Net()
    _, report = optimized(net, last(net, net.node("Relu", first(net))), disable=frozenset({"dead-channels"}))
    assert not report.channels


def test_a_layer_that_is_not_followed_changes_nothing() -> None:
    """Its bias is computed: nothing goes, and the pass says so, or it would be run again."""
    net = Net()
    x = net.input(1, 3, 4, 4)
    bias = net.node("Identity", net.input(16))
    model = ir.load(net.model(last(net, net.node("Conv", x, filters(net, 16, 3, 1, 1), bias))))
    assert not channels.remove_channels(model, Report(), frozenset())


def test_what_is_not_finite_is_no_constant() -> None:
    """A scale of 0 times a weight that is infinite is NaN, and stays."""
    net = Net(dtype=np.float32)
    kernel = net.rng.standard_normal((16, 3, 1, 1))
    kernel[8:, 0] = np.inf
    x = net.node("Conv", net.input(1, 3, 4, 4), net.const(value=kernel))
    x = net.batchnorm(x, 16, scale=np.where(np.arange(16) < 8, 1.0, 0.0))
    model = ir.load(net.model(last(net, net.node("Relu", x))))
    assert not passes.rewrite(model, Options()).channels


def test_the_report_and_the_verdict() -> None:
    net = Net(dtype=np.float32)
    result = bnfold.optimize(net.model(last(net, net.node("Relu", first(net)))))
    assert result.verdict is not None
    assert result.verdict.verified
    assert result.report.to_json()["channels"] == [
        {"name": "Conv_4", "graph": "", "operator": "Conv", "before": 16, "after": 8}
    ]
    assert "dead-channels" in {row.rewrite.name for row in result.report.rewrites}


def test_equalizing_comes_last() -> None:
    """Behind a channel that leaves, an affine folds: one run does what two would, also if channels are equalized."""
    proto, _ = drawn.draw(1670)
    options = Options(target_opset="keep", equalize=True, exchange="always")
    model = ir.load(proto)
    assert passes.rewrite(model, options).channels
    assert not passes.rewrite(ir.load(saved(model)), options).channels


@pytest.mark.parametrize("opset", [9, 17])
def test_sizes_are_known_behind_what_is_removed(opset: int) -> None:
    """A shift folds into the Add that takes a constant over, at once; the file says the size of no value."""
    net = Net(opset=opset)
    x = net.input(2, 3, 4, 5)
    image = net.node("Sub", net.const(4, 5), net.node("Conv", x, net.const(8, 3, 1, 1)))
    dead = net.node("Conv", x, filters(net, 16, 3, 1, 1), net.const(16))
    x = net.node("Transpose", net.node("Concat", image, net.node("Relu", dead), axis=1), perm=[0, 2, 3, 1])
    _, report = optimized(net, net.node("Softmax", net.node("MatMul", x, net.const(24, 4)), axis=3))
    assert rows(report) == [("Conv", 16, 8)]
    assert "constant arithmetic folded: Sub_5" in report.notes


@pytest.mark.parametrize("seed", range(24))
def test_drawn_networks(seed: int) -> None:
    proto, feeds = drawn.draw(seed)
    assert not judge.judge(proto, feeds, "optimize").error
