from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("target", [17, 13, 11])
def test_computed_pads_of_some_axes(lowered: Lowered, text: Text, target: int) -> None:
    body = "a = Constant <value = int64[2] {-1, 1}> () y = Pad (x, p, , a)"
    source = text(18, "float[2, 3, 4] x, int64[4] p", body, outputs="float[] y")
    lowered(source, target, feeds={"p": np.array([1, 2, 0, 3], np.int64)})


@pytest.mark.parametrize("target", [17, 13, 11, 10, 9])
@pytest.mark.parametrize("size", [6, 7])
def test_parts_of_an_open_size(lowered: Lowered, text: Text, target: int, size: int) -> None:
    body = "a, b, c = Split <axis = -1, num_outputs = 3> (x)"
    source = text(18, "float[2, n] x", body, outputs="float[2, k] a, float[2, l] b, float[2, m] c")
    lowered(source, target, feeds={"x": np.arange(2 * size, dtype=np.float32).reshape(2, size)})


@pytest.mark.parametrize("target", [12, 11, 10, 9])
def test_computed_lengths(lowered: Lowered, text: Text, target: int) -> None:
    source = text(13, "float[6] x, int64[3] s", "a, b, c = Split (x, s)", outputs="float[k] a, float[l] b, float[m] c")
    lowered(source, target, feeds={"s": np.array([1, 3, 2], np.int64)})


def test_computed_bounds_need_opset_9(lowered: Lowered, text: Text) -> None:
    source = text(18, "float[n] x", "a, b = Split <num_outputs = 2> (x)", outputs="float[k] a, float[l] b")
    with pytest.raises(ConversionBlocked, match="needs Less: version 7 does not take"):
        lowered(source, 8)
