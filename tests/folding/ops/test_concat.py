"""Concat and Split: every part has its own stretch of the affine, whatever the axis."""

from __future__ import annotations

import numpy as np
import pytest

from tests.folding.nets import Net, declined, folded


def conv(net: Net, channels: int) -> str:
    return net.node("Conv", net.input(2, 3, 5, 7), net.const(channels, 3, 2, 2))


@pytest.mark.parametrize("axis", [1, -3])
def test_concat_of_convolutions(axis: int) -> None:
    net = Net()
    y = net.node("Concat", *(conv(net, size) for size in (2, 4, 1)), axis=axis)
    assert folded(net, net.batchnorm(y, 7)).ops == ["Conv", "Conv", "Conv", "Concat"]


@pytest.mark.parametrize("axis", [0, 2, 3])
def test_concat_along_another_axis(axis: int) -> None:
    net = Net()
    y = net.node("Concat", conv(net, 4), conv(net, 4), axis=axis)
    assert folded(net, net.batchnorm(y, 4)).ops == ["Conv", "Conv", "Concat"]


def test_concat_with_a_constant_part() -> None:
    net = Net()
    y = net.node("Concat", net.const(2, 3, 4, 6), conv(net, 4), axis=1)
    result = folded(net, net.batchnorm(y, 7))
    assert result.ops == ["Conv", "Concat"]


def test_concat_with_one_value_twice() -> None:
    net = Net()
    y = conv(net, 3)
    both = net.node("Concat", y, y, axis=1)
    same = [1.0, -2.0, 3.0]
    alike = net.node(
        "BatchNormalization", both, *(net.const(value=np.array(v * 2)) for v in (same, same, same, [1.0, 2.0, 3.0]))
    )
    assert folded(net, alike).ops == ["Conv", "Concat"]
    net = Net()
    y = conv(net, 3)
    assert declined(net, net.batchnorm(net.node("Concat", y, y, axis=1), 6)) == ["shared-value"]


def test_concat_with_parts_that_cannot() -> None:
    net = Net()
    y = net.node("Concat", net.input(2, 4, 4, 6), conv(net, 3), net.input(2, 2, 4, 6), axis=1)
    assert declined(net, net.batchnorm(y, 9)) == ["graph-input"], "one that can is no use: two are needed either way"


def test_concat_of_parts_of_unknown_size() -> None:
    net = Net()
    parts = [net.node("Relu", net.input(2, 3, 4, declared=(2, None, 4))), net.input(2, 2, 4, declared=(2, None, 4))]
    assert declined(net, net.batchnorm(net.node("Concat", *parts, axis=1), 5)) == ["not-static"]


@pytest.mark.parametrize("slot", [0, 1, 2])
def test_concat_downward(slot: int) -> None:
    net = Net()
    parts = [net.input(2, size, 4, 6) for size in (2, 4, 3)]
    parts[slot] = net.batchnorm(parts[slot], (2, 4, 3)[slot])
    y = net.node("Conv", net.node("Concat", *parts, axis=1), net.const(5, 9, 2, 1))
    assert folded(net, y).ops == ["Concat", "Conv"]


def test_concat_downward_with_two_normalised_parts() -> None:
    net = Net()
    parts = [net.batchnorm(net.input(2, size, 4, 6), size) for size in (2, 4)]
    y = net.node("Conv", net.node("Concat", *parts, axis=1), net.const(6, 3, 2, 1), group=2)
    assert folded(net, y).ops == ["Concat", "Conv"]


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_split_into_several(opset: int) -> None:
    net = Net(opset=opset)
    x = conv(net, 6)
    sizes = {"split": [2, 4]} if opset < 13 else {}
    operands = [x] if opset < 13 else [x, net.ints(2, 4)]
    one, two = net.nodes_of("Split", *operands, outputs=2, axis=1, **sizes)
    assert folded(net, net.batchnorm(one, 2), net.batchnorm(two, 4)).ops == ["Conv", "Split"]


def test_split_with_one_part_read_as_it_is() -> None:
    net = Net()
    one, two = net.nodes_of("Split", conv(net, 6), net.ints(2, 4), outputs=2, axis=1)
    assert folded(net, net.batchnorm(two, 4), one).ops == ["Conv", "Split"]


def test_split_evenly() -> None:
    net = Net(opset=18)
    parts = net.nodes_of("Split", conv(net, 7), outputs=3, axis=1, num_outputs=3)
    assert folded(net, *(net.batchnorm(part, size) for part, size in zip(parts, (3, 3, 1), strict=True))).ops == [
        "Conv",
        "Split",
    ]


def test_split_along_another_axis() -> None:
    net = Net()
    one, two = net.nodes_of("Split", conv(net, 4), net.ints(3, 3), outputs=2, axis=3)
    assert declined(net, net.batchnorm(one, 4), two) == ["axis"], "only half of the width would be scaled"


@pytest.mark.parametrize("axis", [1, 2])
def test_split_downward(axis: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 5), 4)
    sizes = (1, 3) if axis == 1 else (2, 4)
    parts = net.nodes_of("Split", x, net.ints(*sizes), outputs=2, axis=axis)
    channels = sizes if axis == 1 else (4, 4)
    ends = [net.node("Conv", part, net.const(5, size, 1, 1)) for part, size in zip(parts, channels, strict=True)]
    assert folded(net, *ends).ops == ["Split", "Conv", "Conv"]


