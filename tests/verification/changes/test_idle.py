"""Which numbers of a constant decide nothing in a part."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from bnfold import ir
from bnfold.ir.elements import Array
from bnfold.verification import verify
from bnfold.verification.changes.idle import Extent, idle, masked
from bnfold.verification.changes.partly import PartlyKnown
from bnfold.verification.coverage.mutants import Mutants
from bnfold.verification.subgraphs.sides import sides_of
from tests.verification.changes.test_partly import NUMBERS, loaded
from tests.verification.graphs import Weights, model


def found(one: ir.Model, name: str, size: int, nodes: Collection[ir.Node], compared: Collection[str]) -> Array:
    values = one.graph.values
    known = PartlyKnown(one)
    known.of(values[name])
    return idle(known, values[name], size, Extent(nodes, nodes, {values[other] for other in compared}))


@pytest.mark.parametrize(
    ("body", "name", "idle"),
    [
        ("s = Shape (x)  h = Where (no, ones, s)", "no", [False] * 4),
        ("s = Concat <axis = 0> (k1, k2)  h = Where (two, both, s)", "two", [True, False]),
        ("s = Shape (x)  g = Gather (s, turned)  h = Slice (g, k0, k1)", "turned", [False, True, True, True]),
        ("s = Shape (x)  g = Gather (s, turned)  h = Slice (g, k1, k9)", "turned", [True, False, False, False]),
        ("s = Shape (x)  g = Gather (s, turned)  h = Identity (g)", "turned", [False] * 4),
        ("s = Shape (x)  h = Slice (s, k0, k1)", "k0", [False]),
        ("s = Shape (x)  e = Equal (s, minus)  h = Where (e, ones, s)", "ones", [True] * 4),
        ("s = Shape (x)  e = Equal (s, k1)  h = Where (e, ones, s)", "ones", [False, True, True, True]),
        ("s = Shape (x)  e = Equal (s, minus)  h = Where (e, s, ones)", "ones", [False] * 4),
        ("c = Cast <to = 9> (both)  h = Where (c, both, turned)", "both", [False] * 2),
    ],
)
def test_numbers_that_decide_nothing(body: str, name: str, idle: list[bool]) -> None:
    one = loaded(f"{body}  t = Concat <axis = 0> (h, rest)  y = Reshape (x, t)")
    assert found(one, name, len(idle), {*one.graph.nodes}, set()).tolist() == idle


@pytest.mark.parametrize(
    "reader",
    [
        "b = If (c) <then_branch = t () => (int64 u) {u = Neg ({})}, else_branch = e () => (int64 v) { v = Abs (c) }>",
        "b = Neg (g)",
    ],
)
def test_a_number_that_a_body_or_another_part_may_read_decides(reader: str) -> None:
    """What a body captures is read by the node that holds it; another part is fed with what this one computes."""
    chain = "s = Shape (x)  g = Gather (s, turned)  h = Slice (g, k0, k1)  t = Concat <axis = 0> (h, rest)"
    one = loaded(f"c = Cast <to = 9> (fed)  {chain}  {reader.replace('{}', 'turned')}  y = Reshape (x, t)")
    inside = {node for node in one.graph.nodes if node.op_type not in ("Neg", "Cast")}
    assert not found(one, "turned", 4, inside, {"g"}).any()


def test_what_another_part_reads_is_no_matter_of_this_one_unless_it_is_compared() -> None:
    one = loaded("s = Shape (x)  g = Gather (s, turned)  h = Slice (g, k0, k1)  b = Neg (g)  y = Reshape (x, h)")
    inside = {node for node in one.graph.nodes if node.op_type != "Neg"}
    assert found(one, "turned", 4, inside, {"h"}).tolist() == [False, True, True, True]
    assert found(one, "turned", 4, inside, {"g", "h"}).tolist() == [False] * 4


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("w = Where (no, ones, s)  r = Expand (x, w)", True),
        ("w = Where (no, s, ones)  r = Expand (x, w)", True),
        ("w = Where (no, turned, s)  r = Expand (x, w)", False),
        ("g = Gather (s, turned)  w = Where (no, ones, g)  r = Expand (x, w)", False),
        ("w = Where (no, ones, s)  f = Reshape (x, minus)  r = Expand (f, w)", False),
        ("w = Where (no, ones, s)  f = ReduceSum (x, k2)  r = Expand (f, w)", False),
        ("n = Neg (x)  w = Where (no, ones, s)  r = Expand (n, w)", True),
        ("n = Concat <axis = 0> (x, x)  w = Where (no, ones, s)  r = Expand (n, w)", False),
    ],
)
def test_a_choice_between_sizes_that_expand_nothing(body: str, expected: bool) -> None:
    one = loaded(f"s = Shape (x)  {body}  y = Flatten (r)")
    nodes = {*one.graph.nodes}
    assert found(one, "no", 4, nodes, set()).tolist() == [expected] * 4
    assert not found(one, "no", 4, nodes, {"w"}).any()


@pytest.mark.parametrize(("read", "status"), [("q", "verified"), ("d", "failed")])
def test_an_expand_that_torch_writes_for_indices(read: str, status: str) -> None:
    """Whatever its condition is, the Where chooses a size that has no effect: no test can show another condition."""
    head = "(float[N,7] x) => (int64[A,1,1] y)"
    body = "s = Shape (x)  n = Gather (s, zero)  i = Range (zero, n, one)  q = Reshape (i, column)"
    expanded = "t = Shape (q)  m = Equal (t, minus)  w = Where (m, ones, t)  z = Expand (q, w)  y = Unsqueeze (z, axis)"
    weights: Weights = {
        "zero": np.array(0),
        "one": np.array(1),
        "axis": np.array([2]),
        "column": np.array([-1, 1]),
        "minus": np.array([-1, -1]),
        "ones": np.array([1, 1]),
    }
    before = model(f"{head} {{ {body}  {expanded} }}", weights)
    after = model(f"{head} {{ {body}  d = Add (q, one)  y = Unsqueeze ({read}, axis) }}", weights)
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == status, verdict.reason


@pytest.mark.parametrize(("start", "expected"), [("k2", []), ("k1", ["element 0 of 'k1'"])])
def test_a_slice_of_nothing_whose_start_another_part_reads(start: str, expected: list[str]) -> None:
    """Of two sizes, none lies behind the second, and none behind the third."""
    head = "(float[N] q, int64[2] fed, float[6] v) => (float[A,B] y, float[C] u) <float[A,B] x, int64[2] s>"
    body = f"s = Shape (x)  r = Slice (s, {start}, k9)  c = Concat <axis = 0> (s, r)  y = Reshape (x, c)"
    before, after = (
        {"": ir.load(model(f"{head} {{ x = Reshape (q, fed)  {made}  u = Slice (v, {start}, k9) }}", NUMBERS)).graph}
        for made in (body, "y = Identity (x)")
    )
    sides = sides_of((before, after), ir.Cut("", ("x",), ("y",), "slice"), ())
    assert [mutant.what for mutant in Mutants(*sides, are_compared=True).found] == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("a = Where (mask, w, x)", [[False, True, True]]),
        ("a = Where (mask, x, w)", [[True, False, False]]),
        ("a = Where (rows, w, x)", [[False, True, False]]),
        ("a = Where (mask, w, x)  b = Where (mask, x, w)", [[False] * 3]),
        ("a = Where (mask, w, x)  b = Neg (w)", None),
        ("a = Where (fed, w, x)", None),
        ("a = Neg (x)", None),
        ("a = Where (long, w, x)", None),
    ],
)
def test_numbers_that_a_mask_leaves_out(nodes: str, expected: list[list[bool]] | None) -> None:
    masks = {"mask": np.array([True, False, False]), "rows": np.array([[True, False, False], [False, False, True]])}
    masks["long"] = np.ones(4, np.bool_)
    text = f"(float[2,3] x, bool[3] fed) => (float[2,3] y) {{ {nodes}  y = Neg (a) }}"
    read = ir.load(model(text, {"w": np.ones((1, 3)), **masks}))
    hidden = masked(read.graph.values["w"], (1, 3), {*read.graph.nodes}, ())
    assert (None if hidden is None else hidden.tolist()) == expected


def test_numbers_that_a_mask_leaves_out_need_not_show() -> None:
    masked = {"mask": np.array([True, False, False]), "two": np.array(2.0), "w": np.arange(1.0, 4.0)}
    old, right, wrong = (
        ir.load(model(f"(float[2,3] x) => (float[2,3] y) {{ {nodes} }}", {**masked, "v": np.arange(1.0, 4.0) * by}))
        for nodes, by in (
            ("a = Where (mask, w, x)  y = Mul (a, two)", 1),
            ("a = Mul (x, two)  y = Where (mask, v, a)", 2),
            ("a = Mul (x, two)  y = Where (mask, v, a)", 3),
        )
    )
    assert verify(old, right, depth="local").verified
    assert verify(old, wrong, depth="local").status == "failed"
