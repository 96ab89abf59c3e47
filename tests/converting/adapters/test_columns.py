from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


def _body(image: str, block: str, how: str) -> str:
    stored = (f"{name} = Constant <value_ints = [{sizes}]> ()" for name, sizes in (("i", image), ("b", block)))
    return f"{' '.join(stored)} y = Col2Im {how} (x, i, b)"


@pytest.mark.parametrize(
    ("shape", "image", "block", "how"),
    [
        ("2, 8, 6", "4, 3", "2, 2", ""),
        ("n, 6, 4", "4, 6", "2, 3", "<strides = [2, 3]>"),
        ("1, 4, 20", "4, 5", "2, 2", "<pads = [1, 0, 0, 1]>"),
        ("2, 12, 3", "5, 4", "2, 2", "<dilations = [2, 2], strides = [1, 2]>"),
        ("1, 4, 9", "7, 7", "2, 2", "<strides = [3, 3], pads = [1, 1, 1, 1]>"),
        ("1, 6, 4", "9", "3", "<strides = [2]>"),
        ("1, 16, 2", "2, 2, 3", "2, 2, 2", ""),
    ],
)
@pytest.mark.parametrize("target", [17, 13, 9])
def test_blocks_fall_on_an_image(
    lowered: Lowered, text: Text, shape: str, image: str, block: str, how: str, target: int
) -> None:
    assert "Col2Im" not in lowered(text(18, f"float[{shape}] x", _body(image, block, how)), target).ops


def test_infinities_stay_where_they_fall(lowered: Lowered, text: Text) -> None:
    numbers = np.full((1, 4, 4), np.inf, np.float32)
    numbers[0, 1:, :] = 1
    lowered(text(18, "float[1, 4, 4] x", _body("3, 3", "2, 2", "")), 13, feeds={"x": numbers})


@pytest.mark.parametrize(
    ("inputs", "body", "why"),
    [
        ("float[1, c, 4] x", _body("3, 3", "2, 2", ""), "channels that are not known"),
        ("float[1, 5, 4] x", _body("3, 3", "2, 2", ""), "has blocks of"),
        ("float[1, 4, 4] x, int64[2] i, int64[2] b", "y = Col2Im (x, i, b)", "its image_shape .* is not constant"),
    ],
)
def test_is_refused(upgraded: Lowered, text: Text, inputs: str, body: str, why: str) -> None:
    with pytest.raises(ConversionBlocked, match=why):
        upgraded(text(18, inputs, body), 17, compare=False)
