"""Pooling with ceil_mode, whose last windows opset 22 counts otherwise."""

from collections.abc import Callable
from typing import Any

import pytest

from bnfold.errors import UpgradeBlocked

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
    with pytest.raises(UpgradeBlocked, match=reason):
        lowered(text(22, f"float[1, 1, {size}] x", body), 19)


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("attrs", ["kernel_shape = [3], strides = [2]", "kernel_shape = [2]"])
def test_windows_that_come_out_even_have_no_ceil_mode(lowered: Converted, text: Text, op_type: str, attrs: str) -> None:
    lowered(text(11, "float[1, 2, 7] x", f"y = {op_type} <ceil_mode = 1, {attrs}> (x)"), 9)


@pytest.mark.parametrize(
    ("size", "reason"), [("8", "has a window that is cut off"), ("n", "may have a window that is")]
)
def test_windows_that_are_cut_off(lowered: Converted, text: Text, size: str, reason: str) -> None:
    body = "y = MaxPool <ceil_mode = 1, kernel_shape = [3], strides = [2]> (x)"
    with pytest.raises(UpgradeBlocked, match=reason):
        lowered(text(11, f"float[1, 1, {size}] x", body), 9)
