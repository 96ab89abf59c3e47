"""Shared weights: equal folds are made once, and copies stay within the budget."""

from __future__ import annotations

import numpy as np
import pytest

import bnfold
from bnfold.edits.size_budget import fingerprint
from bnfold.ir.tensor import Exact, InMemory, Scaled
from tests.folding.nets import Net, declined, folded

DOUBLE = 11
BIAS = 4 * 8
"""Bytes of a bias of a convolution, and of each of the four parameters that go for it."""


def heads(net: Net, *, alike: bool, count: int = 3, plain: bool = False) -> list[str]:
    """Convolutions that share one weight, each with a BatchNormalization of its own or, ``alike``, of equal numbers."""
    w = net.const(4, 3, 2, 2)
    parameters = [net.const(value=net.rng.uniform(0.5, 2, 4)) for _ in range(4)]
    ends = []
    for index in range(count):
        y = net.node("Conv", net.input(2, 3, 5 + index, 7), w)
        ends.append(net.node("BatchNormalization", y, *parameters) if alike else net.batchnorm(y, 4))
    return [*ends, net.node("Conv", net.input(2, 3, 5, 7), w)] if plain else ends


@pytest.mark.parametrize("growth", [2 * BIAS, 1 << 30])
def test_equal_folds_of_a_shared_weight_are_one(growth: int) -> None:
    net = Net()
    result = folded(net, *heads(net, alike=True), growth=growth)
    assert result.ops == ["Conv"] * 3
    kernels = {node.proto.input[1] for node in result.model.graph.nodes}
    assert len(kernels) == 1, "all readers agree, so only biases are added until the last one lets go of the parameters"


def test_different_folds_of_a_shared_weight_need_a_budget() -> None:
    net = Net()
    assert declined(net, *heads(net, alike=False), growth=0) == ["shared-weight"] * 3
    net = Net()
    assert folded(net, *heads(net, alike=False), growth=2 * (48 * 8 - 3 * BIAS)).ops == ["Conv"] * 3
    net = Net()
    partly = folded(net, *heads(net, alike=False), growth=2 * (48 * 8 - 3 * BIAS) - 1)
    assert 0 < partly.ops.count("BatchNormalization") < 3


def test_a_reader_that_keeps_the_original() -> None:
    net = Net()
    assert declined(net, *heads(net, alike=True, plain=True), growth=48 * 8 - 1) == ["shared-weight"] * 3
    net = Net()
    assert folded(net, *heads(net, alike=True, plain=True), growth=48 * 8 + 2 * BIAS).ops == ["Conv"] * 4


def test_both_arms_of_a_sum_read_one_weight() -> None:
    net = Net()
    w = net.const(4, 3, 2, 2)
    y = net.node("Add", *(net.node("Conv", net.input(2, 3, 5, 7), w) for _ in range(2)))
    assert folded(net, net.batchnorm(y, 4), growth=0).ops == ["Conv", "Conv", "Add"]


@pytest.mark.parametrize(("channels", "folds"), [(20, True), (50, False)])
def test_without_a_limit_each_fold_may_cost_what_its_node_is_worth(channels: int, folds: bool) -> None:
    """And what a BatchNormalization stores; whatever other folds cost, so that a second run has no more to spend."""
    net = Net()
    w = net.const(channels, 3, 3, 3)  # of float64
    ends = [net.batchnorm(net.node("Conv", net.input(2, 3, 5 + size, 7), w), channels) for size in range(12)]
    model = net.model(*ends)
    first = bnfold.fold(model).to_proto()
    copies = channels * 27 * 8
    assert (copies <= 4096 + 4 * channels * 8) == folds
    left = [node.op_type for node in first.graph.node].count("BatchNormalization")
    assert left == (0 if folds else 12)
    assert bnfold.fold(first).to_proto() == first


def test_small_copies_need_no_budget_to_be_given() -> None:
    net = Net()
    model = net.model(*heads(net, alike=False))
    result = bnfold.fold(model)
    assert not any(node.op_type == "BatchNormalization" for node in result.to_proto().graph.node)


def test_fingerprints_tell_folds_apart() -> None:
    base = InMemory(DOUBLE, np.ones((2, 3)))
    rows, columns = np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    folds = (Scaled(base, [(0, rows)]), Scaled(base, [(1, columns)]), Scaled(base, [(0, -rows)]))
    prints = [fingerprint(tensor) for tensor in (*folds, Exact(DOUBLE, np.ones((2, 3))))]
    assert len(set(prints)) == 4
    assert fingerprint(Scaled(base, [(0, rows.copy())])) == prints[0]
