"""LSTM, GRU and RNN take an affine of what they read into their input weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.folding.nets import Net, declined, folded

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(net: Net, op: str, x: str, inputs: int, *, bias: bool = True, directions: int = 1, **about: Any) -> str:
    rows = 3 * GATES[op]
    weights = [net.const(directions, rows, inputs), net.const(directions, rows, 3)]
    more = [net.const(directions, 2 * rows)] if bias else []
    kind = "bidirectional" if directions == 2 else "forward"
    return net.node(op, x, *weights, *more, hidden_size=3, direction=kind, **about)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_a_batchnorm_before(op: str, directions: int, bias: bool) -> None:
    net = Net()
    x = net.node("Transpose", net.batchnorm(net.input(2, 4, 5), 4), perm=[2, 0, 1])
    y = recurrent(net, op, x, 4, bias=bias, directions=directions)
    assert folded(net, y).ops == ["Transpose", op]


@pytest.mark.parametrize("reset", [0, 1])
def test_gru_by_the_way_it_resets(reset: int) -> None:
    net = Net()
    x = net.node("Transpose", net.batchnorm(net.input(2, 4, 5), 4), perm=[2, 0, 1])
    assert folded(net, recurrent(net, "GRU", x, 4, linear_before_reset=reset)).ops == ["Transpose", "GRU"]


def test_batch_first_and_sequences_of_their_own_lengths() -> None:
    net = Net()
    x = net.node("Transpose", net.batchnorm(net.input(2, 4, 5), 4), perm=[0, 2, 1])
    weights = [net.const(1, 12, 4), net.const(1, 12, 3), net.const(1, 24), net.tensor(np.array([3, 5], np.int32))]
    y = net.node("LSTM", x, *weights, hidden_size=3, layout=1)
    assert folded(net, y).ops == ["Transpose", "LSTM"]


def test_along_another_axis() -> None:
    net = Net()
    y = recurrent(net, "RNN", net.batchnorm(net.input(2, 4, 5), 4), 5)
    assert declined(net, y) == ["axis"]


def test_behind_it() -> None:
    net = Net()
    x = recurrent(net, "RNN", net.input(5, 2, 4), 4)
    assert declined(net, net.batchnorm(x, 1)) == ["no-handler"]


def reversed_along(net: Net, x: str, axis: int) -> str:
    lengths = net.ints(*([1, 2, 3, 3] if axis == 0 else [2, 4, 1]))
    return net.node("ReverseSequence", x, lengths, time_axis=axis, batch_axis=1 - axis)


def test_reverse_sequence() -> None:
    """Elements of one axis change places: of another than the affine's."""
    net = Net()
    x = net.node("Conv", net.input(3, 2, 5), net.const(4, 2, 1))
    assert folded(net, net.batchnorm(reversed_along(net, x, 0), 4)).ops == ["Conv", "ReverseSequence"]
    net = Net()
    x = reversed_along(net, net.batchnorm(net.input(3, 4, 5), 4), 0)
    assert folded(net, net.node("Conv", x, net.const(2, 4, 1))).ops == ["ReverseSequence", "Conv"]
    net = Net()
    x = net.node("Conv", net.input(3, 2, 5), net.const(4, 2, 1))
    assert declined(net, net.batchnorm(reversed_along(net, x, 1), 4)) == ["axis"]
