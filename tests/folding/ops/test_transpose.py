"""Transpose: the affine's axis moves with the value's."""

from __future__ import annotations

import itertools

import pytest

from tests.folding.nets import Net, declined, folded


@pytest.mark.parametrize("perm", [list(perm) for perm in itertools.permutations(range(3)) if perm[1] == 2])
def test_up(perm: list[int]) -> None:
    net = Net()
    y = net.node("MatMul", net.input(2, 3, 4), net.const(4, 5))
    assert folded(net, net.batchnorm(net.node("Transpose", y, perm=perm), 5)).ops == ["MatMul", "Add", "Transpose"]


@pytest.mark.parametrize("perm", [list(perm) for perm in itertools.permutations(range(3)) if perm[2] == 1])
def test_down(perm: list[int]) -> None:
    net = Net()
    x = net.node("Transpose", net.batchnorm(net.input(2, 3, 4), 3), perm=perm)
    assert folded(net, net.node("MatMul", x, net.const(3, 5))).ops == ["Transpose", "MatMul", "Add"]


def test_without_perm_the_axes_are_reversed() -> None:
    net = Net()
    y = net.node("Transpose", net.node("MatMul", net.const(5, 3), net.input(3, 4)))
    assert folded(net, net.batchnorm(y, 5)).ops == ["Gemm", "Transpose"]


def test_a_perm_that_is_none() -> None:
    net = Net()
    y = net.node("Transpose", net.node("Gemm", net.input(5, 3), net.const(3, 5)), perm=[1, 0])
    assert declined(net, net.batchnorm(y, 5)) == ["axis"], "the rows of a square matrix are not its columns"
