"""Claims about values, the evidence for each, and the ledger that holds both in the order in which they came about.

A claim says that some values of the rewritten model are those of the original, computed from given others. Evidence is
data: a code, numbers, and what was tried. Verdicts, reports and `--explain` are printed from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bnfold import log
from bnfold.verification.codes import Code

Status = Literal["verified", "failed", "skipped"]
Prover = Literal["interface", "part", "whole", "runtime", "checker"]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a claim is open, or differs: a code for programs, a sentence for people, and the numbers in it."""

    code: Code
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    @property
    def needs_time(self) -> bool:
        """Whether more time would help, and the reason says how much."""
        return "verify_seconds" in self.data

    def said(self, text: str) -> Why:
        """Return the same reason in a longer sentence."""
        return replace(self, text=text)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run of both sides on the same inputs.

    Attributes:
        shapes: The shape of each input.
        numbers: The kind of numbers that were drawn, or ``recorded``.
        found: ``tested`` if the results agree, else the code of what was found instead.
        relative: The largest difference, in units of the largest element of the result.
        allowed: What rounding the new weights explains, in the same units.
        hidden: How many possible faults have shown in no experiment so far.
        note: What was found, in words; empty if the results agree.
    """

    shapes: Mapping[str, tuple[int, ...]]
    numbers: str
    found: Code
    relative: float = 0.0
    allowed: float = 0.0
    hidden: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one claim: that ``outputs`` of ``graph`` are right if the values at ``boundary`` are.

    If the results are equal (``is_same``) but a fault would not have changed them, the claim is open (``skipped``). So
    it is if they are equal at some sizes only (``at_some_sizes``) of those that callers may feed.

    Attributes:
        label: What the claim is about, in words: a rewrite, or the node that changed.
        graph: The path of the graph; empty for the main graph.
        outputs: The names of the values.
        status: ``verified``, ``failed`` or ``skipped``.
        relative: The largest difference, in units of the largest element of the result.
        allowed: What rounding the new weights explains, in the same units.
        note: What was found, in words.
        code: What was found, for programs.
        data: The numbers in the note.
        boundary: The values that both sides were computed from.
        prover: What was asked.
        experiments: What was run, in order.
    """

    label: str
    graph: str
    outputs: tuple[str, ...]
    status: Status
    relative: float = 0.0
    allowed: float = 0.0
    note: str = ""
    is_same: bool = False
    at_some_sizes: bool = False
    code: Code = Code.TESTED
    data: Mapping[str, Any] = field(default_factory=dict)
    boundary: tuple[str, ...] = ()
    prover: Prover = "part"
    experiments: tuple[Experiment, ...] = ()

    @property
    def why(self) -> Why:
        """The code with its sentence."""
        return Why(self.code, self.note, self.data)

    def opened(self, why: Why) -> Evidence:
        """Return the claim as an open one, for this reason."""
        return replace(self, status="skipped", code=why.code, note=why.text, data=why.data)


class Ledger:
    """All evidence, in the order in which it was found."""

    def __init__(self) -> None:
        self._entries: list[Evidence] = []

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self._entries)

    def enter(self, evidence: Evidence) -> Evidence:
        """Add evidence, and log it; return it."""
        self._entries.append(evidence)
        claim = f"{evidence.label} in {evidence.graph}" if evidence.graph else evidence.label
        found = evidence.status, evidence.code, evidence.note
        log.debug(__name__, "%s: %s: %s [%s] %s", evidence.prover, claim, *found)
        for run in evidence.experiments:
            log.debug(__name__, "  %s numbers at %s: %s %s", run.numbers, dict(run.shapes), run.found, run.note)
        return evidence
