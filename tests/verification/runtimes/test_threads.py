"""Libraries that compute take no more threads than there is work for; what runs beside the evaluator is not lost."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from bnfold.verification.runtimes import worker
from bnfold.verification.runtimes.threads import in_background, one_thread


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
