"""What of a part is evaluated: nothing that follows from sizes and is the same in every run."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.verification.subgraphs.sides import sides_of
from bnfold.verification.subgraphs.trials import Skip
from tests.verification.graphs import model

HEAD = "(float[N,2,2] x) => (float[M,1,1] y)"
RANGE = "s = Shape (x)  n = Gather (s, zero)  r = Range (zero, n, one)  a = Reshape (r, long)"
GUARDED = "q = Shape (p)  f = ConstantOfShape <value = int64[1] {1}> (q)  m = Mul (f, minus)  e = Equal (p, m)"
NUMBERS = {
    "zero": np.array(0),
    "one": np.array(1),
    "long": np.array([-1, 1, 1]),
    "minus": np.array(-1),
    "ones": np.ones((1, 1, 1)),
}


def test_a_size_is_never_minus_one_so_what_stands_for_it_is_not_read() -> None:
    """As exporters guard an Expand: of a size that is open, it is known that it is not negative."""
    before = ir.load(
        model(f"{HEAD} {{ {RANGE}  b = Add (a, one)  p = Shape (b)  {GUARDED}  t = Where (e, f, p)"
              "  y = Expand (ones, t) }", NUMBERS)
    )  # fmt: skip
    after = ir.load(model(f"{HEAD} {{ {RANGE}  p = Shape (a)  y = Expand (ones, p) }}", NUMBERS))
    graphs = [{graph.path: graph for graph in each.graphs()} for each in (before, after)]
    sides = sides_of(graphs, ir.Cut("", ("x",), ("y",), "guard"), ())
    assert not isinstance(sides, Skip)
    assert "minus" not in {value.name for value in sides[0].stored}
