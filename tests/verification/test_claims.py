"""The ledger: what a claim had to show, what its experiments were fed, and what the log says of each step."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import Code, verify
from bnfold.verification.claims import ClaimOutcome, Evidence, Experiment, Ledger, Runs, Why, about_whole, with_outcome
from bnfold.verification.obstacles import Broken, NotCompared
from bnfold.verification.verdict import verdict_on
from tests.verification.graphs import model, single

BEFORE = "(float[N,3] x) => (float[N,4] y) { q = MatMul(x, V)  a = Add(q, k)  c = Clip(a, lo, hi)  y = Mul(c, z) }"
AFTER = "(float[N,3] x) => (float[N,4] y) { q = MatMul(x, V)  a = Add(q, k)  y = Mul(a, z) }"


def clipped() -> tuple[ir.Model, ir.Model]:
    """A Clip far outside what is drawn, and the model without it."""
    weights = {"V": np.ones((3, 4), np.float32), "k": single(1e-3), "z": single(1)}
    bounds = {"lo": single(-1e12), "hi": single(1e12)}
    return ir.load(model(BEFORE, weights | bounds)), ir.load(model(AFTER, weights))


def test_evidence_counts_possible_faults_and_names_the_first_that_does_not_show() -> None:
    verdict = verify(*clipped(), depth="local", runtime="none")
    [row] = verdict.local
    assert (row.code, row.faults, row.hidden, row.example) == (Code.HIDDEN, 2, 2, "element 0 of 'lo'")


def test_verified_evidence_has_nothing_hidden() -> None:
    before = model("(float[N,3] x) => (float[N,3] y) { c = Clip(x, lo, hi)  y = Mul(c, two) }",
        {"lo": single(-1), "hi": single(1), "two": single(2)})  # fmt: skip
    after = model("(float[N,3] x) => (float[N,3] y) { t = Mul(x, two)  y = Clip(t, lo, hi) }",
        {"lo": single(-2), "hi": single(2), "two": single(2)})  # fmt: skip
    [row] = verify(ir.load(before), ir.load(after), depth="local", runtime="none").local
    assert (row.status, row.hidden, row.example) == ("verified", 0, "")
    assert row.faults > 0


@pytest.mark.parametrize("keeps", [False, True])
def test_inputs_are_kept_only_if_asked(*, keeps: bool) -> None:
    run, feeds = Experiment({"x": (2,)}, "normal", Code.TESTED), {"x": np.ones(2)}
    runs = Runs(keeps)
    runs.add(run, feeds)
    ledger = Ledger(keeps=keeps)
    row = ledger.enter(Evidence("", "", ("y",), "verified", experiments=tuple(runs.experiments)), runs.feeds)
    assert row.experiments == (run,)
    assert list(ledger.feeds(row)) == ([feeds] if keeps else [])


@pytest.mark.parametrize(
    ("has_fault", "has_doubt", "status", "note"),
    [
        (False, False, "verified", "agrees"),
        (False, True, "skipped", "hidden"),
        (True, False, "failed", "differs"),
        (True, True, "failed", "differs"),
    ],
)
def test_a_difference_counts_before_a_doubt(has_fault: bool, has_doubt: bool, status: str, note: str) -> None:
    fault, doubt = Why(Code.DIFFERS, "differs"), Why(Code.HIDDEN, "hidden", {"example": "w"})
    outcome = ClaimOutcome(fault=fault if has_fault else None, doubt=doubt if has_doubt else None)
    row = with_outcome(Evidence("fold", "", ("y",)), outcome, Why(Code.TESTED, "agrees"))
    assert (row.status, row.note) == (status, note)
    assert (outcome.agrees, outcome.is_open, outcome.differs) == tuple(
        status == each for each in ("verified", "skipped", "failed")
    )
    assert verdict_on(row, "runtime").decided_by == ("nothing" if status == "skipped" else "runtime")


@pytest.mark.parametrize(("obstacle", "status"), [(NotCompared, "skipped"), (Broken, "failed")])
def test_what_ends_an_experiment_is_its_outcome(obstacle: type[NotCompared | Broken], status: str) -> None:
    why = Why(Code.NO_FIT, "it does not fit")
    row = about_whole(["y"], obstacle(why).outcome)
    assert (row.status, row.why) == (status, why)


def test_the_whole_models_are_as_far_off_as_their_worst_experiment() -> None:
    runs = tuple(Experiment({}, "normal", Code.TESTED, relative, 1.0) for relative in (0.1, 0.3, 0.2))
    row = about_whole(["y"], ClaimOutcome(), experiments=runs)
    assert (row.relative, row.prover, row.experiments) == (0.3, "whole", runs)


def test_a_tolerance_enters_the_ledger() -> None:
    before, _ = clipped()
    verdict = verify(before, before.clone(), tolerance=0.1, runtime="none")
    [row] = verdict.ledger
    assert (row.prover, row.outputs, row.status) == ("runtime", ("y",), "verified")
    assert row.experiments


def test_a_model_that_does_not_run_leaves_the_input_on_which_it_showed() -> None:
    text = "(float[N,4,M] x) => (float[A,B] y) { y = Reshape(x, s) }"
    before, after = (ir.load(model(text, {"s": np.array(s, np.int64)})) for s in ([0, -1], [7, 3]))
    verdict = verify(before, after, runtime="none")
    [row] = [row for row in verdict.ledger if row.prover == "whole"]
    assert (verdict.status, row.code) == ("failed", Code.DOES_NOT_RUN)
    assert [set(run.shapes) for run in row.experiments] == [{"x"}]


def test_every_step_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "bnfold.verification"):
        verify(*clipped(), runtime="none")
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("bnfold.verification")]
    steps = [line.partition(" (")[0] for line in lines if line.startswith("next: ")]
    assert steps == [
        "next: inputs and outputs", "next: the whole models in float64", "next: each change in float64",
    ]  # fmt: skip
    assert any(line.startswith("the whole models would take ") for line in lines)
    assert any(line.startswith("part: Mul y: skipped [fault-hidden] ") for line in lines)
    assert sum(line.startswith("  inputs (normal) at {'a': ") for line in lines) > 1
    assert lines[-1].startswith("unverified, decided by nothing [fault-hidden]: ")


def test_the_log_says_why_parts_come_first(caplog: pytest.LogCaptureFixture) -> None:
    weight = np.ones((512, 512), np.float32)
    text = "(float[256,512] x) => (float[256,512] y) { a = MatMul(x, W)  b = MatMul(a, W)  c = MatMul(b, W)  y = %s }"
    before, after = (ir.load(model(text % last, {"W": weight})) for last in ("Add(c, c)", "Sum(c, c)"))
    with caplog.at_level(logging.DEBUG, "bnfold.verification"):
        assert verify(before, after)
    text = caplog.text
    assert "next: each change in float64" in text
    assert "the whole models in float64 are dearer" in text
    assert "counted seconds in float64" in text


def test_a_hostile_name_in_the_log_is_escaped(caplog: pytest.LogCaptureFixture) -> None:
    before, after = (model(text, {"k": single(k)}) for text, k in ((_HOSTILE, 1), (_HOSTILE, 2)))
    for each in (before, after):
        each.graph.node[0].output[0] = each.graph.node[1].input[0] = "\x1b[31mred\n"
    with caplog.at_level(logging.DEBUG, "bnfold.verification"):
        assert verify(ir.load(before), ir.load(after), runtime="none").status == "failed"
    assert any("\\x1b[31mred\\n" in record.getMessage() for record in caplog.records)
    assert not any("\x1b" in record.getMessage() for record in caplog.records)


_HOSTILE = "(float[N,3] x) => (float[N,3] y) { a = Mul(x, k)  y = Relu(a) }"


@pytest.mark.parametrize(
    ("after", "prover", "code"),
    [
        ("(float[N,3] x) => (float[N,3] z) { z = Exp (x) }", "interface", Code.INTERFACE),
        ("(float[N,3] x, float[N,3] w) => (float[N,3] y) { y = Add (x, w) }", "interface", Code.INTERFACE),
        ("(float[N,3] x) => (float[N,3] y) { y = Add (x, nowhere) }", "checker", Code.INVALID),
    ],
)
def test_what_models_state_is_evidence_too(after: str, prover: str, code: Code) -> None:
    before = ir.load(model("(float[N,3] x) => (float[N,3] y) { y = Exp (x) }", {}))
    verdict = verify(before, ir.load(model(after, {})), runtime="none", explain="")
    assert (verdict.status, verdict.code, verdict.decided_by) == ("failed", code, "interface")
    [row] = verdict.ledger
    assert (row.prover, row.status, row.code, row.note) == (prover, "failed", code, verdict.reason)
    assert verdict.reason in str(verdict.explanation[1])


def test_inputs_of_the_same_claim_are_told_apart_by_its_experiments() -> None:
    """A claim may be looked at twice, the second time on other inputs."""
    ledger = Ledger(keeps=True)
    rows = []
    for size in (2, 3):
        run = Experiment({"x": (size,)}, "normal", Code.TESTED)
        rows.append(ledger.enter(Evidence("Exp y", "", ("y",), "verified", experiments=(run,)), [{"x": np.ones(size)}]))
    assert [len(ledger.feeds(row)[0]["x"]) for row in rows] == [2, 3]
    assert len(ledger.feeds(rows[0].opened(Why(Code.HIDDEN, "concluded later")))[0]["x"]) == 2
