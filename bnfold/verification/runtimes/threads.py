"""Threads: those of the libraries that compute, and one that waits for a runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TypeVar

ThreadResult = TypeVar("ThreadResult")


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS, and PyTorch where it is loaded, to one thread inside this context.

    Regions are small: a second thread gains little on an idle machine, and waits for its turn on a busy one. Threads
    that wait for each other spin, which takes what others need.
    """
    with ExitStack() as stack:
        from threadpoolctl import threadpool_limits  # where models are verified only

        stack.enter_context(threadpool_limits(1, user_api="blas"))
        if (torch := sys.modules.get("torch")) is not None:
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        yield


@contextmanager
def in_background(work: Callable[[], ThreadResult]) -> Iterator[Callable[[], ThreadResult]]:
    """Run ``work`` in a thread of its own; the yielded function waits for its result, or raises what it raised.

    The thread has ended after the block. `concurrent.futures` can do the same, but it imports `logging`, see
    `bnfold.log`.
    """
    results: list[ThreadResult] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
            errors.append(error)

    def wait() -> ThreadResult:
        thread.join()
        for error in errors:
            raise error
        return results[0]

    thread = Thread(target=run)
    thread.start()
    try:
        yield wait
    finally:
        thread.join()
