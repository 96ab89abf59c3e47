"""What a verification found, as data: one verdict, and the rows of evidence under it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bnfold.settings import to_json

Status = Literal["verified", "unverified", "failed"]


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


@dataclass(frozen=True, slots=True)
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

    @property
    def summary(self) -> str:
        """The status and why, in one line; of a verified model the largest difference, and what rounding explains."""
        if self.status != "verified" or self.decided_by == "storage precision":
            return f"{self.status if self.verified else self.status.upper()}: {self.reason}"
        if not self.outputs:
            checked = sum(row.status == "verified" for row in self.local)
            each = f"{checked} rewrite{'s' * (checked > 1)} compared one by one in float64"
            whole = "".join(f"; whole models in {row.witness}: {note}" for row in self.witnesses for note in row.notes)
            return f"verified: {each if self.local else 'nothing that is computed has changed'}{whole}"
        inputs = f"{self.samples} input{'s' * (self.samples > 1)}"
        relative, allowed = told_difference(self.outputs)
        if not relative:
            return f"verified: no difference in float64, on {inputs}"
        is_typical = self.samples > 1 and any(row.typical for row in self.outputs)
        return f"verified: {_differ(relative, allowed, f'typical one of {inputs}' if is_typical else inputs)}"

    @property
    def stress(self) -> str:
        """The largest difference on all inputs, where some are not typical; else empty."""
        worst = max(self.outputs, key=lambda row: row.relative, default=None)
        if worst is None or self.samples < 2 or worst.relative == max(row.typical for row in self.outputs):
            return ""
        return _differ(worst.relative, worst.allowed, f"all {self.samples} inputs, some very large, tiny or constant")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; numbers that JSON has no word for (nan, inf) become strings."""
        plain: dict[str, Any] = to_json({"summary": self.summary, **dataclasses.asdict(self)})
        return plain


def told_difference(rows: Sequence[OutputRow]) -> tuple[float, float]:
    """The difference that people are told, and what rounding explains of it: on the first input, which is typical.

    Where that shows none, on any other.
    """
    typical = max(rows, key=lambda row: row.typical)
    if typical.typical:
        return typical.typical, typical.typical_allowed
    worst = max(rows, key=lambda row: row.relative)
    return worst.relative, worst.allowed


def _differ(relative: float, allowed: float, inputs: str) -> str:
    return (
        f"outputs differ by at most {relative:.1e} of their largest value (float64, {inputs}); "
        f"rounding the new weights explains up to {allowed:.1e}"
    )
