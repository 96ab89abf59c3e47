"""Gemm with every transposition, factor and shape of C."""

from __future__ import annotations

from typing import Any

import pytest

from tests.folding.nets import Net, declined, folded

C_SHAPES: dict[str, tuple[int, ...] | None] = {
    "absent": None, "scalar": (), "1": (1,), "N": (5,), "1xN": (1, 5), "Mx1": (4, 1), "MxN": (4, 5),
}  # fmt: skip


def gemm(net: Net, x: str, c: tuple[int, ...] | None, columns: int = 5, inner: int = 3, **attributes: Any) -> str:
    b = net.const(*((columns, inner) if attributes.get("transB") else (inner, columns)))
    return net.node("Gemm", x, b, *([] if c is None else [net.const(*c)]), **attributes)


@pytest.mark.parametrize("c", C_SHAPES)
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_up(c: str, trans_a: int, trans_b: int) -> None:
    net = Net()
    x = net.input(*((3, 4) if trans_a else (4, 3)))
    y = gemm(net, x, C_SHAPES[c], transA=trans_a, transB=trans_b, alpha=0.5, beta=3.0)
    result = folded(net, net.batchnorm(y, 5))
    assert result.ops == ["Gemm"]
    assert result.node("Gemm").attr("alpha") == 0.5


@pytest.mark.parametrize("c", C_SHAPES)
@pytest.mark.parametrize("trans_b", [0, 1])
def test_down(c: str, trans_b: int) -> None:
    net = Net()
    x = net.batchnorm(net.input(4, 3), 3)
    assert folded(net, gemm(net, x, C_SHAPES[c], transB=trans_b, alpha=0.5, beta=3.0)).ops == ["Gemm"]


def test_an_omitted_c_between_commas() -> None:
    net = Net()
    y = net.node("Gemm", net.input(4, 3), net.const(3, 5), "")
    assert folded(net, net.batchnorm(y, 5)).ops == ["Gemm"]


def test_a_scale_alone_needs_no_c() -> None:
    net = Net()
    result = folded(net, net.batchnorm(gemm(net, net.input(4, 3), None), 5, shift=[0] * 5))
    assert len(result.node("Gemm").inputs) == 2


def test_an_unknown_number_of_rows() -> None:
    net = Net()
    y = gemm(net, net.input(4, 3, declared=("N", 3)), (4, 1))
    assert folded(net, net.batchnorm(y, 5)).ops == ["Gemm"]


def test_down_on_a_transposed_operand() -> None:
    net = Net()
    x = net.batchnorm(net.input(3, 4), 4)
    assert declined(net, net.node("Gemm", x, net.const(3, 5), transA=1)) == ["axis"]


def test_down_on_c() -> None:
    net = Net()
    x = net.batchnorm(net.input(4, 5), 5)
    assert declined(net, net.node("Gemm", net.input(4, 3), net.const(3, 5), x)) == ["no-handler"]


@pytest.mark.parametrize("slot", [1, 2])
def test_weights_computed_at_run_time(slot: int) -> None:
    net = Net()
    operands = [net.input(4, 3), net.const(3, 5), net.const(5)]
    operands[slot] = net.input(*((3, 5) if slot == 1 else (5,)))
    assert declined(net, net.batchnorm(net.node("Gemm", *operands), 5)) == ["dynamic-weight"]


def test_rows_are_not_columns_although_their_numbers_coincide() -> None:
    net = Net()
    turned = net.node("Transpose", gemm(net, net.input(5, 3), None), perm=[1, 0])
    assert declined(net, net.batchnorm(turned, 5)) == ["axis"]


def test_c_as_opset_six_broadcasts_it() -> None:
    net = Net(opset=6)
    y = net.node("Gemm", net.input(4, 3), net.const(3, 5), net.const(4, 5))
    assert declined(net, net.batchnorm(y, 5, is_test=1)) == ["legacy-broadcast"]
    net = Net(opset=6)
    y = net.node("Gemm", net.input(4, 3), net.const(3, 5), net.const(5), broadcast=1)
    assert folded(net, net.batchnorm(y, 5, is_test=1)).ops == ["Gemm"]
