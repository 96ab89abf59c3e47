"""The verdict that follows from the evidence: the first fault, else the first open claim, else *verified*."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bnfold.verification import sentences
from bnfold.verification.changes.interface import idle_inputs, narrowed, new_error, unlisted, unproven_promise, unread
from bnfold.verification.claims import ClaimOutcome, Evidence, Prover, Why, about_whole
from bnfold.verification.codes import Code
from bnfold.verification.end_to_end.runtime_rejects import RuntimeOpinion
from bnfold.verification.parts import Parts
from bnfold.verification.request import Request
from bnfold.verification.verdict import Location, Verdict, VerdictStatus

if TYPE_CHECKING:
    from bnfold.verification.end_to_end.examine import Whole

Opinion = Callable[[], RuntimeOpinion]
"""Asks the runtime about the rewritten model, on first use."""


def as_declared(request: Request, whole: Whole | None, verdict: Verdict, opinion: Opinion) -> Verdict:
    """Lower the verdict for a fault that no comparison of results shows.

    The rewritten model accepts fewer inputs than before, is not taken by a runtime that takes the original, is no valid
    model, promises an output shape without proof, or ignores an input.
    """
    if fault := narrowed(request.before, request.after):
        return _as_stated(request, verdict, "failed", Why(Code.INTERFACE, fault))
    has_run = whole is not None and whole.doubt is None
    if verdict.verified and (reason := unproven_promise(request.before, request.after, has_run=has_run)):
        verdict = _as_stated(request, verdict, "unverified", Why(Code.PROMISE, reason))
    verdict = _as_loaded(request, verdict, opinion())
    if verdict.verified and (reason := _ignored(request, whole.fed if whole is not None else ())):
        return _as_stated(request, verdict, "unverified", Why(Code.UNFED, reason))
    return verdict


def _as_loaded(request: Request, verdict: Verdict, opinion: RuntimeOpinion) -> Verdict:
    """Return the verdict in the light of a runtime's opinion, and of what onnx says of the rewritten model."""
    kind, text = opinion
    is_excused = kind == "too old" and request.chose_version
    if opinion.is_refusal and not (is_excused and verdict.status == "unverified"):
        return lowered(verdict, "unverified" if is_excused else "failed", Why(opinion.code, text), "runtime")
    if invalid := new_error(request.before, request.after):
        is_failed = invalid.is_certain and kind != "taken"
        if is_failed or (verdict.verified and (invalid.is_certain or kind != "taken")):
            original = "the original is" if invalid.is_certain else "whether the original is cannot be told"
            reason = f"the rewritten model is no valid ONNX, and {original}: {invalid.text}"
            why = Why(Code.INVALID if invalid.is_certain else Code.UNCERTAIN, reason)
            return _as_stated(request, verdict, "failed" if is_failed else "unverified", why, "checker")
    if kind == "not looked" and text:
        note = f"{request.checks.runtime} did not look at the rewritten model: {text}"
        return replace(verdict, notes=(*verdict.notes, note))
    if kind in ("neither", "too old"):
        return replace(verdict, reason=f"{verdict.reason.removesuffix('.')}; {text}")
    if kind == "doubt" and verdict.verified:
        return lowered(verdict, "unverified", Why(opinion.code, text), "runtime")
    return verdict


def enter_stated(request: Request, status: VerdictStatus, why: Why, prover: Prover) -> None:
    """Enter in the ledger what follows from what the models state, or from what onnx says of the rewritten one."""
    outcome = ClaimOutcome(fault=why) if status == "failed" else ClaimOutcome(doubt=why)
    request.ledger.enter(about_whole(request.outputs, outcome, prover=prover))


def _as_stated(
    request: Request, verdict: Verdict, status: VerdictStatus, why: Why, prover: Prover = "interface"
) -> Verdict:
    """Lower the verdict for that, with its evidence in the ledger."""
    enter_stated(request, status, why, prover)
    return lowered(verdict, status, why, "interface")


def lowered(verdict: Verdict, status: VerdictStatus, why: Why, decided_by: str) -> Verdict:
    """Return the verdict with another status, for this reason."""
    return replace(verdict, status=status, reason=why.text, code=why.code, decided_by=decided_by)


def _ignored(request: Request, fed: Collection[str]) -> str:
    """Return a sentence about inputs that only the original reads or takes, although no result shows it; else empty."""
    if names := unread(request.before, request.after, fed):
        return f"the inputs {names} are now unused; they were compared at their default values only"
    if names := idle_inputs(request.before, request.after):
        return f"the results are equal, but callers can no longer feed {sentences.listed(names)}, which nothing reads"
    return ""


