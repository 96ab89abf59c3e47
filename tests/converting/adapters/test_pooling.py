"""Pooling with ceil_mode, whose last windows opset 22 counts otherwise."""

from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import ConversionBlocked

Converted = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize(
    "attrs",
    [
        "kernel_shape = [3], strides = [2]",
        "kernel_shape = [3], strides = [2], pads = [1, 1]",
        "kernel_shape = [2], strides = [2]",
        "kernel_shape = [1], strides = [3]",
        "kernel_shape = [3], dilations = [2], strides = [3]",
        'kernel_shape = [3], auto_pad = "SAME_UPPER"',
    ],
)
def test_windows_that_begin_in_the_input(lowered: Converted, text: Text, op_type: str, attrs: str) -> None:
    assert lowered(text(22, "float[1, 2, 7] x", f"y = {op_type} <ceil_mode = 1, {attrs}> (x)"), 19).ops == [op_type]


@pytest.mark.parametrize(
    ("size", "reason"), [("2", "has a window less along axis 2"), ("n", "may have a window in the padding of axis 2")]
)
def test_windows_that_begin_behind_it(lowered: Converted, text: Text, size: str, reason: str) -> None:
    body = "y = MaxPool <ceil_mode = 1, kernel_shape = [1], strides = [2]> (x)"
    with pytest.raises(ConversionBlocked, match=reason):
        lowered(text(22, f"float[1, 1, {size}] x", body), 19)


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("attrs", ["kernel_shape = [3], strides = [2]", "kernel_shape = [2]"])
def test_windows_that_come_out_even_have_no_ceil_mode(lowered: Converted, text: Text, op_type: str, attrs: str) -> None:
    lowered(text(11, "float[1, 2, 7] x", f"y = {op_type} <ceil_mode = 1, {attrs}> (x)"), 9)


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize(
    ("attrs", "pads"),
    [
        ("kernel_shape = [3, 3], strides = [2, 2]", [0, 0, 1, 0]),
        ("kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 0, 1]", [1, 0, 0, 1]),
        ("kernel_shape = [4, 4], strides = [3, 2], pads = [0, 1, 1, 0]", [0, 1, 2, 0]),
    ],
)
def test_windows_that_are_cut_off_get_padding(
    lowered: Converted, text: Text, op_type: str, attrs: str, pads: list[int]
) -> None:
    body = f"y = {op_type} <ceil_mode = 1, {attrs}> (x)"
    made = lowered(text(11, "float[2, 2, 8, 7] x", body), 9).model.graph.nodes[0]
    assert made.attr("pads") == pads


@pytest.mark.parametrize(
    ("size", "attrs", "reason"),
    [
        (
            "8",
            "AveragePool <kernel_shape = [3], strides = [2], count_include_pad = 1, ",
            "has a window that is cut off",
        ),
        ("7", "MaxPool <kernel_shape = [1], strides = [4], ", "has a window that is cut off"),
        ("8", 'MaxPool <kernel_shape = [3], strides = [2], auto_pad = "SAME_UPPER", ', "may have a window that is"),
        ("n", "MaxPool <kernel_shape = [3], strides = [2], ", "may have a window that is"),
    ],
)
def test_windows_that_may_not_get_padding(lowered: Converted, text: Text, size: str, attrs: str, reason: str) -> None:
    with pytest.raises(ConversionBlocked, match=reason):
        lowered(text(11, f"float[1, 1, {size}] x", f"y = {attrs}ceil_mode = 1> (x)"), 9)


@pytest.mark.parametrize(
    "attrs",
    [
        "kernel_shape = [2, 3], dilations = [2, 1]",
        "kernel_shape = [2, 2], dilations = [2, 3], strides = [2, 1], pads = [1, 0, 1, 1]",
        "kernel_shape = [2, 3], dilations = [3, 2], strides = [3, 2], pads = [1, 1, 0, 2], count_include_pad = 1",
        "kernel_shape = [2, 2], dilations = [2, 2], strides = [3, 3], ceil_mode = 1",
        "kernel_shape = [3, 2], dilations = [2, 2], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1",
        "kernel_shape=[3, 2], dilations=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1",
        "kernel_shape = [2, 2], dilations = [1, 1]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", [18, 11, 7])
def test_averages_with_dilations(lowered: Converted, text: Text, attrs: str, target: int) -> None:
    lowered(text(19, "float[2, 3, 9, 8] x", f"y = AveragePool <{attrs}> (x)"), target)


def test_averages_of_open_sizes(lowered: Converted, text: Text) -> None:
    body = "y = AveragePool <kernel_shape = [2, 3], dilations = [2, 1]> (x)"
    lowered(text(22, "float[n, 3, h, w] x", body), 11)


@pytest.mark.parametrize(
    ("shape", "attrs", "why"),
    [
        ("1, c, 9", "", "channels that are not known"),
        ("1, 2, n", ", pads = [1, 1]", "windows that depend on sizes"),
        ("1, 2, n", ", strides = [2], ceil_mode = 1", "windows that depend on sizes"),
        ("1, 2, 9", ', auto_pad = "SAME_UPPER"', "pads that follow from sizes"),
        ("1, 2, 3", ", pads = [4, 4]", "nothing but padding"),
        ("1, 2, 4", ", pads = [0, 3], strides = [5], ceil_mode = 1", "a window that begins in the padding"),
    ],
)
def test_averages_that_cannot_be_composed(upgraded: Converted, text: Text, shape: str, attrs: str, why: str) -> None:
    source = text(19, f"float[{shape}] x", f"y = AveragePool <kernel_shape = [2], dilations = [2]{attrs}> (x)")
    with pytest.raises(ConversionBlocked, match=why):
        upgraded(source, 18, compare=False)


@pytest.mark.parametrize("target", [17, 11])
@pytest.mark.parametrize("attrs", ["", ", dilations = [1, 1]", ", dilations = [1, 1], ceil_mode = 0"])
def test_norms_with_dilations_of_1(lowered: Converted, text: Text, target: int, attrs: str) -> None:
    body = f"y = LpPool <kernel_shape = [2, 3], pads = [1, 0, 0, 1]{attrs}> (x)"
    assert lowered(text(22, "float[2, 3, 9, n] x", body), target).ops == ["LpPool"]


@pytest.mark.parametrize(("attrs", "name"), [("dilations = [1, 2]", "dilations"), ("ceil_mode = 1", "ceil_mode")])
def test_norms_that_version_11_does_not_know(upgraded: Converted, text: Text, attrs: str, name: str) -> None:
    source = text(18, "float[1, 2, 9, 9] x", f"y = LpPool <kernel_shape = [2, 2], strides = [2, 2], {attrs}> (x)")
    with pytest.raises(ConversionBlocked, match=f"attribute {name} is newer"):
        upgraded(source, 17, compare=False)
