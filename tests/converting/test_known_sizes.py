from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import UpgradeBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]

HALF = (
    "s = Shape (x) one = Constant <value = int64[1] {1}> () two = Constant <value = int64[1] {2}> () "
    "zero = Constant <value = int64[1] {0}> () c = Gather <axis = 0> (s, one) h = Div (c, two)"
)


def test_bounds_that_follow_from_sizes_become_attributes(lowered: Lowered, text: Text) -> None:
    source = text(17, "float[n, 6] x", f"{HALF} y = Slice (x, zero, h, one)", outputs="float[n, m] y")
    outcome = lowered(source, 9)
    assert outcome.ops == ["Slice"]
    assert outcome.model.graph.nodes[0].attr("ends") == [3]


def test_bounds_that_follow_from_open_sizes(lowered: Lowered, text: Text) -> None:
    source = text(17, "float[6, n] x", f"{HALF} y = Slice (x, zero, h, one)", outputs="float[m, k] y")
    assert "NonZero" in lowered(source, 9).ops
    with pytest.raises(UpgradeBlocked, match=r"its ends \('h'\) is not constant"):
        lowered(source, 8)


def test_sizes_do_not_stand_for_a_shape_that_callers_replace(lowered: Lowered, text: Text) -> None:
    head = text(17, "float[n, 6] x, int64[1] e", "", outputs="float[n, m] y").removesuffix("{  }")
    source = f"{head} <int64[1] e = {{3}}> {{ z = Constant <value = int64[1] {{0}}> () y = Slice (x, z, e, z) }}"
    outcome = lowered(source, 9, feeds={"e": np.array([2], np.int64)})
    assert outcome.results["y"].shape[0] == 2
