"""Which numbers have no effect on any result."""

from __future__ import annotations

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.changes.extract import Subgraph
from bnfold.verification.coverage.effects import read_for_sizes
from tests.verification.graphs import model, numbers

HEAD = "(float[N,3,H,W] x, float[N,P] z) => (float[A,B,C,D] y)"
WEIGHTS = {"w": numbers(1).normal(size=(4, 3, 1, 1)), "one": np.array([1]), "four": np.array([0, 4, 0, 0])}


def part(text: str) -> Subgraph:
    loaded = ir.load(model(f"{HEAD} {{ {text} }}", WEIGHTS))
    return Subgraph(loaded.graph.outputs, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = Conv (x, w)  s = Shape (c)  y = Reshape (z, s)", {"Conv"}),
        ("c = Conv (x, w)  r = Relu (c)  s = Shape (r)  y = Reshape (z, s)", {"Conv", "Relu"}),
        ("c = Conv (x, w)  r = Reshape (c, four)  s = Shape (r)  y = Reshape (z, s)", {"Conv", "Reshape"}),
        ("c = Conv (x, w)  s = Shape (c)  r = Reshape (z, s)  y = Add (r, c)", set()),
        ("c = Conv (x, w)  f = NonZero (c)  s = Shape (f)  y = Reshape (z, s)", set()),
        ("c = Abs (z)  i = Cast <to = 7> (c)  r = Reshape (x, i)  s = Shape (r)  y = Reshape (z, s)", {"Reshape"}),
    ],
)
def test_a_node_that_is_read_for_its_sizes(text: str, expected: set[str]) -> None:
    one = part(text)
    found = read_for_sizes(one)
    assert {node.op_type for node in found} == expected
    assert y_is_made_by(one) not in found


def y_is_made_by(one: Subgraph) -> ir.Node:
    (end,) = one.outputs
    assert end.producer is not None
    return end.producer


SIZED = "(float[N,3,H,W] x, float[N,P] z) => (float[N,4,H,W] y)"
KEPT = {"w": np.ones((4, 3, 1, 1)), "b": np.arange(4.0)}


@pytest.mark.parametrize(("read", "status"), [("x", "failed"), ("d", "verified")])
def test_a_weight_that_gives_sizes_needs_no_evidence(read: str, status: str) -> None:
    """The shape is that of a Conv which lost its bias; ``x`` has three channels for four."""
    old = model(f"{SIZED} {{ c = Conv (x, w, b)  s = Shape (c)  y = Reshape (z, s) }}", KEPT)
    new = model(f"{SIZED} {{ d = Conv (x, w)  s = Shape ({read})  y = Reshape (z, s) }}", KEPT)
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status


SHARED = "(float[N,8,H,W] x, float[P,Q] v) => (float[N,8,H,W] y, float[P,Q] u)"
AXES = {"a": np.array([0]), "e": np.array([2]), "six": np.array([1, 1, -1, 0, 0, 1]), "r": np.array([-1, 1, 0, 0])}


@pytest.mark.parametrize(("last", "status"), [("m", "verified"), ("x", "failed")])
def test_an_axis_that_a_slice_elsewhere_reads_is_no_end(last: str, status: str) -> None:
    """The Reshapes give the mean back its shape, whatever the sizes are."""
    begin = "u = Slice (v, a, e, a)  m = ReduceMean <axes = [1]> (x)"
    chain = "p = Unsqueeze (m, a)  q = Reshape (p, six)  o = Squeeze (q, a)  k = Reshape (o, r)"
    old = model(f"{SHARED} {{ {begin} {chain}  y = Sub (x, k) }}", AXES, opset=17)
    new = model(f"{SHARED} {{ {begin}  y = Sub (x, {last}) }}", AXES, opset=17)
    assert verify(ir.load(old), ir.load(new), depth="local", runtime="none").status == status
