"""Leave the garbage collector alone while a model is worked on, and clean up before the next one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from bnfold.classes import mutable

MANY = 200_000
"""Objects, about 30 MB of them."""


@mutable
class _Oldest:
    """What went to the oldest generation since it was last looked at, and what was there then, in objects."""

    moved: int = 0
    survived: int = 0


_oldest = _Oldest()


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
                _move_to_the_oldest()
            gc.enable()


def collect_earlier_models() -> None:
    """Models are cycles of objects; those that nobody has any more go when they have become many.

    The collector by itself would not look: `_move_to_the_oldest` sets its counters back.
    """
    if not gc.isenabled() or _oldest.moved < max(MANY, _oldest.survived // 4):
        return
    _oldest.survived = max(0, _oldest.survived + _oldest.moved - gc.collect())
    _oldest.moved = 0


def _move_to_the_oldest() -> None:
    """Without a look at each: they are here to stay."""
    _oldest.moved += gc.get_count()[0]
    gc.freeze()
    gc.unfreeze()
