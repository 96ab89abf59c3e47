"""If below opset 11: branches of one shape, or a reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import UpgradeBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]


def branching(text: Text, then: str, other: str) -> str:
    """Return a model that returns the shape of what one of two branches makes."""
    body = f"c = Cast <to = 9> (b) v = If (c) <then_branch = t () => (float[] p) {{ p = {then} }}, "
    body += f"else_branch = e () => (float[] q) {{ q = {other} }}> y = Shape (v)"
    return text(11, "float[1, 3, 1, n] x, int64 b", body, outputs="int64[] y")


@pytest.mark.parametrize("b", [0, 1])
@pytest.mark.parametrize(
    ("then", "other", "differ"),
    [
        ("Relu (x)", "Abs (x)", False),
        ("Squeeze <axes = [0]> (x)", "Squeeze <axes = [0]> (x)", False),
        ("Squeeze <axes = [0]> (x)", "Identity (x)", True),
        ("Concat <axis = 1> (x, x)", "Identity (x)", True),
        ("Squeeze (x)", "Identity (x)", True),
    ],
)
def test_branches(
    lowered: Lowered, upgraded: Lowered, text: Text, then: str, other: str, b: int, *, differ: bool
) -> None:
    source = branching(text, then, other)
    feeds = {"x": np.ones((1, 3, 1, 2), np.float32), "b": np.array(b, np.int64)}
    if not differ:
        assert lowered(source, 10, feeds=feeds).ops == ["Cast", "If", "Shape"]
        return
    with pytest.raises(UpgradeBlocked, match=r"its branches may make different shapes \('p' and 'q'\)"):
        upgraded(source, 10, compare=False)
