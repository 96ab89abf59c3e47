from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bnfold.errors import UpgradeBlocked

Lowered = Callable[..., Any]
Text = Callable[..., str]
LARGE = np.array([2**62 + 1, 2**62 + 3, -(2**62) - 1], np.int64)
"""Numbers that no float64 holds."""


@pytest.mark.parametrize("op_type", ["Max", "Min"])
@pytest.mark.parametrize("target", [11, 9])
@pytest.mark.parametrize("inputs", ["(x)", "(x, z)", "(x, z, z)"])
def test_integers_are_compared_as_such(lowered: Lowered, text: Text, op_type: str, target: int, inputs: str) -> None:
    source = text(13, "int64[3] x, int64[1] z", f"y = {op_type} {inputs}", outputs="int64[] y")
    lowered(source, target, feeds={"x": LARGE, "z": LARGE[:1] + 1})


@pytest.mark.parametrize("target", [11, 9])
@pytest.mark.parametrize("inputs", ["(x)", "(x, l)", "(x, , h)", "(x, l, h)", "(x, h, l)"])
def test_integers_are_clipped(lowered: Lowered, text: Text, target: int, inputs: str) -> None:
    source = text(13, "int64[3] x, int64 l, int64 h", f"y = Clip {inputs}", outputs="int64[] y")
    bounds = {"l": np.array(2**62, np.int64), "h": np.array(2**62 + 2, np.int64)}
    lowered(source, target, feeds={"x": LARGE, **bounds})


@pytest.mark.parametrize("exponent", ["int64 {3}", "int64[2] {2, 0}", "double {0.5}", "int32 {-2}"])
def test_an_exponent_becomes_of_the_type_of_its_base(lowered: Lowered, text: Text, exponent: str) -> None:
    source = text(13, "float[2] x", f"e = Constant <value = {exponent}> () y = Pow (x, e)", outputs="float[2] y")
    assert lowered(source, 11).ops[-1] == "Pow"


@pytest.mark.parametrize(
    ("inputs", "constant"),
    [("float[2] x, int64[2] e", ""), ("float[2] x", "e = Constant <value = int64 {16777217}> ()"),
     ("int64[2] x", "e = Constant <value = float {2}> ()")],
)  # fmt: skip
def test_an_exponent_that_would_not_be_the_same_is_refused(
    lowered: Lowered, text: Text, inputs: str, constant: str
) -> None:
    kind = inputs.split("[", maxsplit=1)[0]
    with pytest.raises(UpgradeBlocked, match="has an exponent"):
        lowered(text(13, inputs, f"{constant} y = Pow (x, e)", outputs=f"{kind}[2] y"), 11)


@pytest.mark.parametrize("kind", ["int64", "int32", "uint32", "uint64"])
def test_the_complement(lowered: Lowered, text: Text, kind: str) -> None:
    source = text(18, f"{kind}[3] x", "y = BitwiseNot (x)", outputs=f"{kind}[3] y")
    lowered(source, 13, feeds={"x": np.array([0, 1, 7], kind)})
