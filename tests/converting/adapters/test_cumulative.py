from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import ConversionBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


@pytest.mark.parametrize("how", ["", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"])
@pytest.mark.parametrize(("shape", "axis"), [("5", 0), ("1", 0), ("3, 8, 2", 1), ("3, 7, 2", -2), ("n, 4", 1)])
@pytest.mark.parametrize("target", [10, 9, 8])
def test_sums_along_an_axis(lowered: Lowered, text: Text, how: str, shape: str, axis: int, target: int) -> None:
    body = f"a = Constant <value = int64 {{{axis}}}> () y = CumSum {how} (x, a)"
    assert "CumSum" not in lowered(text(14, f"float[{shape}] x", body), target).ops


@pytest.mark.parametrize("dtype", ["int32", "int64", "double"])
def test_of_every_type(lowered: Lowered, text: Text, dtype: str) -> None:
    body = "a = Constant <value = int64 {1}> () y = CumSum <exclusive = 1> (x, a)"
    lowered(text(11, f"{dtype}[2, 6] x", body, outputs=f"{dtype}[] y"), 9)


def test_what_is_infinite_stays_behind_its_place(lowered: Lowered, text: Text) -> None:
    body = "a = Constant <value = int64 {0}> () y = CumSum (x, a)"
    numbers = np.array([1, 2, np.inf, 4, -np.inf, 6], np.float32)
    lowered(text(11, "float[6] x", body), 9, feeds={"x": numbers})


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_an_axis_that_a_caller_gives(lowered: Lowered, text: Text, axis: int, dtype: str) -> None:
    source = text(14, f"float[2, 5, 3] x, {dtype} a", "y = CumSum <reverse = 1> (x, a)")
    lowered(source, 9, feeds={"a": np.array(axis, dtype)})


@pytest.mark.parametrize(
    ("inputs", "how", "target", "why"),
    [
        ("float[2, n] x", "", 9, "along an axis of unknown size"),
        ("float[2, 3] x, int64 b", "", 8, "needs Less: version 7 does not take"),
    ],
)
def test_is_refused(lowered: Lowered, text: Text, inputs: str, how: str, target: int, why: str) -> None:
    axis = "b" if "int64" in inputs else "a"
    body = f"a = Constant <value = int64 {{1}}> () y = CumSum {how} (x, {axis})"
    with pytest.raises(ConversionBlocked, match=why):
        lowered(text(11, inputs, body), target)
