"""The phases of a case: a death or a hang in another program's code is no finding of bnfold's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

tell: Callable[[str], None] = lambda _: None  # noqa: E731 - the worker puts its own here


entered = False
"""Whether another program's code has run since this was last set to False."""


@contextlib.contextmanager
def theirs(what: str) -> Iterator[None]:
    """Run the block as code of the program ``what``."""
    global entered  # noqa: PLW0603 - one worker, one case at a time
    tell(what)
    entered = True
    yield
    tell("")


def own() -> None:
    """Return to bnfold's own code: its limit of processor time begins anew."""
    tell("")
