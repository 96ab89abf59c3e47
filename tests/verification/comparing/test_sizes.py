from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.end_to_end import samples
from bnfold.verification.inputs import candidates, drawing
from bnfold.verification.inputs import choices as module
from tests.verification.graphs import model


def test_who_runs_the_original_first_finds_the_sizes_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")  # the guard of which is the first to ask
    known_sizes, choices = drawing.known_sizes, module.choices
    asked: list[str] = []

    def watched(one: ir.Model, given: Any) -> Any:
        asked.append("shapes")
        return known_sizes(one, given)

    def chosen(one: ir.Model, *known: Any) -> Any:
        asked.append("choices")
        return choices(one, *known)

    monkeypatch.setattr(candidates, "known_sizes", watched)
    monkeypatch.setattr(candidates, "choices", chosen)
    text = "(float[N,3] x) => (float[N,4] y) {{ a = {} (x)  y = MatMul (a, W) }}"
    old, new = (
        ir.load(model(text.format(name), {"W": np.arange(12.0).reshape(3, 4)})) for name in ("LeakyRelu", "Relu")
    )
    assert verify(old, old.clone()).verified
    assert verify(old, new).status == "failed"
    assert asked == ["shapes", "choices"] * 2


def test_what_has_no_defaults_is_not_followed_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nobody needs it")

    monkeypatch.setattr(samples, "sized", never)
    text = "(float[N,3] x) => (float[N,4] y) {{ a = {} (x)  y = MatMul (a, W) }}"
    weights = {"W": np.arange(12.0).reshape(3, 4)}
    old, new = (ir.load(model(text.format(name), weights)) for name in ("Identity", "Abs"))
    assert verify(old, new).decided_by == "float64"


@pytest.mark.parametrize(
    ("declared", "checks", "status"),
    [
        ("float[] x", {}, "unverified"),
        ("float[] x", {"inputs": {"x": (2, 3)}}, "failed"),
        ("float[A,B] x", {}, "failed"),
    ],
)
def test_what_runs_only_at_the_declared_sizes_fails_unless_a_rank_is_guessed(
    declared: str, checks: Any, status: str
) -> None:
    text = f"({declared}) => (float[6,7] y) {{{{ m = MatMul (x, W)  {{}} }}}}"
    weights = {"s": np.array([6, 7]), "W": np.ones((3, 7), np.float32)}
    bodies = ("y = Neg (m)", "n = Neg (m)  y = Reshape (n, s)")
    old, new = (ir.load(model(text.format(body), weights)) for body in bodies)
    verdict = verify(old, new, depth="full", runtime="none", **checks)
    assert verdict.status == status, verdict.reason
    assert ("was declared with the shape" in verdict.reason) is (status == "unverified")


DECIDED = """{} => (float[N,P] y) {{ c = Constant <value = bool {{1}}> ()
    y = If (c) <then_branch = t () => (float[N,P] p) {{ p = {} (x) }},
                else_branch = e () => (float[N,Q] q) {{ r = Neg (x)  q = Abs (r) }}> }}"""
"""An If of which one branch is taken, with an operator in it."""


def test_sizes_are_sought_where_branches_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[str]] = []

    def chosen(one: ir.Model, *known: Any) -> Any:
        found.append([node.op_type for node in one.graph.nodes])
        return module.choices(one, *known)

    monkeypatch.setattr(candidates, "choices", chosen)
    head = "(float[N,3] x)"
    old = ir.load(model(DECIDED.format(head, "Relu"), {}))
    new = ir.load(model(f"{head} => (float[N,P] y) {{ y = Relu (x) }}", {}))
    assert verify(old, new, depth="full").verified
    assert found == [["Constant", "Relu"]]


def test_no_sizes_are_inferred_that_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred: list[Any] = []
    choice = module._choice

    def watched(one: ir.Model, shapes: Any) -> Any:
        inferred.append(shapes)
        return choice(one, shapes)

    monkeypatch.setattr(module, "_choice", watched)
    text = "(float[N,3] x) => (float[N,4] y) {{ a = {} (x)  y = MatMul (a, W) }}"
    weights = {"W": np.arange(12.0).reshape(3, 4)}
    old, new = (ir.load(model(text.format(name), weights)) for name in ("Identity", "Abs"))
    assert verify(old, new).decided_by == "float64"
    assert inferred
    inferred.clear()
    monkeypatch.setattr(samples, "NO_TIME", 0.0)
    monkeypatch.setattr(samples, "_LITTLE_TIME", -1.0)
    assert verify(old, new).decided_by == "float64"
    assert not inferred
