"""What a verification found, as data: one verdict, and the rows of evidence under it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bnfold.settings import to_json

Status = Literal["verified", "unverified", "failed"]

TOO_FAR = "differs by more than rounding the new weights can cause"
"""The fault of numbers of one shape and type."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output of the whole model, worst sample. Errors are relative to ``scale``, the largest finite magnitude.

    ``max_abs``, ``rms``, ``relative`` and ``ulps`` compare the two float64 evaluations; ``ulps`` counts units in the
    last place of the output's own type, over elements that are not tiny beside the scale. ``allowed`` is the largest
    ``relative`` that rounding the new weights can explain; ``typical`` and ``typical_allowed`` are these two on the
    first input, which is an ordinary one where others are very large, tiny or constant. ``error_before`` and
    ``error_after`` are what a runtime in storage precision makes of the two models, against float64 (None: no runtime
    ran it).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float
    max_abs: float
    rms: float
    relative: float
    ulps: float
    allowed: float
    same_pattern: bool
    error_before: float | None = None
    error_after: float | None = None
    fault: str = ""
    typical: float = 0.0
    typical_allowed: float = 0.0


@dataclass(frozen=True, slots=True)
class WitnessRow:
    """What an independent runtime says. ``agrees``: with the referee on the *original*; None if it did not run it."""

    witness: str
    agrees: bool | None
    ran_before: bool
    ran_after: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalRow:
    """One rewrite checked on its own: ``verified``, ``failed`` or ``skipped`` (then ``note`` has the reason).

    Skipped is also what computes the same (``is_same``), but would with a fault as well.
    """

    label: str
    graph: str
    outputs: tuple[str, ...]
    status: Literal["verified", "failed", "skipped"]
    relative: float = 0.0
    allowed: float = 0.0
    note: str = ""
    is_same: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """The first value that differs, and the rewrite that made it (empty where no cut covers it)."""

    tensor: str
    rewrite: str
    relative: float


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """``verified``: a test that covers every change passed. ``failed``: a difference that rounding cannot explain.

    ``unverified``: neither the whole model nor each changed part could be compared; ``reason`` says why. A model that
    cannot be run whole, with every changed part compared and all else proven unchanged, is ``verified``. ``decided_by``
    names the test: ``interface``, ``float64`` (whole models against the referee), ``storage precision`` (a runtime's
    error against float64 grew), ``local`` (each changed part on its own) or ``nothing``.

    Attributes:
        status: ``verified``, ``unverified`` or ``failed``.
        reason: One sentence that says why.
        decided_by: The test that decided.
        outputs: A row for each output of the whole model; empty where it was not run whole.
        witnesses: What runtimes, and recorded outputs, say of the original.
        local: A row for each rewrite that was checked on its own.
        samples: How many inputs were compared.
        seed: Of the random inputs.
        localised: The first value that differs, and the rewrite that made it.
        notes: What else a reader should know.
        seconds: Time by phase.
    """

    status: Status
    reason: str
    decided_by: str
    outputs: tuple[OutputRow, ...] = ()
    witnesses: tuple[WitnessRow, ...] = ()
    local: tuple[LocalRow, ...] = ()
    samples: int = 0
    seed: int = 0
    localised: Location | None = None
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """Whether the status is ``verified``."""
        return self.status == "verified"

    def __bool__(self) -> bool:
        """Whether the status is ``verified``: ``assert bnfold.verify(before, after)`` means what it says."""
        return self.verified

    def __repr__(self) -> str:
        return f"<Verdict {self.summary}>"

    @property
    def summary(self) -> str:
        """The status and why, as the command line and reports say it."""
        return f"{self.status if self.verified else self.status.upper()}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; numbers that JSON has no word for (nan, inf) become strings."""
        plain: dict[str, Any] = to_json({"summary": self.summary, **dataclasses.asdict(self)})
        return plain
