"""An existing Dask cluster as an executor. Scheduling, and retrying what a dead worker had in hand, is Dask's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from bnfold.errors import BadInput

if TYPE_CHECKING:
    from distributed import Client


class Cluster(Executor):
    """As `distributed.Client.get_executor`, whose futures never end if the scheduler dies while it sends a result."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: WeakSet[Any] = WeakSet()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do as `concurrent.futures.Executor.submit`."""
        answer: Future[Any] = Future()
        task = self._client.submit(fn, *args, pure=False, **kwargs)
        self._tasks.add(task)
        task.add_done_callback(partial(_pass_on, answer))
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - there is no other way
        """Cancel what is left."""
        self._client.cancel(list(self._tasks))


def _pass_on(answer: Future[Any], task: Any) -> None:
    try:
        answer.set_result(task.result())
    except Exception as error:  # noqa: BLE001 - the caller that waits for the answer judges it
        answer.set_exception(error)
    except BaseException:  # noqa: BLE001 - Dask cancels when it has lost the scheduler, and that is no Exception
        answer.set_exception(CancelledError())


@contextmanager
def connected(address: str, shared: Sequence[Path] = ()) -> Iterator[Executor]:
    """Return the cluster whose scheduler is at ``address``, or described by a scheduler file (``….json``).

    ``shared`` are plain paths that every worker has to see. What is queued when the block is left is cancelled.

    Raises:
        BadInput: It does not answer, or a worker there cannot do the work.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise BadInput("--scheduler needs Dask: pip install distributed") from error
    place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    if address.endswith(".json") and not os.path.isfile(address):  # noqa: PTH113 - Dask would wait for it
        raise BadInput(f"{address}: there is no such scheduler file")
    try:
        client = Client(**place, set_as_default=False)
    except Exception as error:  # a wrong address, certificates, no such file: each transport has its own
        raise BadInput(f"{address}: no Dask scheduler answers there: {error}") from error
    with client:
        _check(client, shared)
        pool = Cluster(client)
        try:
            yield pool
        finally:
            pool.shutdown()


def _check(client: Client, shared: Sequence[Path]) -> None:
    """Check the cluster before any work, by functions that every Python has: bnfold may be missing there."""
    here = metadata.version("bnfold")
    found = client.run(metadata.version, "bnfold", on_error="return")
    if not found:
        getLogger("bnfold").warning("the scheduler has no workers yet; waiting for them")
    for worker, there in found.items():
        if isinstance(there, metadata.PackageNotFoundError):
            raise BadInput(f"worker {worker} has no bnfold; install {here} there, as it is here")
        if isinstance(there, Exception):
            raise BadInput(f"worker {worker} does not answer: {there}")
        if there != here:
            raise BadInput(f"worker {worker} has bnfold {there}, and here it is {here}; install the same everywhere")
    for path in shared:
        for worker, seen in client.run(os.path.exists, str(path), on_error="return").items():
            if seen is not True:
                raise BadInput(f"{path}: worker {worker} does not see it; use a folder that all share, or a URL")
