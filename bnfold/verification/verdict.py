"""The result of a verification as data: one verdict, and its rows of evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bnfold.errors import brief, printable
from bnfold.settings import Tolerance, to_json
from bnfold.verification.claims import Evidence
from bnfold.verification.codes import Code

VerdictStatus = Literal["verified", "unverified", "failed"]
How = Literal["same", "constant", "tested", "differs", "open"]

_SHOWN = 20
"""Outputs that a notebook shows."""

TOO_FAR = "differs by more than rounding the new weights can cause"
"""The fault of an output that has the right shape and type …"""

BEYOND = "differs by more than the tolerance allows"
"""… and with a tolerance."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output of the whole model, on its worst sample.

    Errors are relative to ``scale``, the largest finite magnitude. ``max_abs``, ``rms``, ``relative`` and ``ulps``
    compare the two float64 evaluations. ``ulps`` counts units in the last place of the output's own type; elements that
    are tiny beside the scale are left out. ``allowed`` is the largest ``relative`` that rounding the new weights can
    explain. ``typical`` and ``typical_allowed`` are ``relative`` and ``allowed`` on the first sample, whose numbers are
    ordinary; those of others may be very large, tiny or constant. ``error_before`` and ``error_after`` compare the
    results of a runtime, in storage precision, with float64. They are None if no runtime ran the model. ``code`` says
    how the output differs; None if it agrees.

    All numbers are from end to end, each model with its own values. ``inside`` is the largest ``relative`` that is left
    where discontinuous operators (Round, ArgMax, …) of the rewritten model read the original's values, which is what
    ``allowed`` explains; None if there are no such operators.
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
    mean: float = 0.0
    beyond: float = 0.0
    code: Code | None = None
    inside: float | None = None

    @property
    def is_decided_by_rounding(self) -> bool:
        """Whether only discontinuous operators explain the difference from end to end."""
        return self.inside is not None and not self.fault and self.relative > self.allowed >= self.inside


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """The result of one runtime; bnfold's own kernels and recorded outputs are not ``independent``.

    ``agrees`` says whether it agrees with the reference evaluator on the *original*. It is None if that was not
    compared.
    """

    witness: str
    agrees: bool | None
    ran_before: bool
    ran_after: bool
    notes: tuple[str, ...] = ()
    independent: bool = True

    @property
    def said(self) -> str:
        """The runtime's name, and what is to be noted."""
        return f"{self.witness}: {'; '.join(self.notes)}"


@dataclass(frozen=True, slots=True)
class Location:
    """The first value that differs, and the rewrite that produced it (empty if no cut contains it)."""

    tensor: str
    rewrite: str
    relative: float


