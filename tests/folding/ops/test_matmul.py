"""MatMul, FusedMatMul and Einsum: the constant operand on either side, stacks of matrices, where the shift goes."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from tests.folding.nets import Net, declined, fold_only, folded


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


def fused(net: Net, *operands: str, **attributes: Any) -> str:
    return net.node("FusedMatMul", *operands, domain="com.microsoft", **attributes)


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("stack", [(), (2,)])
def test_up_into_a_fused_matmul(trans: int, stack: tuple[int, ...]) -> None:
    net = Net()
    matrix = net.const(*stack, *((5, 3) if trans else (3, 5)))
    y = fused(net, net.input(2, 3, 7), matrix, transA=1, transB=trans, alpha=0.3)
    result = folded(net, net.batchnorm(net.node("Transpose", y, perm=[0, 2, 1]), 5))
    assert result.ops == ["FusedMatMul", "Add", "Transpose"]


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("on_left", [True, False])
def test_down_into_a_fused_matmul(trans: int, on_left: bool) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 3, 4), 3)
    if on_left:
        y = fused(net, net.const(*((3, 5) if trans else (5, 3))), x, transA=trans, alpha=-2.0)
    else:
        y = fused(net, x, net.const(*((5, 3) if trans else (3, 5))), transA=1, transB=trans, alpha=-2.0)
    assert folded(net, net.node("Relu", y)).ops == ["FusedMatMul", "Add", "Relu"]


def test_a_fused_matmul_of_matrices_leaves_an_add() -> None:
    net = Net()
    y = fused(net, net.input(4, 3), net.const(3, 5), alpha=0.5)
    assert folded(net, net.batchnorm(y, 5)).ops == ["FusedMatMul", "Add"]


@pytest.mark.parametrize("attributes", [{}, {"transA": 0, "transB": 1}])
def test_axes_of_a_fused_matmul_that_are_not_those_of_the_constant(attributes: dict[str, int]) -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 5, 5), 5)
    assert declined(net, fused(net, x, net.const(5, 5), **attributes)) == ["axis"]


def test_a_fused_matmul_that_turns_stacks() -> None:
    net = Net()
    net.batchnorm(net.input(2, 3, 3), 3)
    y = net.node("FusedMatMul", net.nodes[-1].output[0], net.const(3, 5), domain="com.microsoft", transBatchA=1)
    result = fold_only(with_output(net, y, 3, 2, 5))
    assert result.ops == ["BatchNormalization", "FusedMatMul"]
    assert result.reasons == ["axis"]


def with_output(net: Net, y: str, *shape: int) -> onnx.ModelProto:
    """What cannot be evaluated has to be told its shape."""
    model = net.model()
    model.graph.output.append(onnx.helper.make_tensor_value_info(y, onnx.TensorProto.DOUBLE, shape))
    return model


def test_an_operator_of_another_domain_is_none() -> None:
    net = Net()
    y = net.node("FusedMatMul", net.batchnorm(net.input(4, 3), 3), net.const(3, 5), domain="com.example")
    assert fold_only(with_output(net, y, 4, 5)).reasons == ["no-handler"]


UP = {
    "bk,kn->bn": ((4, 3), (3, 5), 1),
    "bik,kc->bci": ((2, 4, 3), (3, 5), 1),
    "kc, bki -> bci": ((3, 5), (2, 3, 4), 0),
    "bik,ikc->bci": ((2, 4, 3), (4, 3, 5), 1),
    "bci,ci->bci": ((2, 5, 4), (5, 4), 1),
    "bi,ic->bc": ((4, 3), (3, 5), 1),
    "bi,cn->bcin": ((2, 3), (5, 4), 1),
    "bi,c->bci": ((2, 3), (5,), 1),
    "bci,c->bci": ((2, 5, 3), (5,), 1),
}


@pytest.mark.parametrize("equation", UP)
def test_up_into_an_einsum(equation: str) -> None:
    net = Net()
    *shapes, slot = UP[equation]
    operands = [net.const(*shape) if index == slot else net.input(*shape) for index, shape in enumerate(shapes)]
    y = net.batchnorm(net.node("Einsum", *operands, equation=equation), 5)
    assert folded(net, y).ops == ["Einsum", "Add"]


DOWN = {
    "bc,cn->bn": ((4, 5), (5, 3), 1, True),
    "bci,nc->bin": ((2, 5, 4), (3, 5), 1, True),
    "cni,bci->bn": ((5, 3, 4), (2, 5, 4), 0, True),
    "bci,ci->bci": ((2, 5, 4), (5, 4), 1, True),
    "c,bci->bi": ((5,), (2, 5, 4), 0, True),
    "bci,kcn->bin": ((2, 5, 4), (7, 5, 3), 1, True),
    "bci,cn->bn": ((2, 5, 4), (5, 3), 1, False),
    "bci,in->bcn": ((2, 5, 4), (4, 3), 1, False),
    "bcc,cn->bn": ((2, 5, 5), (5, 3), 1, False),
}


@pytest.mark.parametrize("equation", DOWN)
def test_down_into_an_einsum(equation: str) -> None:
    net = Net()
    *shapes, slot, folds = DOWN[equation]
    operands = [
        net.const(*shape) if index == slot else net.batchnorm(net.input(*shape), 5)
        for index, shape in enumerate(shapes)
    ]
    y = net.node("Relu", net.node("Einsum", *operands, equation=equation))
    assert folded(net, y).ops == (["Einsum", "Add", "Relu"] if folds else ["BatchNormalization", "Einsum", "Relu"])


def test_a_scale_alone_passes_what_is_summed_alone() -> None:
    net = Net()
    x = net.batchnorm(net.input(2, 5, 4), 5, shift=[0] * 5)
    assert folded(net, net.node("Einsum", x, net.const(5, 3), equation="bci,cn->bn")).ops == ["Einsum"]


def test_an_einsum_whose_constant_is_broadcast() -> None:
    """The constant's axis of size 1 stands for all channels: a sum of their shifts."""
    net = Net()
    x = net.batchnorm(net.input(2, 5, 4), 5)
    assert declined(net, net.node("Einsum", x, net.const(1, 3), equation="bci,cn->bin")) == ["axis"]
    net = Net()
    x = net.node("Add", net.input(2, 5, 4), net.const(value=1.5))
    result = folded(net, net.node("Einsum", x, net.const(1, 3), equation="bci,cn->bin"), all_affines=True)
    assert result.ops == ["Add", "Einsum"]


