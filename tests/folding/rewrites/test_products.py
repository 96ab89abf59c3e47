"""Two products in a row become one where that is exact and not more work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.folding import facts
from tests.folding.nets import Net, declined, folded


def conv(net: Net, x: str, outputs: int, inputs: int, *kernel: int, bias: bool = True, **attributes: Any) -> str:
    weights = [net.const(outputs, inputs, *kernel)] + ([net.const(outputs)] if bias else [])
    return net.node("Conv", x, *weights, **attributes)


@pytest.mark.parametrize("biases", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"kernel": (1, 1)}, {"kernel": (3, 2), "strides": [2, 1], "dilations": [1, 2]}),
        ({"kernel": (3, 2), "strides": [2, 1], "pads": [1, 2, 0, 1], "dilations": [1, 2]}, {"kernel": (1, 1)}),
        ({"kernel": (1, 1)}, {"kernel": (1, 1), "auto_pad": "SAME_UPPER"}),
    ],
)
def test_convs(first: dict[str, Any], second: dict[str, Any], biases: tuple[bool, bool]) -> None:
    net = Net()
    middle = conv(net, net.input(2, 3, 8, 9), 9, 3, *first["kernel"], bias=biases[0], **_rest(first))
    y = net.node("Relu", conv(net, middle, 4, 9, *second["kernel"], bias=biases[1], **_rest(second)))
    assert declined(net, y) == []
    assert folded(net, y, merge_branches=True).ops == ["Conv", "Relu"]


def _rest(about: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if name != "kernel"}


def test_three_in_a_row_with_batchnorms_between() -> None:
    net = Net()
    x = net.input(2, 3, 6, 7)
    for outputs, inputs, size in ((8, 3, 1), (8, 8, 3), (2, 8, 1)):
        x = net.batchnorm(conv(net, x, outputs, inputs, size, size), outputs)
    assert folded(net, x, merge_branches=True).ops == ["Conv"]


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("rows", [[(5,), (4,)], [(), (1, 4)], [(1, 5), None], [None, (1,)], [(1, 1), ()], [None, None]])
def test_gemms(transposed: tuple[int, int], rows: list[tuple[int, ...] | None]) -> None:
    net = Net()
    x = net.input(3, 2)
    for (inputs, outputs), back, c in zip(((3, 5), (5, 4)), transposed, rows, strict=True):
        matrix = net.const(*((outputs, inputs) if back else (inputs, outputs)))
        x = net.node(
            "Gemm", x, matrix, *([] if c is None else [net.const(*c)]),
            transA=int(inputs == 3), transB=back, alpha=0.3, beta=1.7,
        )  # fmt: skip
    y = net.node("Relu", x)
    assert declined(net, y) == []
    assert folded(net, y, merge_branches=True).ops == ["Gemm", "Relu"]


def _grows(net: Net) -> list[str]:
    return [conv(net, conv(net, net.input(2, 9, 6, 7), 2, 9, 1, 1), 9, 2, 3, 3)]


def _pads(net: Net) -> list[str]:
    return [conv(net, conv(net, net.input(2, 3, 6, 7), 9, 3, 1, 1), 4, 9, 3, 3, pads=[1, 1, 1, 1])]


def _neither_is_pointwise(net: Net) -> list[str]:
    return [conv(net, conv(net, net.input(2, 3, 6, 7), 9, 3, 2, 2), 4, 9, 2, 2)]


def _strides_first(net: Net) -> list[str]:
    return [conv(net, conv(net, net.input(2, 3, 6, 7), 9, 3, 1, 1, strides=[2, 2]), 4, 9, 2, 2)]


def _grouped(net: Net) -> list[str]:
    return [conv(net, conv(net, net.input(2, 4, 6, 7), 8, 2, 1, 1, group=2), 4, 8, 1, 1)]


def _grouped_behind(net: Net) -> list[str]:
    return [conv(net, conv(net, net.input(2, 4, 6, 7), 8, 4, 1, 1), 4, 4, 1, 1, group=2)]


def _read_by_others(net: Net) -> list[str]:
    middle = conv(net, net.input(2, 3, 6, 7), 9, 3, 1, 1)
    return [conv(net, middle, 4, 9, 1, 1), net.node("Relu", middle)]


def _is_output(net: Net) -> list[str]:
    middle = conv(net, net.input(2, 3, 6, 7), 9, 3, 1, 1)
    return [conv(net, middle, 4, 9, 1, 1), middle]


def _computed_weight(net: Net) -> list[str]:
    kernel = net.node("Relu", net.input(4, 9, 1, 1))
    return [net.node("Conv", conv(net, net.input(2, 3, 6, 7), 9, 3, 1, 1), kernel)]


def _turned_between(net: Net) -> list[str]:
    return [net.node("Gemm", net.node("Gemm", net.input(3, 3), net.const(3, 3)), net.const(3, 3), transA=1)]


def _as_the_weight(net: Net) -> list[str]:
    return [net.node("Gemm", net.const(3, 3), net.node("Gemm", net.input(3, 3), net.const(3, 3)))]


def _differs_by_row(net: Net) -> list[str]:
    middle = net.node("Gemm", net.input(5, 3), net.const(3, 5), net.const(5, 1))
    return [net.node("Gemm", middle, net.const(5, 2))]


def _has_no_channels(net: Net) -> list[str]:
    middle = net.node("Conv", net.input(2, 3, 6, 7), net.const(0, 3, 1, 1), net.const(value=np.zeros(0)))
    return [net.node("Conv", middle, net.const(4, 0, 1, 1))]


def _has_no_rows(net: Net) -> list[str]:
    middle = net.node("Gemm", net.input(0, 3), net.const(3, 5), net.const(value=np.zeros((0, 1))))
    return [net.node("Gemm", middle, net.const(5, 2))]


@pytest.mark.parametrize(
    "build",
    [
        _grows, _pads, _neither_is_pointwise, _strides_first, _grouped, _grouped_behind, _read_by_others, _is_output,
        _computed_weight, _turned_between, _as_the_weight, _differs_by_row, _has_no_rows,
        _has_no_channels,
    ],
)  # fmt: skip
def test_what_stays(build: Callable[[Net], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MISFIT", ())
    net = Net()
    assert declined(net, *build(net), merge_branches=True) == []


def test_a_product_that_overflows_in_float16_stays() -> None:
    net = Net(dtype=np.float16)
    x = net.input(1, 2, 3, 3)
    for _ in range(2):
        x = net.node("Conv", x, net.const(value=np.full((2, 2, 1, 1), 300.0)))
    assert declined(net, x, merge_branches=True) == []


def test_float32() -> None:
    net = Net(dtype=np.float32)
    y = conv(net, conv(net, net.input(2, 30, 6, 7), 40, 30, 1, 1), 20, 40, 3, 3)
    assert folded(net, y, merge_branches=True, tolerance=2e-6).ops == ["Conv"]
