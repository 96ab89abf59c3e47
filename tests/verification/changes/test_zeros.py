"""What is added in front of a pole decides about zeros alone: of one sign, 1 / x is another number."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import Code, Verdict, verify
from bnfold.verification.changes.zeros import with_zeros
from tests.verification.graphs import Depth, model

WEIGHTS = {"zero": np.array(0.0), "one": np.array(1.0)}
DEPTHS: list[Depth] = ["auto", "full", "local"]


def compared(before: str, after: str, depth: Depth, samples: int = 1) -> Verdict:
    head = "(float[N,4] x) => (float[N,4] y)"
    old, new = (ir.load(model(f"{head} {{ {text} }}", WEIGHTS)) for text in (before, after))
    return verify(old, new, depth=depth, runtime="none", samples=samples)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "pole",
    [
        "y = Reciprocal (s)",
        "y = Div (one, s)",
        "q = Div (one, s)  y = Atan (q)",
        "q = Reciprocal (s)  y = Sign (q)",
        "q = Sqrt (s)  y = Reciprocal (q)",  # the part ends in front of the pole
        "q = Identity (s)  y = Reciprocal (q)",
        "q = Neg (s)  y = Reciprocal (q)",
        "q = Mul (one, s)  p = Transpose (q)  r = Transpose (p)  y = Div (one, r)",
    ],
)
def test_an_addition_of_zero_in_front_of_a_pole_has_an_effect(pole: str, depth: Depth) -> None:
    added, left_out = f"s = Add (x, zero)  {pole}", pole.replace("s)", "x)")
    for before, after in ((added, left_out), (left_out, added)):
        verdict = compared(before, after, depth)
        assert (verdict.status, verdict.code) == ("failed", Code.ZERO_SIGN)
        assert "a zero of the other sign" in verdict.reason
    assert compared(added, added.replace("s =", "other =").replace("s)", "other)"), depth).verified


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("rest", ["y = Exp (s)", "q = Exp (s)  y = Reciprocal (q)", "q = Abs (s)  y = Reciprocal (q)"])
def test_it_has_none_where_no_pole_shows_it(rest: str, depth: Depth) -> None:
    assert compared(f"s = Add (x, zero)  {rest}", rest.replace("(s)", "(x)"), depth).verified


@pytest.mark.parametrize("depth", DEPTHS)
def test_which_zero_is_the_larger_one_is_left_open(depth: Depth) -> None:
    assert (
        compared("s = Relu (x)  y = Reciprocal (s)", "s = Max (zero, x)  y = Reciprocal (s)", depth).status != "failed"
    )


@pytest.mark.parametrize("samples", [1, 8])
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_zero_that_only_some_runtimes_make_leaves_a_doubt(depth: Depth, samples: int) -> None:
    """The Relu of -0.0 is 0.0 in float64 here, and -0.0 in onnxruntime, of which a pole makes another number."""
    added = "r = Relu (x)  s = Add (r, zero)  q = Reciprocal (s)  y = Sign (q)"
    left_out = "r = Relu (x)  q = Reciprocal (r)  y = Sign (q)"
    assert compared(added, left_out, depth, samples=samples).status == "unverified"


def test_zeros_are_at_the_same_places() -> None:
    feeds = {"x": np.arange(1.0, 10.0), "n": np.arange(3), "e": np.zeros(0)}
    above, below = (with_zeros(feeds, feeds, zero) for zero in (0.0, -0.0))
    places = above["x"] == 0
    assert places.sum() == 3
    assert np.signbit(below["x"][places]).all()
    assert not np.signbit(above["x"]).any()
    assert (above["x"] == below["x"]).all()
    assert above["n"] is feeds["n"]
    assert above["e"].shape == (0,)


@pytest.mark.parametrize("ends", [("Exp", "Reciprocal"), ("Reciprocal", "Exp")])
def test_an_equal_part_without_a_pole_behind_it_says_nothing_of_zeros(ends: tuple[str, str]) -> None:
    """What is behind a part decides; that of an equal part may be something else."""
    body = """(float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,4] w)
        {{ {} q = Neg ({})  y = {} (q)  {} p = Neg ({})  w = {} (p) }}"""
    before = model(body.format("s = Add (x, zero)", "s", ends[0], "t = Add (z, zero)", "t", ends[1]), WEIGHTS)
    after = model(body.format("", "x", ends[0], "", "z", ends[1]), {})
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert (verdict.status, verdict.code) == ("failed", Code.ZERO_SIGN)
