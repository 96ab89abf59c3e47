"""Claims about values, the evidence for each, and the ledger that holds both in the order in which they came about.

A claim says that some values of the rewritten model are those of the original, computed from given others. Evidence is
data: a code, numbers, and what was tried. Verdicts, reports and `--explain` are printed from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bnfold import log
from bnfold.errors import brief
from bnfold.verification.codes import Code

Status = Literal["verified", "failed", "skipped"]
Prover = Literal["interface", "part", "whole", "runtime", "checker"]
"""What was asked: what the models state of inputs and outputs, a comparison, or what onnx says of the model."""
SampleKind = Literal["normal", "large", "tiny", "constant", "at mean"]
"""How the numbers of a sample are drawn."""

NumberKind = Literal[SampleKind, "drawn", "zeros", "far", "recorded", "as in an equal part"]
"""The numbers of an experiment: drawn as one kind, or somehow; with zeros among them; far from those; or others'."""

EvidenceDatum = str | int | float
Feeds = Mapping[str, Any]
"""Arrays by the names of the values that they are fed to."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a claim is open, or differs: a code for programs, a sentence for people, and the numbers in it."""

    code: Code
    text: str
    data: Mapping[str, EvidenceDatum] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    @property
    def needs_time(self) -> bool:
        """Whether more time would help, and the reason says how much."""
        return "verify_seconds" in self.data

    def said(self, text: str) -> Why:
        """Return the same reason in a longer sentence."""
        return replace(self, text=text)


AGREED = Why(Code.TESTED, "")
"""What results that agree mean, if nothing more is to be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOutcome:
    """What experiments on one claim found: on a part or on whole models, in float64 or in a runtime.

    The results differ (``fault``), or there is a ``doubt``: they do not count, or there are none. Else they agree.
    """

    fault: Why | None = None
    doubt: Why | None = None

    @property
    def status(self) -> Status:
        """What follows for the claim."""
        return "failed" if self.fault is not None else "skipped" if self.doubt is not None else "verified"

    @property
    def differs(self) -> bool:
        """Whether the results differ."""
        return self.status == "failed"

    @property
    def agrees(self) -> bool:
        """Whether the results agree, and count."""
        return self.status == "verified"

    @property
    def is_open(self) -> bool:
        """Whether the claim stays open."""
        return self.status == "skipped"

    def has_doubt(self, code: Code) -> bool:
        """Whether it stays open for this reason."""
        return self.doubt is not None and self.doubt.code is code


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run of both sides on the same inputs.

    Attributes:
        shapes: The shape of each input.
        numbers: What the inputs were: numbers drawn as one of five kinds; just ``drawn``, if by a runtime's comparison;
            drawn with ``zeros`` of one sign among them; ``far`` from those; ``recorded``; or ``as in an equal part``.
        found: ``tested`` if the results agree, else the code of what was found instead.
        relative: The largest difference, in units of the largest element of the result.
        allowed: What rounding the new weights explains, in the same units.
        hidden: How many possible faults have shown in no experiment so far.
        note: What was found, in words; empty if the results agree.
    """

    shapes: Mapping[str, tuple[int, ...]]
    numbers: NumberKind
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
        faults: How many possible faults the results had to show: a wrong weight, attribute or size, each tried in turn.
        hidden: How many of them no result has shown.
        example: The first of those, in words.
    """

    label: str
    graph: str
    outputs: tuple[str, ...]
    status: Status = "skipped"
    relative: float = 0.0
    allowed: float = 0.0
    note: str = ""
    is_same: bool = False
    at_some_sizes: bool = False
    code: Code = Code.TESTED
    data: Mapping[str, EvidenceDatum] = field(default_factory=dict)
    boundary: tuple[str, ...] = ()
    prover: Prover = "part"
    experiments: tuple[Experiment, ...] = ()
    faults: int = 0
    hidden: int = 0
    example: str = ""

    def __str__(self) -> str:
        where = f" in {self.graph}" if self.graph else ""
        note = f": {self.note}" if self.note else ""
        return brief(f"{self.label}{where}: {self.status} [{self.code}]{note}")

    @property
    def why(self) -> Why:
        """The code with its sentence."""
        return Why(self.code, self.note, self.data)

    def opened(self, why: Why) -> Evidence:
        """Return the claim as an open one, for this reason."""
        return with_outcome(self, ClaimOutcome(doubt=why))


def with_outcome(row: Evidence, outcome: ClaimOutcome, agreed: Why = AGREED) -> Evidence:
    """Return the claim with what experiments found; ``agreed`` is what that means if the results agree."""
    why = outcome.fault or outcome.doubt or agreed
    return replace(row, status=outcome.status, code=why.code, note=why.text, data=why.data)


def about_whole(
    outputs: Sequence[str],
    outcome: ClaimOutcome,
    agreed: Why = AGREED,
    experiments: tuple[Experiment, ...] = (),
    prover: Prover = "whole",
) -> Evidence:
    """Return evidence on the whole models: that their outputs are right, whatever callers feed."""
    row = Evidence("the whole models", "", tuple(outputs), prover=prover, experiments=experiments)
    worst = max(experiments, key=lambda run: run.relative, default=None)
    if worst is not None:
        row = replace(row, relative=worst.relative, allowed=worst.allowed)
    return with_outcome(row, outcome, agreed)


@dataclass(slots=True)
class Runs:
    """The experiments of one claim, in order, and what each of them was fed, if it ``keeps`` that."""

    keeps: bool = False
    experiments: list[Experiment] = field(default_factory=list)
    feeds: list[Feeds] = field(default_factory=list)

    def add(self, run: Experiment, feeds: Feeds) -> None:
        """Note an experiment."""
        self.experiments.append(run)
        if self.keeps:
            self.feeds.append(feeds)


class Ledger:
    """All evidence, in the order in which it was found; if it ``keeps`` them, the inputs of each experiment as well."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.keeps = keeps
        self._entries: list[Evidence] = []
        self._feeds: list[tuple[Evidence, Sequence[Feeds]]] = []

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self._entries)

    def feeds(self, evidence: Evidence) -> Sequence[Feeds]:
        """Return what the experiments of this evidence were fed, in their order; nothing if that was not kept."""
        of_same = (feeds for entry, feeds in reversed(self._feeds) if _are_of_same(entry, evidence))
        return next(of_same, ())

    def enter(self, evidence: Evidence, feeds: Sequence[Feeds] = ()) -> Evidence:
        """Add evidence, and log it; return it. ``feeds`` are the inputs of its experiments."""
        self._entries.append(evidence)
        if self.keeps:
            self._feeds.append((evidence, tuple(feeds)))
        claim = f"{evidence.label} in {evidence.graph}" if evidence.graph else evidence.label
        found = evidence.status, evidence.code, evidence.note
        log.debug(__name__, "%s: %s: %s [%s] %s", evidence.prover, claim, *found)
        for run in evidence.experiments:
            log.debug(__name__, "  inputs (%s) at %s: %s %s", run.numbers, dict(run.shapes), run.found, run.note)
        return evidence


def _are_of_same(one: Evidence, other: Evidence) -> bool:
    """Whether evidence is on the same claim, from the same experiments: what was concluded may have changed since."""
    names = [(each.graph, each.outputs, each.boundary, each.experiments) for each in (one, other)]
    return names[0] == names[1]
