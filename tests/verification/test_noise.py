"""Models that draw random numbers: both are given the same ones, and what is made of them is compared."""

from __future__ import annotations

import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.verdict import Verdict
from tests.verification.graphs import Depth, model

DROP = "h = Constant <value_float = {}> ()  t = Constant <value = bool {{1}}> ()  d = Dropout (x, h, t)  "
HEAD = "(float[4,8] x) => (float[4,8] y)"


def compared(nodes: str, other: str, depth: Depth = "full") -> Verdict:
    before, after = (ir.load(model(f"{HEAD} {{ {body} }}", {}, opset=15)) for body in (nodes, other))
    return verify(before, after, depth=depth)


@pytest.mark.parametrize(
    ("nodes", "right", "wrong"),
    [
        (
            "r = RandomNormalLike <mean = 1.0> (x)  y = Add (x, r)",
            "r = RandomNormalLike <mean = 1.0, scale = 1.0> (x)  y = Add (r, x)",
            "r = RandomNormalLike (x)  y = Add (x, r)",
        ),
        (
            "r = RandomUniform <shape = [4, 8], seed = 3.0> ()  y = Add (x, r)",
            "r = RandomUniform <shape = [4, 8], seed = 3.0> ()  y = Add (x, r)",
            "r = RandomUniform <shape = [4, 8], seed = 4.0> ()  y = Add (x, r)",
        ),
        (
            "p = Sigmoid (x)  r = Bernoulli (p)  y = Mul (x, r)",
            "p = Sigmoid (x)  r = Bernoulli <dtype = 1> (p)  y = Mul (r, x)",
            "n = Neg (x)  p = Sigmoid (n)  r = Bernoulli (p)  y = Mul (x, r)",
        ),
        (
            "i = Multinomial <sample_size = 8> (x)  y = Cast <to = 1> (i)",
            "i = Multinomial <sample_size = 8, dtype = 6> (x)  y = Cast <to = 1> (i)",
            "n = Neg (x)  i = Multinomial <sample_size = 8> (n)  y = Cast <to = 1> (i)",
        ),
        (
            DROP.format(0.5) + "y = Relu (d)",
            DROP.format(0.5) + "z = Constant <value_float = 0.0> ()  y = Max (d, z)",
            DROP.format(0.4) + "y = Relu (d)",
        ),
    ],
)
def test_what_is_made_of_random_numbers_is_compared(nodes: str, right: str, wrong: str) -> None:
    good = compared(nodes, right)
    assert good.verified, good.reason
    bad = compared(nodes, wrong)
    assert bad.status == "failed", bad.reason


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
def test_whose_numbers_they_are_is_told_by_names(depth: Depth) -> None:
    """Two draws under other names may be each other; that is no fault, and no proof."""
    nodes, other = ("r = RandomNormalLike (x)  y = Add (x, r)", "q = RandomNormalLike (x)  y = Add (x, q)")
    verdict = compared(nodes, other, depth)
    assert verdict.status == "unverified"
    assert "it draws random numbers of its own, 'q'" in verdict.reason
