"""Libraries that compute take no more threads than there is work for; what runs beside the evaluator is not lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bnfold import ir
from bnfold.verification import verify
from bnfold.verification.end_to_end import ort_check
from bnfold.verification.request import Clock, Request
from bnfold.verification.runtimes import runtime, worker
from bnfold.verification.runtimes.threads import in_background, one_thread
from tests.verification.graphs import model, numbers


def test_blas_has_one_thread_meanwhile() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    outside = threads()
    with one_thread():
        assert set(threads()) <= {1}
    assert threads() == outside


def test_torch_has_one_thread_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    torch = SimpleNamespace(get_num_threads=lambda: 7, set_num_threads=seen.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with one_thread():
        assert seen == [1]
    assert seen == [1, 7]


def test_a_result_from_the_background_is_kept() -> None:
    with in_background(lambda: 7) as wait:
        pass
    assert wait() == wait() == 7


def test_an_error_in_the_background_is_raised_where_the_result_is_wanted() -> None:
    def fail() -> None:
        raise ValueError("no model")

    with in_background(fail) as wait, pytest.raises(ValueError, match="no model"):
        wait()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system binds no process to processors")
def test_a_runtime_takes_the_processors_that_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert worker.processors() == 1


BODY = "(float[N,3,8,8] x) => (float[N,4,6,6] y) { c = Conv (x, W)  y = Relu (c) }"


@pytest.mark.parametrize(
    ("depth", "little_time"),
    [("auto", 0.0), ("auto", 1.0), ("local", 1.0)],
    ids=["ort_check", "runtime_check", "runtime_rejects"],
)
def test_threads_share_no_mutable_object(depth: Any, little_time: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs beside other work is given files, arrays and numbers: no model, no request and no clock."""
    pytest.importorskip("onnxruntime")
    given: list[object] = []

    def watched(work: Callable[[], Any]) -> Any:
        given.extend(reachable(work))
        return in_background(work)

    monkeypatch.setattr(ort_check, "LITTLE_TIME", little_time)
    monkeypatch.setattr(runtime, "in_background", watched)
    weight = numbers(3).normal(size=(4, 3, 3, 3)).astype(np.float32)
    before, after = (ir.load(model(BODY.replace("y = Relu (c)", end), {"W": weight})) for end in ENDS)
    assert verify(before, after, depth=depth, runtime="onnxruntime").verified
    assert given
    assert not [item for item in given if isinstance(item, ir.Model | Request | Clock | ir.Value | ir.Node)]


ENDS = ("y = Relu (c)", "n = Neg (c)  r = Neg (n)  y = Relu (r)")


def reachable(work: object) -> list[object]:
    """What a function holds: its arguments, what it closes over, and what those hold."""
    found: list[object] = []
    waiting = [work]
    while waiting:
        item = waiting.pop()
        if any(item is other for other in found):
            continue
        found.append(item)
        if isinstance(item, partial):
            waiting += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, tuple | list):
            waiting += item
        elif isinstance(item, MethodType):
            waiting += [item.__self__]
        elif isinstance(item, FunctionType):
            waiting += [cell.cell_contents for cell in item.__closure__ or ()]
    return found
