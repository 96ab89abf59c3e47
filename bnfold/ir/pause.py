"""Leave the garbage collector alone while a model is worked on, or spare it what stays."""

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
            if gc.get_count()[0] > gc.get_threshold()[0]:  # what has been built is looked through once, not twice
                gc.collect(1)
            gc.enable()


_NEVER = 1 << 30


@contextmanager
def collecting_what_is_young() -> Iterator[None]:
    """Do not look through all there is: two large models that stay would be searched again and again."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        if old != _NEVER:  # that of another thread, which sees to it
            gc.set_threshold(young, middle, old)