@dataclass(frozen=True, slots=True)
class NextStep:
    """What a caller can do about a result that is not verified.

    Attributes:
        text: One sentence, as the command line prints it.
        options: The options that it names, as they are typed; empty if no option helps.
        tried: Whether bnfold tried these options, and they verify the result.
    """

    text: str
    options: tuple[str, ...] = ()
    tried: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """What stands behind one value, or behind a verdict as a whole.

    Attributes:
        value: The value's name; empty if the answer is about the verdict, or about whatever is open or differs.
        graph: The path of its graph; empty for the main graph.
        how: ``same`` (the same operators compute it from values that are right), ``constant``, ``tested``, ``differs``
            or ``open``.
        code: The same, for programs.
        lines: The answer for people.
        claims: The evidence behind it, with what was run; none where nothing had to be.
    """

    value: str
    graph: str
    how: How
    code: Code
    lines: tuple[str, ...]
    claims: tuple[Evidence, ...] = ()

    def __str__(self) -> str:
        return "\n".join(brief(line, 160) for line in self.lines[:10])


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """``verified``: a test that covers every change passed. ``failed``: a difference that rounding cannot explain.

    ``unverified``: no difference was found that counts, but something is open: a part that could not be compared, an
    input that was not fed, an output shape that is promised without proof, or a doubt about the rewritten model in a
    runtime; ``reason`` says which. A model that cannot be run as a whole is still ``verified`` if every changed part
    was compared and the rest was shown to be identical. ``decided_by`` names the test: ``structure`` (the models differ
    in nothing but names), ``interface``, ``float64`` (whole models, by the reference evaluator), ``storage precision``
    (the error of a runtime against float64 grew), ``local`` (each changed part separately), ``tolerance`` (whole
    models, within the tolerance that was asked for), ``runtime`` (what it says of loading the rewritten model) or
    ``nothing``.

    Attributes:
        status: ``verified``, ``unverified`` or ``failed``.
        reason: One sentence that says why.
        decided_by: The test that decided.
        outputs: A row for each output of the whole model; empty if it was not run as a whole, or if values inside
            differ and those of no output.
        ``witnesses``: A row for each runtime, and one for recorded outputs.
        local: The evidence on each part that was compared separately, as far as it counts.
        samples: The number of samples (sets of inputs) that were compared.
        seed: The seed of the random inputs.
        localised: The first value that differs, and the rewrite that produced it.
        notes: Further remarks.
        tolerance: The tolerance that was asked for.
        seconds: Time by phase.
        code: What decided, for programs; `bnfold explain CODE` says what it means.
        ledger: All evidence, in the order in which it was found.
        next: What a caller can do about a result that is not verified; None if it was not asked for.
        explanation: What `VerifyOptions.explain` asks for; empty if nothing was asked.
    """

    status: VerdictStatus
    reason: str
    decided_by: str
    outputs: tuple[OutputRow, ...] = ()
    witnesses: tuple[RuntimeRow, ...] = ()
    local: tuple[Evidence, ...] = ()
    samples: int = 0
    seed: int = 0
    localised: Location | None = None
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    tolerance: Tolerance | None = None
    code: Code = field(kw_only=True)
    ledger: tuple[Evidence, ...] = ()
    next: NextStep | None = None
    explanation: tuple[Explained, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether the status is ``verified``."""
        return self.status == "verified"

    def __bool__(self) -> bool:
        """Whether the status is ``verified``, so that ``assert bnfold.verify(before, after)`` works."""
        return self.verified

    def __repr__(self) -> str:
        return f"<Verdict {brief(self.summary)}>"

    def _repr_html_(self) -> str:
        """Return the verdict for notebooks: its sentence, what helps, and a row for each of the first outputs."""
        from html import escape  # with its names of characters, as slow as this module

        mark = {"verified": "✓", "unverified": "?", "failed": "✗"}[self.status]
        lines = [f"<p><b>{mark} {escape(brief(self.summary, 2000))}</b></p>"]
        lines += [f"<p>next: {escape(brief(self.next.text, 2000))}</p>"] if self.next is not None else []
        if self.outputs:
            head = "".join(f"<th>{name}</th>" for name in ("output", "type", "shape", "differs by", "allowed"))
            rows = (
                (row.name, row.dtype, "×".join(map(str, row.shape)), f"{row.relative:.2g}", f"{row.allowed:.2g}")  # noqa: RUF001
                for row in self.outputs[:_SHOWN]
            )
            body = "".join(f"<tr>{''.join(f'<td>{escape(printable(cell))}</td>' for cell in row)}</tr>" for row in rows)
            lines.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
            more = len(self.outputs) - _SHOWN
            lines += [f"<p>{more} more outputs</p>"] if more > 0 else []
        return "\n".join(lines)

    @property
    def has_runtime(self) -> bool:
        """Whether an independent runtime ran the rewritten model."""
        return any(row.independent and row.ran_after for row in self.witnesses)

    @property
    def summary(self) -> str:
        """The status and its reason, as printed by the command line and reports."""
        if not self.verified:
            return f"{self.status.upper()}: {self.reason}"
        return f"{self.status}{'' if self.has_runtime else ' without an independent runtime'}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; numbers that JSON cannot express (nan, inf) become strings."""
        document = {"summary": self.summary, **dataclasses.asdict(dataclasses.replace(self, ledger=()))}
        del document["ledger"]
        for row in document["local"]:
            for name in ("experiments", "faults", "hidden", "example"):
                del row[name]
        plain: dict[str, Any] = to_json(document)
        return plain


def verdict_on(row: Evidence, decided_by: str, **known: Any) -> Verdict:
    """Return the verdict that evidence on the whole models decides by itself, with what else is ``known``."""
    is_open = row.status == "skipped"
    status: VerdictStatus = "failed" if row.status == "failed" else "unverified" if is_open else "verified"
    return Verdict(status, row.note, "nothing" if is_open else decided_by, code=row.code, **known)
