"""A bias that an InstanceNormalization takes out again goes, and only such a bias."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bnfold.folding import facts
from tests.folding.nets import Folded, Net, fold_only, folded


def normalised(net: Net, y: str, channels: int = 4) -> str:
    return net.node("InstanceNormalization", y, net.const(channels), net.const(channels))


def conv(net: Net, **attributes: object) -> str:
    return net.node("Conv", net.input(2, 3, 8, 7), net.const(4, 3, 3, 2), net.const(4), **attributes)


def biased(result: Folded, op_type: str = "Conv") -> bool:
    return result.node(op_type).input(2) is not None


@pytest.mark.parametrize("padded", [True, False])
def test_a_convolution(padded: bool) -> None:
    net = Net()
    y = conv(net, pads=[1] * 4) if padded else conv(net)
    result = folded(net, net.node("Relu", normalised(net, y)))
    assert result.ops == ["Conv", "InstanceNormalization", "Relu"]
    assert not biased(result)
    assert len(result.proto.graph.initializer) == 3
    assert result.report.notes == ["removed a bias that the next InstanceNormalization cancels: Conv_4"]


@pytest.mark.parametrize("group", [1, 3])
def test_a_transposed_convolution(group: int) -> None:
    net = Net()
    y = net.node("ConvTranspose", net.input(2, 3, 8, 7), net.const(3, 4, 3, 2), net.const(4 * group), group=group)
    assert not biased(folded(net, normalised(net, y, 4 * group)), "ConvTranspose")


@pytest.mark.parametrize("spatial", [(6,), (3, 5, 4)])
def test_any_rank(spatial: tuple[int, ...]) -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, *spatial), net.const(4, 3, *[2] * len(spatial)), net.const(4))
    assert not biased(folded(net, normalised(net, y)))


@pytest.mark.parametrize(("op_type", "swap"), [("Add", False), ("Add", True), ("Sub", False)])
def test_a_constant_that_is_added(op_type: str, swap: bool) -> None:
    net = Net()
    operands = [conv(net), net.const(4, 1, 1)]
    result = folded(net, normalised(net, net.node(op_type, *operands[:: -1 if swap else 1])))
    assert result.ops == ["Conv", "InstanceNormalization"]
    assert not biased(result)


def test_a_constant_that_is_added_to_something_else() -> None:
    net = Net()
    y = net.node("Add", net.node("Exp", net.input(2, 4, 6, 5)), net.const(2, 4, 1, 1))
    assert folded(net, normalised(net, y)).ops == ["Exp", "InstanceNormalization"]


@pytest.mark.parametrize(
    "between",
    [
        lambda net, y: net.node("Mul", y, net.const(4, 1, 1)),
        lambda net, y: net.node("Div", y, net.const(value=-3.0)),
        lambda net, y: net.node("Neg", y),
        lambda net, y: net.node("Sub", net.const(4, 1, 1), y),
        lambda net, y: net.node("Identity", y),
        lambda net, y: net.node("AveragePool", y, kernel_shape=[2, 2]),
        lambda net, y: net.node("MaxPool", y, kernel_shape=[2, 2]),
        lambda net, y: net.node("Transpose", y, perm=[0, 1, 3, 2]),
        lambda net, y: net.node("Pad", y, net.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"),
        lambda net, y: net.node("Concat", net.node("Exp", net.input(3, 4, 6, 6)), y, axis=0),
    ],
)
def test_with_something_between(between: Callable[[Net, str], str]) -> None:
    net = Net()
    result = folded(net, normalised(net, between(net, conv(net))))
    assert not biased(result)


def test_two_branches_that_both_normalise() -> None:
    net = Net()
    y = conv(net)
    assert not biased(folded(net, normalised(net, y), normalised(net, net.node("Identity", y))))


def test_both_arms_of_a_sum() -> None:
    net = Net()
    result = folded(net, normalised(net, net.node("Add", conv(net), conv(net))))
    assert [node.input(2) for node in result.model.graph.nodes if node.op_type == "Conv"] == [None, None]


def test_what_folding_put_there() -> None:
    net = Net()
    y = net.node("Conv", net.batchnorm(net.input(2, 3, 6, 5), 3), net.const(4, 3, 2, 2))
    result = folded(net, normalised(net, y))
    assert result.ops == ["Conv", "InstanceNormalization"]
    assert not biased(result)


def test_names_tell_which_values_changed() -> None:
    net = Net()
    y = conv(net)
    between = net.node("Identity", y)
    end = normalised(net, between)
    result = folded(net, end)
    assert set(result.report.renamed) == {y, between}
    assert end in result.model.graph.values
    assert y not in result.model.graph.values
    (cut,) = result.report.cuts
    assert cut.outputs == (end,)


def test_a_bias_that_another_convolution_reads_stays_there() -> None:
    net = Net()
    bias = net.const(4)
    x, kernel = net.input(2, 3, 8, 7), net.const(4, 3, 3, 2)
    other = net.node("Conv", x, net.const(4, 3, 3, 2), bias)
    result = folded(net, normalised(net, net.node("Conv", x, kernel, bias)), other)
    assert sorted(node.input(2) is None for node in result.model.graph.nodes if node.op_type == "Conv") == [False, True]


def refusals() -> dict[str, Callable[[Net], list[str]]]:
    """Graphs whose bias counts, or is not proven not to."""

    def output(net: Net) -> list[str]:
        y = conv(net)
        return [y, normalised(net, y)]

    def other_reader(net: Net) -> list[str]:
        y = conv(net)
        return [net.node("Exp", y), normalised(net, y)]

    def activation(net: Net) -> list[str]:
        return [normalised(net, net.node("Relu", conv(net)))]

    def zero_padding(net: Net) -> list[str]:
        return [normalised(net, net.node("Pad", conv(net), net.ints(0, 0, 1, 1, 0, 0, 0, 0)))]

    def mixed_channels(net: Net) -> list[str]:
        y = net.node("Reshape", conv(net), net.ints(0, 2, -1))
        return [normalised(net, y, 2)]

    def along_the_width(net: Net) -> list[str]:
        return [normalised(net, net.node("Mul", conv(net), net.const(6)))]

    return {
        "graph output": output, "other reader": other_reader, "activation": activation, "zero padding": zero_padding,
        "mixed channels": mixed_channels, "along the width": along_the_width,
    }  # fmt: skip


@pytest.mark.parametrize("graph", refusals())
def test_a_bias_that_counts(graph: str) -> None:
    net = Net()
    result = folded(net, *refusals()[graph](net))
    assert biased(result)
    assert not result.report.notes
    assert not result.report.renamed


def test_a_bias_that_is_computed() -> None:
    net = Net()
    y = net.node("Conv", net.input(2, 3, 8, 7), net.const(4, 3, 3, 2), net.input(4))
    assert biased(folded(net, normalised(net, y)))


def test_a_width_added_along_is_no_dead_shift() -> None:
    net = Net()
    y = net.node("Add", net.node("Exp", net.input(2, 4, 6, 5)), net.const(5))
    assert folded(net, normalised(net, y)).ops == ["Exp", "Add", "InstanceNormalization"]


def test_a_constant_that_the_value_is_subtracted_from() -> None:
    net = Net()
    y = net.node("Sub", net.const(4, 1, 1), net.node("Exp", net.input(2, 4, 6, 5)))
    assert folded(net, normalised(net, y)).ops == ["Exp", "Sub", "InstanceNormalization"]


def test_a_negation_is_no_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MISFIT", ())
    net = Net()
    y = net.node("Neg", net.node("Sigmoid", net.input(2, 4, 8, 7)))
    assert folded(net, normalised(net, y)).ops == ["Sigmoid", "Neg", "InstanceNormalization"]


def test_sixteen_bits_may_need_it() -> None:
    net = Net(dtype=np.float16)
    assert biased(folded(net, normalised(net, conv(net)), tolerance=2e-2))


def test_a_bias_that_arrives_on_two_ways() -> None:
    net = Net()
    y = conv(net)
    result = folded(net, normalised(net, net.node("Concat", y, net.node("Identity", y), axis=1), 8))
    assert not biased(result)


@pytest.mark.parametrize("name", ["Conv", "InstanceNormalization"])
def test_handlers_can_be_switched_off(name: str) -> None:
    net = Net()
    assert biased(folded(net, normalised(net, conv(net)), excluded=frozenset({name})))


def test_doing_it_twice_changes_nothing() -> None:
    net = Net()
    once = folded(net, normalised(net, conv(net)))
    again = fold_only(once.proto)
    assert again.proto == once.proto
    assert not again.report.notes
