"""All that verification does ends at the limit on the clock, which tests turn by hand."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from bnfold import ir, reference
from bnfold.settings import VerifyOptions
from bnfold.verification import start, verify
from bnfold.verification.request import Clock, _rounded
from bnfold.verification.runtimes.runtime import RuntimeProcess
from tests.verification.graphs import model, numbers, single


class Hands:
    """A clock that stands still until it is turned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    return Hands(monkeypatch)


def turned(hands: Hands, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, seconds: float) -> list[float]:
    """Let each call of a function take ``seconds``; return the list of when it was called."""
    called: list[float] = []
    original = getattr(owner, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        called.append(hands.now)
        hands.now += seconds
        return original(*args, **options)

    monkeypatch.setattr(owner, name, wrapped)
    return called


def pair(size: int = 3) -> tuple[ir.Model, ir.Model]:
    weight = single(numbers(3).normal(size=(size, size)))
    head = f"(float[N,{size}] x) => (float[N,{size}] y)"
    before = model(f"{head} {{ a = MatMul (x, W)  b = Relu (a)  y = Neg (b) }}", {"W": weight})
    after = model(f"{head} {{ t = Neg (x)  u = Neg (t)  a = MatMul (u, W)  b = Relu (a)  y = Neg (b) }}", {"W": weight})
    return ir.load(before), ir.load(after)


@pytest.mark.parametrize("depth", ["auto", "local", "full"])
def test_no_evaluation_begins_after_the_limit(depth: Any, hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    """One node may run longer than the limit; nothing follows it."""
    called = turned(hands, monkeypatch, reference, "evaluate", 1000.0)
    verdict = verify(*pair(), depth=depth, runtime="none", verify_seconds=10)
    assert len(called) == 1
    assert verdict.status == "unverified"
    assert "limit" in verdict.reason
    assert any(row.data.get("verify_seconds") for row in verdict.ledger)


def test_changes_are_not_sought_after_the_limit(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "(float[N,3] x) => (float[N,3] y) { a = MatMul (x, W)  b = MatMul (a, V)  c = Abs (b)  y = Neg (c) }"
    weights = {"W": np.ones((3, 3)), "V": np.ones((3, 3))}
    before, after = model(body, weights), model(body.replace("Abs (b)", "Relu (b)"), weights)
    read = turned(hands, monkeypatch, ir.Inline, "numpy", 20.0)
    evaluated = turned(hands, monkeypatch, reference, "evaluate", 0.0)
    verdict = verify(ir.load(before), ir.load(after), depth="local", runtime="none", verify_seconds=10)
    assert (verdict.status, [*evaluated]) == ("unverified", [])
    assert len(read) <= 2, "those of one comparison"
    assert "whatever else changed" in verdict.reason
    assert "the limit of 10 s struck" in verdict.reason


def test_no_runtime_begins_after_the_limit(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnfold.verification.end_to_end.ort_check.LITTLE_TIME", 0.0)
    called = turned(hands, monkeypatch, RuntimeProcess, "run", 1000.0)
    verdict = verify(*pair(), verify_seconds=10)
    assert len(called) == 1
    assert verdict.status == "unverified"


def test_the_limit_that_would_do_follows_from_how_much_was_compared(hands: Hands) -> None:
    clock = Clock(10.0)
    hands.now += 10
    assert clock.over().data == {"verify_seconds": 70}, "nothing is known"
    clock = Clock(10.0)
    clock.share = 0.1
    hands.now += 10
    assert clock.over().data == {"verify_seconds": 190}, "ten and twice 90"
    assert clock.over(200.0).data == {"verify_seconds": 410}
    assert clock.over(20.0).data == {"verify_seconds": 410}, "no message names less than one before"


def test_of_a_long_limit_a_fifth_is_for_counted_work_whatever_else_the_machine_does(hands: Hands) -> None:
    assert [Clock(limit).budget for limit in (10.0, 60.0, 300.0, 1000.0)] == [10.0, 60.0, 60.0, 200.0]
    clock = Clock(300.0)
    hands.now += 200
    assert not clock.is_over
    for seconds in (30.0, 100.0):
        enough = int(clock.too_long(seconds).data["verify_seconds"])
        assert Clock(enough).budget >= seconds


@pytest.mark.parametrize(("seconds", "is_started"), [(4.0, True), (10.0, False)])
def test_a_runtime_that_will_not_be_asked_is_not_started(
    seconds: float, is_started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked follows from the budget, not from the limit on the clock."""
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr("bnfold.verification.session_seconds", lambda _: seconds)
    monkeypatch.setattr("bnfold.verification.helpers.start", lambda *command: started.append(command))
    start(VerifyOptions(verify_seconds=300), pair()[0])
    assert bool(started) == is_started


@pytest.mark.parametrize(("seconds", "limit"), [(0.2, 1), (7.1, 8), (42.0, 42), (123.2, 130), (1201.0, 1300)])
def test_a_limit_that_is_named_has_two_digits(seconds: float, limit: int) -> None:
    assert _rounded(seconds) == limit