def test_an_einsum_of_one_operand_turns_its_axes() -> None:
    net = Net()
    x = net.node("Conv", net.input(2, 3, 4, 6), net.const(5, 3, 1, 1))
    y = net.node("Einsum", net.node("Einsum", x, equation="bchw->hcwb"), equation="dcab -> bcda")
    assert folded(net, net.batchnorm(y, 5)).ops == ["Conv", "Einsum", "Einsum"]
    net = Net()
    x = net.node("Einsum", net.batchnorm(net.input(2, 3, 4, 6), 3), equation="bchw->bhcw")
    y = net.node("Conv", net.node("Einsum", x, equation="bhcw->bchw"), net.const(5, 3, 1, 1))
    assert folded(net, y).ops == ["Einsum", "Einsum", "Conv"]


@pytest.mark.parametrize("equation", ["bchw->bc", "bcii->bci", "...c->...c", "bchw", "b...->b..."])
def test_an_einsum_of_one_operand_that_is_no_turn(equation: str) -> None:
    net = Net()
    x = net.node("Conv", net.input(2, 3, 5, 5), net.const(5, 3, 1, 1))
    y = net.batchnorm(net.node("Einsum", x, equation=equation), 5)
    assert declined(net, y) == ["axis" if equation == "bchw->bc" else "no-handler"]


def test_a_fused_matmul_behind_what_has_to_be_inferred() -> None:
    net = Net()
    y = fused(net, net.node("Softmax", net.input(4, 3)), net.const(3, 5), alpha=0.5)
    assert folded(net, net.batchnorm(y, 5)).ops == ["Softmax", "FusedMatMul", "Add"]
