"""Which changed parts are compared, and which need not be, because one stays open."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import Mock

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import Verdict, parts, verify
from bnfold.verification.changes import boundaries
from bnfold.verification.claims import Evidence, Why
from bnfold.verification.codes import Code
from bnfold.verification.end_to_end import examine, ort_check
from bnfold.verification.end_to_end.pair import ModelPair
from bnfold.verification.subgraphs.verifier import SubgraphVerifier
from tests.verification.graphs import Depth, model

pytest.importorskip("onnxruntime")
policy = import_module("bnfold.verification.policy")  # the package has a function of this name

Status = Literal["verified", "failed", "skipped"]
HEAD = "(float[N,3] x) => (float[N,3] y)"
BEFORE = "a = Abs (x)  b = Mul (a, two)  c = Neg (b)  d = Mul (c, two)  e = Neg (d)  y = Mul (e, two)"
AFTER = "a = Abs (x)  b = Add (a, a)  c = Neg (b)  d = Add (c, c)  e = Neg (d)  y = Add (e, e)"


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_check, "LITTLE_TIME", 0.0)


def verdict(*, depth: Depth = "auto", after: str = AFTER) -> Verdict:
    before = ir.load(model(f"{HEAD} {{ {BEFORE} }}", {"two": np.array(2.0)}))
    return verify(before, ir.load(model(f"{HEAD} {{ {after} }}", {})), depth=depth, runtime="none")


def found(monkeypatch: pytest.MonkeyPatch, **rows: Status) -> list[str]:
    """Let the changes that make these values be found so; return which are looked at, in order."""
    compared: list[str] = []
    real = SubgraphVerifier._checked

    def checked(self: SubgraphVerifier, cut: ir.Cut, hidden: Any) -> tuple[Evidence, None]:
        compared.append(cut.outputs[0])
        row, _ = real(self, cut, hidden)
        status = rows.get(cut.outputs[0], row.status)
        note = "" if status == "verified" else "set by the test"
        return Evidence(cut.label, "", cut.outputs, status, note=note), None

    monkeypatch.setattr(SubgraphVerifier, "_checked", checked)
    return compared


def test_before_the_whole_models_nothing_is_compared_behind_a_part_that_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = found(monkeypatch, b="skipped")
    seen: list[list[str]] = []
    real = examine.examine_whole

    def whole(*args: Any, **options: Any) -> Any:
        seen.append([*compared])
        return real(*args, **options)

    monkeypatch.setattr(examine, "examine_whole", whole)
    assert verdict().verified, "the whole models show what b is, and the other parts are compared then"
    assert seen == [["b"]]
    assert compared == ["b", "d", "y"]


def test_where_the_whole_models_do_not_show_a_part_those_behind_it_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = found(monkeypatch, d="skipped")
    monkeypatch.setattr(examine.Whole, "observe", lambda *_: None)
    result = verdict()
    assert result.status == "unverified"
    assert "Add d: set by the test; a fault in value 'd' would not show in the whole models" in result.reason
    assert [row.status for row in result.local] == ["verified", "skipped"]
    assert "y" not in compared


def test_where_a_part_differs_all_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = found(monkeypatch, b="failed", d="skipped")
    monkeypatch.setattr(examine.Whole, "observe", lambda *_: None)
    assert not verdict().verified
    assert "y" in compared


def test_what_the_whole_models_do_not_show_is_unverified_whatever_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, b="skipped", d="skipped", y="skipped")
    assert verdict().verified
    real = examine.Whole.observe
    monkeypatch.setattr(
        examine.Whole, "observe", lambda self, it: None if "'y'" in it.mutants[0].what else real(self, it)
    )
    assert verdict().status == "unverified"


@pytest.mark.parametrize(("y", "status"), [("skipped", "unverified"), ("failed", "failed")])
def test_where_the_whole_models_cannot_be_compared_all_parts_are(
    y: Status, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_time(*_: object, **__: object) -> None:
        raise policy.NotCompared(Why(Code.TIME, "it takes too long"))

    found(monkeypatch, b="skipped", y=y)
    monkeypatch.setattr(examine, "examine_whole", out_of_time)
    result = verdict()
    assert result.status == status
    assert [row.outputs for row in result.local] == [("b",), ("d",), ("y",)]
    assert "1 of 3" not in result.reason or y == "failed"
    assert y == "failed" or "it takes too long; 2 of 3 changes could not be verified" in result.reason


def test_a_fault_behind_a_part_that_stays_open_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, b="skipped")
    assert verdict(after=AFTER.replace("y = Add (e, e)", "y = Add (e, d)")).status == "failed"


def test_faults_that_take_too_long_to_look_for_are_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would be a run of the whole models."""
    found(monkeypatch, b="skipped")
    monkeypatch.setattr(ModelPair, "seconds", lambda *_: [100.0, 100.0])
    assert verdict().verified, "of one part there are few of them, so nobody asks"
    monkeypatch.setattr(examine, "_MANY", 0)
    monkeypatch.setattr(examine.Whole, "observe", lambda *_: pytest.fail("it was begun"))
    result = verdict()
    assert result.status == "unverified"
    assert "needs about 200 s, and there are 60 s for it" in result.reason


