"""The geometry of sliding windows."""

from __future__ import annotations

from typing import Any

import pytest

from bnfold.reference.kernels.window import window
from bnfold.reference.registry import Call, KernelDeclined


def geometry(spatial: tuple[int, ...], kernel: tuple[int, ...], **attrs: Any) -> tuple[Any, Any, Any]:
    win = window(Call("AveragePool", 19, attrs), spatial, kernel)
    return win.begin, win.end, win.size


@pytest.mark.parametrize(
    ("attrs", "begin", "end", "size"),
    [
        ({}, (0, 0), (0, 0), (5, 5)),
        ({"pads": [1, 0, 2, 1]}, (1, 0), (2, 1), (8, 6)),
        ({"strides": [2, 3]}, (0, 0), (0, 0), (3, 2)),
        ({"strides": [3, 2], "ceil_mode": 1}, (0, 0), (0, 0), (3, 3)),
        ({"strides": [2, 3], "auto_pad": "SAME_UPPER"}, (1, 0), (1, 0), (4, 2)),
        ({"strides": [1, 1], "auto_pad": "SAME_LOWER"}, (1, 1), (1, 0), (7, 6)),
        ({"dilations": [2, 3], "auto_pad": "SAME_UPPER"}, (2, 1), (2, 2), (7, 6)),
        ({"auto_pad": "VALID", "pads": [9, 9, 9, 9]}, (0, 0), (0, 0), (5, 5)),
    ],
)
def test_padding_and_size(attrs: dict[str, Any], begin: Any, end: Any, size: Any) -> None:
    assert geometry((7, 6), (3, 2), **attrs) == (begin, end, size)


def test_ceil_mode_never_starts_in_the_end_padding() -> None:
    assert geometry((3,), (3,), strides=[3], pads=[0, 1], ceil_mode=1)[2] == (1,)
    assert geometry((4,), (3,), strides=[3], pads=[0, 1], ceil_mode=1)[2] == (2,)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"pads": [1, 1]}, r"pads \[1, 1\] for 2"),
        ({"pads": [1, 1, -1, 1]}, "pads"),
        ({"strides": [1]}, r"strides \[1\] for 2"),
        ({"strides": [1, 0]}, "strides"),
        ({"dilations": [-1, 1]}, "dilations"),
        ({"dilations": [4, 1]}, "larger than the padded input"),
    ],
)
def test_what_does_not_fit(attrs: dict[str, Any], reason: str) -> None:
    with pytest.raises(KernelDeclined, match=reason):
        geometry((7, 6), (3, 2), **attrs)