def test_split_downward_with_a_part_that_cannot() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 4, 6, 5), 4)
    one, two = net.nodes_of("Split", x, net.ints(1, 3), outputs=2, axis=1)
    assert declined(net, net.node("Conv", one, net.const(5, 1, 1, 1)), two) == ["graph-output"]


def halves(net: Net, x: str, *, channels: int = 7) -> list[str]:
    return net.nodes_of("Split", x, net.ints(3, channels - 3), outputs=2, axis=1)


def test_up_through_both_outputs_of_a_split() -> None:
    net = Net()
    one, two = halves(net, conv(net, 7))
    end = net.batchnorm(net.node("Concat", two, net.node("Identity", one), axis=1), 7)
    assert folded(net, end).ops == ["Conv", "Split", "Identity", "Concat"]


def test_up_through_both_outputs_of_a_split_into_a_sum() -> None:
    net = Net()
    one, two = halves(net, conv(net, 6), channels=6)
    assert folded(net, net.batchnorm(net.node("Sub", two, one), 3)).ops == ["Conv", "Split", "Sub"]


def test_up_through_two_slices_that_share_nothing() -> None:
    net = Net()
    x = conv(net, 7)
    parts = [net.node("Slice", x, net.ints(start), net.ints(end), net.ints(1)) for start, end in ((5, 7), (0, 3))]
    parts.append(net.node("Gather", x, net.ints(4, 3), axis=1))
    assert folded(net, net.batchnorm(net.node("Concat", *parts, axis=1), 7)).ops.count("BatchNormalization") == 0


def test_up_through_two_slices_that_share_an_element() -> None:
    net = Net()
    x = conv(net, 7)
    parts = [net.node("Slice", x, net.ints(start), net.ints(end), net.ints(1)) for start, end in ((3, 7), (0, 4))]
    assert declined(net, net.batchnorm(net.node("Concat", *parts, axis=1), 8)) == ["shared-value"]


def test_up_through_two_slices_of_a_constant() -> None:
    net = Net()
    x = net.const(2, 7, 4, 6)
    parts = [net.node("Slice", x, net.ints(start), net.ints(end), net.ints(1)) for start, end in ((3, 7), (0, 3))]
    y = net.node("Add", net.node("Concat", *parts, axis=1), conv(net, 7))
    assert folded(net, net.batchnorm(y, 7)).ops.count("BatchNormalization") == 0


def test_up_through_slices_along_an_axis_that_the_affine_does_not_vary_on() -> None:
    """As in space to depth: every part wishes the same for the whole."""
    net = Net()
    x = conv(net, 3)
    parts = [net.node("Slice", x, net.ints(start), net.ints(4), net.ints(2), net.ints(2)) for start in (0, 1)]
    alike = [net.const(value=np.tile(net.rng.uniform(0.5, 2, 3), 2)) for _ in range(4)]
    y = net.node("BatchNormalization", net.node("Concat", *parts, axis=1), *alike)
    assert folded(net, y).ops == ["Conv", "Slice", "Slice", "Concat"]
    net = Net()
    x = conv(net, 3)
    parts = [net.node("Slice", x, net.ints(start), net.ints(4), net.ints(2), net.ints(2)) for start in (0, 1)]
    y = net.batchnorm(net.node("Concat", *parts, axis=1), 6)
    assert declined(net, y) in (["shared-value"], ["axis"])


def test_down_through_both_outputs_of_a_split() -> None:
    net = Net()
    one, two = halves(net, net.batchnorm(net.input(2, 7, 5, 6), 7))
    y = net.node("Concat", two, net.node("Identity", one), axis=1)
    assert folded(net, net.node("Conv", y, net.const(4, 7, 2, 2))).ops == ["Split", "Identity", "Concat", "Conv"]


def test_down_into_a_concat_that_reads_it_twice() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 5, 6), 3)
    y = net.node("Concat", x, net.input(2, 2, 5, 6), x, axis=1)
    assert folded(net, net.node("Conv", y, net.const(4, 8, 2, 2))).ops == ["Concat", "Conv"]


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Sum"])
def test_down_into_a_sum_of_two_branches(op_type: str) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 5, 6), 3)
    y = net.node(op_type, net.node("GlobalAveragePool", x), x)
    assert folded(net, net.node("Conv", y, net.const(4, 3, 2, 2))).ops == ["GlobalAveragePool", op_type, "Conv"]


def test_down_into_a_sum_with_an_operand_that_is_not_scaled() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 5, 6), 3)
    y = net.node("Sum", x, net.node("Identity", x), net.input(2, 3, 5, 6))
    assert declined(net, net.node("Conv", y, net.const(4, 3, 2, 2))) == ["graph-input"]


def test_down_into_a_sum_of_halves_that_are_scaled_differently() -> None:
    net = Net()
    one, two = halves(net, net.batchnorm(net.input(2, 6, 5, 6), 6), channels=6)
    assert declined(net, net.node("Conv", net.node("Add", one, two), net.const(4, 3, 2, 2))) == ["no-handler"]
