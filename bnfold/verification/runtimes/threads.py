"""Threads of the libraries that compute. Those that wait for each other spin, which takes what others need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS, and PyTorch where it is loaded, to one thread inside this context.

    Regions are small: a second thread gains little on an idle machine, and waits for its turn on a busy one.
    """
    with ExitStack() as stack:
        from threadpoolctl import threadpool_limits  # where models are verified only

        stack.enter_context(threadpool_limits(1, user_api="blas"))
        if (torch := sys.modules.get("torch")) is not None:
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        yield
