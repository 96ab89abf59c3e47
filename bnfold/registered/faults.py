"""What callers' functions did wrong: each fault is logged once a run, and collected for the run's report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from bnfold import log
from bnfold.registered.table import RegisteredOperator


@dataclass(frozen=True, slots=True, eq=False)
class Faults:
    """The messages of one run, each once, and the operators whose shape functions are not asked any more."""

    messages: dict[str, None] = field(default_factory=dict)
    distrusted: set[RegisteredOperator] = field(default_factory=set)


_RUN: ContextVar[Faults | None] = ContextVar("faults of callers' functions", default=None)


@contextmanager
def collected() -> Iterator[Faults]:
    """Yield the faults that are reported in the block."""
    token = _RUN.set(run := Faults())
    try:
        yield run
    finally:
        _RUN.reset(token)


def tell_fault(text: str, *, distrusts: RegisteredOperator | None = None) -> None:
    """Log a fault of a caller's function, and add it to those of the run."""
    run = _RUN.get()
    if run is None or text not in run.messages:
        log.warning(__name__, "%s", text)
    if run is not None:
        run.messages[text] = None
    if run is not None and distrusts is not None:
        run.distrusted.add(distrusts)


def is_distrusted(operator: RegisteredOperator) -> bool:
    """Whether the operator's shape function contradicts the model at hand."""
    run = _RUN.get()
    return run is not None and operator in run.distrusted


def described(error: Exception) -> str:
    """Return what a caller's function raised, on one line."""
    return f"raised {type(error).__name__}: {' '.join(str(error).split())}"
