"""What of a part is evaluated: nothing that follows from sizes and is the same in every run."""

from __future__ import annotations

import numpy as np

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.subgraphs.sides import from_measured, sides_of
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
    assert "minus" not in {value.name for value in sides[0].stored}


def test_what_a_part_measures_alone_is_a_boundary() -> None:
    """The part of a rewrite between ``m`` and ``y`` reads the size of ``c``: how ``c`` is computed does not matter."""
    head = "(float[N,2,4] x, float[N,8] w) => (float[A,B] y)"
    far = "a = Exp (x)  c = Relu (a)  m = Neg (w)"
    near = "s = Shape (c)  n = Gather (s, zero)  l = Concat <axis = 0> (n, eight)  r = Reshape (m, l)  y = Abs (r)"
    weights = {"zero": np.array([0]), "eight": np.array([8]), "l2": np.array([0, 8])}
    before = ir.load(model(f"{head} {{ {far}  {near} }}", weights))
    after = ir.load(model(f"{head} {{ {far}  r = Reshape (m, l2)  y = Abs (r) }}", weights))
    graphs = [{graph.path: graph for graph in each.graphs()} for each in (before, after)]
    cut = from_measured(graphs, ir.Cut("", ("m",), ("y",), "rewrite"))
    assert cut.inputs == ("m", "c")
    inside = from_measured(graphs, ir.Cut("", ("x", "w"), ("y",), "rewrite"))
    assert inside.inputs == ("x", "w"), "what is computed inside follows from the boundary"
    assert verify(before, after, depth="local", cuts=[ir.Cut("", ("m",), ("y",), "rewrite")]).verified
