"""What a runtime says of a rewritten model, and what the verdict makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.end_to_end import runtime_rejects
from bnfold.verification.end_to_end.runtime_rejects import TAKEN, opinion_of
from bnfold.verification.runtimes import runtime
from bnfold.verification.runtimes.runtime import RuntimeObstacle, RuntimeProcess, RuntimeResult
from tests.verification.graphs import model

RAN = RuntimeResult("some 1.0", ({},))
BODY = "(float[N,3] x) => (float[N,3] y) { h = Relu (x)  y = Neg (h) }"


def failed(error: str, obstacle: RuntimeObstacle = "refused") -> RuntimeResult:
    return RuntimeResult("some 1.0", error=error, obstacle=obstacle)


@pytest.mark.parametrize(
    ("before", "after", "kind", "words"),
    [
        (RAN, RAN, "taken", ""),
        (failed("no kernel"), RAN, "taken", ""),
        (RAN, failed("no such type"), "refused", "runs the original, but not the rewritten model: no such type"),
        (RAN, failed("took longer than 5 s", "not looked"), "not looked", "took longer than 5 s"),
        (RAN, failed("was killed (SIGKILL)", "not looked"), "not looked", "was killed (SIGKILL)"),
        (RAN, failed("crashed (SIGSEGV)", "crashed"), "doubt", "crashed (SIGSEGV) on the rewritten model"),
        (failed("took longer", "not looked"), failed("bad"), "doubt", "could not look at the original: took longer"),
        (failed("bad type"), failed("bad type"), "neither", "some 1.0 loads neither file: bad type"),
        (failed("bad type in node (a)"), failed("bad type in node (b_1)"), "neither", "loads neither file"),
        (
            failed("Node (a) Op (F) output arg (h) type inference failed, inferred types: tensor(float),tensor(int8)"),
            failed("Node () Op (G) output arg (g) type inference failed, inferred types: tensor(double)"),
            "neither",
            "loads neither file",
        ),
        (
            failed('In Node, ("a", Conv, "", -1) : ("x": tensor(float),"w": tensor(float),) -> ("b",) , Error: form'),
            failed('In Node, ("a", Conv, "", -1) : ("x": ,"w (1)": ,"c": tensor(float),) -> ("d",) , Error: form'),
            "neither",
            "loads neither file",
        ),
        (
            failed('In Node, ("a", Conv, "", -1) : ("x": tensor(float),) -> ("b",) , Error: form'),
            failed('In Node, ("a", Conv, "", -1) : ("x": tensor(float),) -> ("b",) , Error: rank'),
            "doubt",
            "Error: rank",
        ),
        (failed("crashed (SIGSEGV)", "crashed"), failed("crashed (SIGSEGV)", "crashed"), "neither", "loads neither"),
        (failed("bad type"), failed("bad axis"), "doubt", "original: bad type; of the rewritten model: bad axis"),
        (RAN, failed("Could not find an implementation for Relu(14) node"), "too old", "a runtime that has Relu-14"),
        (RAN, failed("Opset 27 is under development"), "too old", "built with onnx 1.22.0"),
        (RAN, failed("Unsupported model IR version: 13, max"), "too old", "reads IR version 13 takes it, as those"),
        (RAN, failed("Opset 99 is under development"), "too old", "a runtime that reads opset 99 takes it"),
        (failed("x"), failed("own:Op(-1) is not a registered function/op"), "neither", "loads neither file"),
    ],
)  # fmt: skip
def test_two_answers_make_an_opinion(before: RuntimeResult, after: RuntimeResult, kind: str, words: str) -> None:
    opinion = opinion_of(before, after)
    assert opinion.kind == kind
    assert words in opinion.text
    assert (opinion == TAKEN) == (kind == "taken")


def answering(patch: pytest.MonkeyPatch, before: RuntimeResult, after: RuntimeResult) -> tuple[ir.Model, ir.Model]:
    """Two equal models, and a runtime that says something else of each."""
    old, new = ir.load(model(BODY, {})), ir.load(model(BODY.replace("h", "g"), {}))

    def run(_: RuntimeProcess, asked: Any, samples: Sequence[Any], *__: Any) -> RuntimeResult:
        answer = before if asked is old else after
        results = ({"y": -np.maximum(each["x"], 0)} for each in samples)
        return answer._replace(results=tuple(results) if answer.ran else ())

    patch.setattr(runtime, "stored", nullcontext)
    patch.setattr(RuntimeProcess, "run", run)
    return old, new


DEPTHS: list[Literal["auto", "full", "local"]] = ["auto", "full", "local"]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("before", "after", "status", "words"),
    [
        (RAN, failed("no such type"), "failed", "but not the rewritten model: no such type"),
        (failed("no kernel"), failed("no such type"), "unverified", "of the rewritten model: no such type"),
        (RAN, failed("crashed (SIGSEGV)", "crashed"), "unverified", "crashed (SIGSEGV)"),
        (failed("bad type"), failed("bad type"), "verified", "some 1.0 loads neither file: bad type"),
        (failed("no kernel"), RAN, "verified", ""),
    ],
)
def test_the_verdict_follows_the_opinion(
    monkeypatch: pytest.MonkeyPatch,
    before: RuntimeResult,
    after: RuntimeResult,
    status: str,
    words: str,
    depth: Literal["auto", "full", "local"],
) -> None:
    verdict = verify(*answering(monkeypatch, before, after), depth=depth)
    assert verdict.status == status, verdict
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("of_original", "status", "words"),
    [
        (failed("sizes 4 and 5"), "unverified", "no such type; the original cannot be run either: sizes 4 and 5"),
        (failed("took longer", "not looked"), "failed", "but not the rewritten model: no such type"),
        (RAN, "failed", "but not the rewritten model: no such type"),
    ],
)
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_model_that_a_runtime_opens_and_cannot_run_is_lost_by_no_rewrite(
    monkeypatch: pytest.MonkeyPatch,
    of_original: RuntimeResult,
    status: str,
    words: str,
    depth: Literal["auto", "full", "local"],
) -> None:
    """Sizes that contradict each other may show when the result is opened, and in the original only when it runs."""
    old, new = answering(monkeypatch, RAN, failed("no such type"))
    run = RuntimeProcess.run

    def run_or_open(self: RuntimeProcess, asked: Any, samples: Sequence[Any], *rest: Any) -> RuntimeResult:
        return of_original if asked is old and samples and samples[0] else run(self, asked, samples, *rest)

    monkeypatch.setattr(RuntimeProcess, "run", run_or_open)
    verdict = verify(old, new, depth=depth)
    assert verdict.status == status, verdict
    assert words in verdict.reason


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("why", ["took longer than 5 s", "was killed (SIGKILL)", "Failed to allocate memory"])
def test_a_runtime_that_could_not_look_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, why: str, depth: Literal["auto", "full", "local"]
) -> None:
    verdict = verify(*answering(monkeypatch, RAN, failed(why, "not looked")), depth=depth)
    assert verdict.verified, verdict
    assert f"onnxruntime did not look at the rewritten model: {why}" in verdict.notes
    assert "but not the rewritten model" not in f"{verdict}{verdict.notes}"


@pytest.mark.parametrize(("chose_version", "status"), [(True, "unverified"), (False, "failed")])
def test_a_version_that_the_caller_named_is_no_fault_of_the_model(
    monkeypatch: pytest.MonkeyPatch, chose_version: bool, status: str
) -> None:
    pair = answering(monkeypatch, RAN, failed("Opset 27 is under development"))
    verdict = verify(*pair, chose_version=chose_version)
    assert (verdict.status, verdict.decided_by) == (status, "runtime")
    assert verdict.reason.endswith("a runtime that reads opset 27 takes it, as those built with onnx 1.22.0 do")


def test_what_would_cost_much_is_not_opened_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = answering(monkeypatch, failed("no kernel"), failed("no such type"))
    with monkeypatch.context() as patch:
        patch.setattr(runtime_rejects, "MOST_BYTES", -1)
        verdict = verify(*pair, depth="local")
    assert verdict.verified
    assert "onnxruntime did not look at the rewritten model: it has more than 1 GB of weights" in verdict.notes
    monkeypatch.setattr(runtime_rejects, "session_seconds", lambda *_: 1e3)
    verdict = verify(*pair, depth="local")
    assert "opening a model of 2 nodes takes about 1000 s" in verdict.notes[-1]
