"""Reshapes that give the same elements the same shape, whatever computes their targets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.changes.unchanged import unchanged
from bnfold.verification.subgraphs.verifier import SubgraphVerifier
from tests.verification.graphs import Depth, Weights, model

HEAD = "(float[N,4,6] x) => (float[a,b,c] y)"
STORED: Weights = {
    "two": np.array([2]), "zero": np.array([0]), "twelve": np.array([12]),
    "t": np.array([0, 12, 2]), "u": np.array([-1, 12, 2]), "v": np.array([0, -1, 3]), "w": np.array([-1, 0, 2]),
    "r": np.array([0, -1, 2]), "one": np.array([1, 24]), "from": np.array([-1, 12, 2]), "rest": np.array([-1]),
}  # fmt: skip
COMPUTED = "s = Shape <end = 1> (x)  g = Concat <axis = 0> (s, twelve, two)  y = Reshape (x, g)"
ALIKE = {
    "stored": (COMPUTED, "y = Reshape (x, t)"),
    "another size is open": (COMPUTED, "y = Reshape (x, u)"),
    "in two steps": ("f = Flatten (x)  y = Reshape (f, r)", "y = Reshape (x, r)"),
    "by another operator": ("f = Reshape (x, h)  y = Unsqueeze (f, zero)", "y = Reshape (x, i)"),
}
UNLIKE = {
    "other sizes": (COMPUTED, "y = Reshape (x, v)"),
    "the size of another axis": (COMPUTED, "y = Reshape (x, w)"),
    "another order": (COMPUTED, "p = Transpose <perm = [0, 2, 1]> (x)  y = Reshape (p, u)"),
    "a step in between that fixes a size": (COMPUTED, "f = Reshape (x, one)  y = Reshape (f, from)"),
    "other elements": (COMPUTED, "b = Neg (x)  y = Reshape (b, t)"),
}
MORE: Weights = {**STORED, "h": np.array([-1, 8]), "i": np.array([1, -1, 8])}


def pair(old: str, new: str) -> tuple[ir.Model, ir.Model]:
    one, other = (ir.load(model(f"{HEAD} {{ {body} }}", MORE, opset=17)) for body in (old, new))
    return one, other


@pytest.mark.parametrize("name", ALIKE)
def test_the_shape_is_proven_and_nothing_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = pair(*ALIKE[name])
    monkeypatch.setattr(SubgraphVerifier, "_compare_alone", None)
    verdict = verify(before, after, depth="local", runtime="none")
    assert verdict.verified, verdict.reason


@pytest.mark.parametrize("depth", ["auto", "full", "local"])
@pytest.mark.parametrize("name", UNLIKE)
def test_anything_else_is_another_shape(name: str, depth: Depth) -> None:
    before, after = pair(*UNLIKE[name])
    assert not unchanged(before.graph.nodes[-1], after.graph.nodes[-1])
    assert not verify(before, after, depth=depth, runtime="none").verified


def test_of_no_elements_no_size_can_be_inferred_beside_a_copied_one() -> None:
    """The original has a batch of none, and the rewritten model an error."""
    before, after = pair(COMPUTED, "y = Reshape (x, r)")
    assert not unchanged(before.graph.nodes[-1], after.graph.nodes[-1])


def test_a_name_that_means_something_else_tells_no_size() -> None:
    weights = {**MORE, "f": np.ones((3, 5))}
    old = "q = Reshape (f, rest)  n = ReduceSum <keepdims = 0> (q)  y = Reshape (x, u)"
    new = "f = Reshape (x, one)  n = ReduceSum <keepdims = 0> (f)  y = Reshape (f, t)"
    before, after = (
        ir.load(model(f"{HEAD} {{ {body} }}", {k: v for k, v in weights.items() if k != "f" or body is old}, opset=17))
        for body in (old, new)
    )
    assert not unchanged(before.graph.nodes[-1], after.graph.nodes[-1])


def test_a_zero_is_a_size_where_the_node_says_so() -> None:
    before, after = pair(COMPUTED, "y = Reshape <allowzero = 1> (x, t)")
    assert not unchanged(before.graph.nodes[-1], after.graph.nodes[-1])


@pytest.mark.parametrize(("sizes", "status"), [([-1, 12, 2], "verified"), ([-1, 2, 12], "failed")])
def test_an_old_target_is_an_attribute(sizes: list[int], status: str) -> None:
    before = model(f"{HEAD} {{ y = Reshape <shape = [-1, 12, 2]> (x) }}", {}, opset=4)
    after = model(f"{HEAD} {{ y = Reshape (x, s) }}", {"s": np.array(sizes)}, opset=17)
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none")
    assert verdict.status == status, verdict.reason


@pytest.mark.parametrize(("sizes", "status"), [("8, 3", "verified"), ("-1, 3", "unverified")])
def test_what_a_caller_sets_proves_nothing(sizes: str, status: str) -> None:
    """In a function, allowzero may be a reference to its attribute."""
    text = (
        '<ir_version: 9, opset_import: ["" : 17, "own" : 1]> g (float[4,6] x) => (float[a,b] y) { y = own.f (x) }'
        '<domain: "own", opset_import: ["" : 17]> f <z: int = 0> (p) => (r)'
        " { s = Constant <value_ints = [SIZES]> ()  r = Reshape <allowzero: int = @z> (p, s) }"
    )
    before, after = (ir.load(onnx.parser.parse_model(text.replace("SIZES", each))) for each in ("8, 3", sizes))
    assert verify(before, after, runtime="none").status == status
