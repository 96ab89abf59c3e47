"""An existing Dask cluster as an executor. Scheduling, and retrying what a dead worker had in hand, is Dask's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import metadata
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING

from bnfold.errors import BadInput

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def connected(address: str, shared: Sequence[Path] = ()) -> Iterator[Executor]:
    """The cluster whose scheduler is at ``address``, or described by a scheduler file (``….json``).

    ``shared`` are plain paths that every worker has to see. What is queued when the block is left is cancelled.

    Raises:
        BadInput: It does not answer, or a worker there cannot do the work.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise BadInput("--scheduler needs Dask: pip install bnfold[dask]") from error
    place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    if address.endswith(".json") and not os.path.isfile(address):  # noqa: PTH113 - Dask would wait for it
        raise BadInput(f"{address}: there is no such scheduler file")
    try:
        client = Client(**place, set_as_default=False)
    except Exception as error:  # a wrong address, certificates, no such file: each transport has its own
        raise BadInput(f"{address}: no Dask scheduler answers there: {error}") from error
    with client:
        _check(client, shared)
        pool = client.get_executor(pure=False)
        try:
            yield pool
        finally:
            pool.shutdown(wait=False)


def _check(client: Client, shared: Sequence[Path]) -> None:
    """Before any work: what is asked are functions that every Python has, for bnfold may be missing there."""
    here = metadata.version("bnfold")
    found = client.run(metadata.version, "bnfold", on_error="return")
    if not found:
        getLogger("bnfold").warning("the scheduler has no workers yet; waiting for them")
    for worker, there in found.items():
        if isinstance(there, metadata.PackageNotFoundError):
            raise BadInput(f"worker {worker} has no bnfold; install {here} there, as it is here")
        if there != here:
            raise BadInput(f"worker {worker} has bnfold {there}, and here it is {here}; install the same everywhere")
    for path in shared:
        for worker, seen in client.run(os.path.exists, str(path), on_error="return").items():
            if seen is not True:
                raise BadInput(f"{path}: worker {worker} does not see it; use a folder that all share, or a URL")
