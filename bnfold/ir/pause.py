"""Leave the garbage collector alone for a while."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Building the index makes hundreds of thousands of objects that all stay: collecting between them is wasted."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                # To the oldest generation with them, without a look at each: they are here to stay.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