def test_changes_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, b="skipped")
    monkeypatch.setattr(parts, "uncovered", uncovered := Mock(wraps=boundaries.uncovered))
    assert verdict().verified
    uncovered.assert_called_once()


@pytest.mark.parametrize(
    ("status", "by_size", "sizes", "stays"),
    [
        ("failed", True, (2, 1), True),
        ("failed", True, (2, 1, 3), False),
        ("failed", False, (2,), False),
        ("skipped", True, (2,), True),
        ("skipped", True, (2, 1), False),
    ],
)
def test_whole_models_at_few_sizes_do_not_overrule_a_part_that_differs(
    status: Status, sizes: tuple[int, ...], *, by_size: bool, stays: bool
) -> None:
    seen = [SimpleNamespace(feeds={"x": np.zeros((rows, 3))}) for rows in sizes]
    coverage = SimpleNamespace(uncovered=0)
    clock = SimpleNamespace(budget=1.0)
    before = ir.load(model("(float[N,3] x) => (float[N,3] y) { a = Relu (x)  y = Relu (a) }", {}))
    verifier = SimpleNamespace(request=SimpleNamespace(clock=clock, before=before), coverage=lambda *_: coverage)
    whole = SimpleNamespace(seen=seen, needs=lambda _: 0.0, observe=lambda _: None)
    row = Evidence("a part", "", ("y",), status, 1.0, 0.0, "differs", at_some_sizes=by_size, boundary=("a",))
    found: Any = parts._in_whole
    assert found(verifier, None, row, whole).status == ("skipped" if stays else "verified")


def test_a_size_that_only_the_result_reads_is_the_declared_one() -> None:
    """At any other size the result leaves the input as it is; at this one nothing runs it."""
    made = "s = Shape (x)  e = Equal (s, own)  w = Where (e, wrong, s)  x2 = Expand (x, w)  y = Relu (x2)"
    sizes = {"own": np.array([2, 7]), "wrong": np.array([6, 1])}
    before, after = (
        ir.load(model(f"(float[2,3] x) => (float[a,b] y) {{ {text} }}", weights))
        for text, weights in (("y = Relu (x)", {}), (made, sizes))
    )
    assert verify(before, after, depth="local", runtime="none").status == "failed"


def test_what_neither_the_part_nor_the_whole_shows_is_said_once() -> None:
    row = Evidence("a part", "", ("y",), "skipped")
    hidden = Why(Code.HIDDEN, "would not reveal an error in element 0 of X", {"example": "element 0 of X"})
    note = parts._hidden_in_whole(row.opened(hidden), "element 0 of X").note
    assert note.count("element 0 of X") == 1
    assert note.endswith(", neither in this part nor in the whole models")
    other = parts._hidden_in_whole(row.opened(Why(Code.TOO_LARGE, "too large")), "element 0 of X").note
    assert other == "too large; a fault in element 0 of X would not show in the whole models"