def conclude(request: Request, whole: Whole | None, obstacle: Why | None, parts: Parts) -> Verdict:
    """Combine what was found; the first of these that applies decides.

    A fault of the whole models, a failed part, the parts where the whole is no evidence, a part that the whole does not
    show. Else the models are verified.
    """
    local = parts.rows
    decided = whole is not None and whole.doubt is None
    broken = first_failed(parts.announced if decided else local)
    if whole is not None and whole.fault is not None:
        failed = broken or first_failed(local)
        found = _location(failed) if failed is not None else whole.location
        return verdict_of(request, "failed", whole.fault, whole.test, whole, parts.announced, found)
    if broken is not None:
        return verdict_of(request, "failed", sentence_of(broken), "local", whole, local, _location(broken))
    if whole is None or whole.doubt is not None:
        return by_parts(request, whole, obstacle if whole is None else whole.doubt, parts)
    unseen = next((row for row in parts.others if row.status != "verified"), None)
    if unseen is not None:
        why = sentence_of(unseen)
        why = why.said(f"the whole models agree, but the inputs may not exercise every change: {why}")
        return verdict_of(request, "unverified", why, "nothing", whole, local)
    loose = f", of shapes that the operators take ({whole.pair.misfit})" if whole.pair.misfit else ""
    agree = sentences.agree(whole.rows, len(whole.seen), more=loose)
    return verdict_of(request, "verified", Why(Code.TESTED, agree), "float64", whole, local)


def first_failed(rows: Sequence[Evidence]) -> Evidence | None:
    """Return the first claim that differs."""
    return next((row for row in rows if row.status == "failed"), None)


def _location(row: Evidence) -> Location:
    return Location(row.outputs[0], row.label, row.relative)


def sentence_of(row: Evidence) -> Why:
    """Return why a claim is open, or how it differs, with the part's name in the sentence."""
    if row.status == "skipped":
        return row.why.said(f"{row.label}: {row.note}")
    how_far = f" ({row.relative:.2g} of its largest value)" if row.code is Code.DIFFERS else ""
    return row.why.said(f"{row.label}: value {row.outputs[0]!r}: {row.note}{how_far}")


def by_parts(request: Request, whole: Whole | None, obstacle: Why | None, parts: Parts) -> Verdict:
    """Decide by the parts if the whole did not. They are verified only if none was skipped."""
    local = parts.rows
    skipped = [row for row in parts.others if row.status == "skipped"]
    if skipped:
        number = f"{len(skipped)} of {len(local)} changes"
        is_said = obstacle is not None and obstacle.needs_time and skipped[0].why.needs_time  # once is enough
        first = skipped[0].label if is_said else sentence_of(skipped[0])
        reason = f"{obstacle}; {number} could not be verified ({first})"
        return verdict_of(request, "unverified", skipped[0].why.said(reason), "nothing", whole, local)
    if request.checks.depth == "full" and obstacle is not None:
        return verdict_of(request, "unverified", obstacle, "nothing", whole)
    why = Why(Code.TESTED if local else Code.SAME, sentences.parts_agree(number_verified(local), kind_of_part(request)))
    verdict = verdict_of(request, "verified", why, "local", whole, local)
    notes = [f"the whole models were not compared: {obstacle}"] if obstacle is not None else []
    return replace(verdict, notes=(*notes, *verdict.notes))


def number_verified(rows: Sequence[Evidence]) -> int:
    """Return how many claims are verified."""
    return sum(row.status == "verified" for row in rows)


def kind_of_part(request: Request) -> str:
    """Return the word for a part: rewrites say where they happened, changes of other tools are found."""
    return "rewrite" if request.cuts else "change"


def verdict_of(
    request: Request,
    status: VerdictStatus,
    why: Why,
    decided_by: str,
    whole: Whole | None = None,
    local: Sequence[Evidence] = (),
    localised: Location | None = None,
) -> Verdict:
    """Return the verdict, with the rows of the evidence that it rests on."""
    names = unlisted(request.before, request.after)
    notes = [f"constants that are no longer listed as inputs: {sentences.listed(names)}"] if names else []
    rows = whole.rows if whole else ()
    return Verdict(
        status=status,
        reason=why.text,
        code=why.code,
        decided_by=decided_by,
        # Outputs that agree say nothing about values inside that differ: they may have been compared behind those.
        outputs=rows if status != "failed" or decided_by == "interface" or any(row.fault for row in rows) else (),
        witnesses=whole.witnesses if whole else (),
        local=tuple(local),
        samples=len(whole.seen) if whole else 0,
        seed=request.checks.seed,
        tolerance=request.checks.tolerance,
        localised=localised,
        notes=(*(whole.notes if whole else ()), *notes),
        seconds=dict(request.clock.seconds),
    )
