"""MatMul: the constant operand on either side, stacks of matrices, and where the shift goes."""

from __future__ import annotations

import pytest

from tests.folding.nets import Net, declined, folded


def test_up_in_two_dimensions_becomes_gemm() -> None:
    net = Net()
    result = folded(net, net.batchnorm(net.node("MatMul", net.input(4, 3), net.const(3, 5)), 5))
    assert result.ops == ["Gemm"]
    assert result.weight("Gemm", 2).shape == (5,)


def test_up_with_a_scale_alone_stays_matmul() -> None:
    net = Net()
    y = net.batchnorm(net.node("MatMul", net.input(4, 3), net.const(3, 5)), 5, shift=[0] * 5)
    assert folded(net, y).ops == ["MatMul"]


def test_a_following_add_takes_the_shift() -> None:
    net = Net()
    y = net.node("Add", net.node("MatMul", net.input(2, 7, 3), net.const(3, 5)), net.const(5))
    y = net.node("Transpose", net.batchnorm(net.node("Transpose", y, perm=[0, 2, 1]), 5), perm=[0, 2, 1])
    result = folded(net, y)
    assert result.ops == ["MatMul", "Add", "Transpose", "Transpose"]


def test_up_in_three_dimensions_leaves_an_add() -> None:
    net = Net()
    y = net.node("MatMul", net.input(2, 7, 3), net.const(3, 5))
    result = folded(net, net.batchnorm(net.node("Transpose", y, perm=[0, 2, 1]), 5))
    assert result.ops == ["MatMul", "Add", "Transpose"]
    assert result.weight("Add").shape == (5,)  # the lowest rank that broadcasts


def test_up_with_the_constant_on_the_left_scales_rows() -> None:
    net = Net()
    result = folded(net, net.batchnorm(net.node("MatMul", net.const(5, 3), net.input(2, 3, 4)), 5))
    assert result.ops == ["MatMul", "Add"]


def test_up_with_the_constant_on_the_left_and_a_column_each() -> None:
    net = Net()
    y = net.node("MatMul", net.const(5, 3), net.input(3, 4))
    turned = net.node("Transpose", y, perm=[1, 0])
    assert folded(net, net.batchnorm(turned, 5)).ops == ["Gemm", "Transpose"]


def test_up_with_a_stack_of_matrices() -> None:
    net = Net()
    y = net.node("MatMul", net.const(2, 5, 3), net.input(2, 3, 4))
    assert folded(net, net.batchnorm(y, 5)).ops == ["MatMul", "Add"]


@pytest.mark.parametrize("perm", [[0, 1, 2], [2, 1, 0]])
def test_rows_are_not_columns_although_their_numbers_coincide(perm: list[int]) -> None:
    net = Net()
    y = net.node("MatMul", net.input(2, 5, 5), net.const(5, 5))
    assert declined(net, net.batchnorm(net.node("Transpose", y, perm=perm), 5)) == ["axis"]


def test_down_on_the_contracted_axis() -> None:
    net = Net()
    x = net.batchnorm(net.input(4, 3), 3)
    assert folded(net, net.node("MatMul", x, net.const(3, 5))).ops == ["Gemm"]


def test_down_on_the_right_operand() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 4), 3)
    assert folded(net, net.node("MatMul", net.const(5, 3), x)).ops == ["MatMul", "Add"]


@pytest.mark.parametrize("stack", [(), (2,)])
def test_down_with_a_stack_of_matrices(stack: tuple[int, ...]) -> None:
    net = Net()
    x = net.node("Transpose", net.batchnorm(net.input(2, 3, 4), 3), perm=[0, 2, 1])
    assert folded(net, net.node("MatMul", x, net.const(*stack, 3, 5))).ops == ["Transpose", "MatMul", "Add"]


def test_down_on_an_axis_that_is_not_summed_over() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 5, 5), 5)
    assert declined(net, net.node("MatMul", x, net.const(5, 5))) == ["axis"]


def test_down_with_a_shift_that_has_no_room() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 4), 3)
    both = [net.node("MatMul", net.const(5, 3), x) for _ in range(2)]
    assert declined(net, *both) == ["no-gain"]


def test_two_computed_operands() -> None:
    net = Net()
    y = net.node("MatMul", net.input(2, 5, 3), net.input(2, 3, 4))
    assert declined(net, net.batchnorm(y, 5)) == ["dynamic-weight"]
