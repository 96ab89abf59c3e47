"""Which tests are run on two models, and what verdict follows from what they found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from bnfold.ir.time_limit import LimitStruck, ends_at, look_at_clock
from bnfold.verification import sentences
from bnfold.verification.changes.control_flow import in_one_form
from bnfold.verification.changes.interface import (
    flaw,
    idle_inputs,
    interface_fault,
    narrowed,
    unlisted,
    unproven_promise,
    unread,
)
from bnfold.verification.changes.narrower import next_step
from bnfold.verification.changes.validity import new_error
from bnfold.verification.comparing.sizes import original_in_one_form
from bnfold.verification.end_to_end.obstacles import Broken, Impossible
from bnfold.verification.end_to_end.runtime_rejects import TAKEN, RuntimeOpinion, start_opinion
from bnfold.verification.parts import Parts, check_parts, cut_off
from bnfold.verification.request import Request
from bnfold.verification.subgraphs.verifier import SubgraphVerifier
from bnfold.verification.tolerance.rounding import PerturbedWeights
from bnfold.verification.verdict import TOO_FAR, LocalRow, Location, Status, Verdict

if TYPE_CHECKING:
    from bnfold.verification.end_to_end.examine import Whole

SubgraphPair = Callable[[], SubgraphVerifier]
"""Makes what compares the changed parts, on first use."""

Opinion = Callable[[], RuntimeOpinion]
"""Asks the runtime about the rewritten model, on first use."""


class Dearer(NamedTuple):
    """The cheap tests do not decide, so the whole models are compared in float64.

    ``why`` is the reason, empty for small models; ``fault`` is a difference that a runtime showed. ``differed``: a part
    did. All ``parts`` were compared, and are not looked for again if the whole models cannot be; None if some were not.
    ``opinion`` is that of a runtime that was given both models.
    """

    why: str = ""
    fault: str = ""
    parts: Parts | None = None
    differed: bool = False
    opinion: RuntimeOpinion = TAKEN


def judge(request: Request) -> Verdict:
    """Run the tests that the request's depth asks for, and decide.

    First the interface: inputs, outputs, and what is missing. Depth ``auto`` compares each changed part in float64 and
    the whole models in a runtime (`_in_layers`); only if that does not decide, the whole models in float64
    (`_in_depth`). Depth ``full`` begins with the whole models in float64, ``local`` compares parts alone. With a
    tolerance, the outputs of the whole models are compared in a runtime, and nothing else. All of it ends at the limit
    on the clock. If models differ because one is a narrower version of the other, the verdict says how to compare them.
    """
    try:
        with ends_at(request.clock.end):
            verdict = _judged(request)
    except LimitStruck:
        verdict = _verdict(request, "unverified", request.clock.over(), "nothing")
    if verdict.verified or request.cuts or request.checks.tolerance is not None:
        return verdict
    step = next_step(request.before, request.after)
    return replace(verdict, reason=f"{verdict.reason}; {step}") if step else verdict


def _judged(request: Request) -> Verdict:
    is_within = request.checks.tolerance is not None
    fault = interface_fault(request.before, request.after, any_float=is_within)
    if fault:
        return _verdict(request, "failed", fault, "interface")
    if missing := flaw(request.after):
        status: Status = "unverified" if flaw(request.before) else "failed"
        return _verdict(request, status, f"the rewritten model cannot be computed: {missing}", "interface")
    if is_within:
        from bnfold.verification.end_to_end.within import judge_within

        # It ran both models; a note says if the runtime did not run the original.
        return _as_declared(request, None, judge_within(request), lambda: TAKEN)
    with request.clock.phase("weights"):
        draws = PerturbedWeights(request.before, request.after)
    subgraphs = cache(partial(_verifier, request, draws))
    with start_opinion(request) as opinion:
        layered = _in_layers(request, draws, subgraphs, opinion)
        return layered if isinstance(layered, Verdict) else _in_depth(request, draws, subgraphs, opinion, layered)


def _verifier(request: Request, draws: PerturbedWeights) -> SubgraphVerifier:
    """Return what compares the changed parts, of models whose control flow is in one form."""
    before, after = original_in_one_form(request), in_one_form(request.after)
    if before is request.before and after is request.after:
        return SubgraphVerifier(request, draws)
    return SubgraphVerifier(replace(request, before=before, after=after, _found={}), PerturbedWeights(before, after))


def _in_depth(
    request: Request, draws: PerturbedWeights, subgraphs: SubgraphPair, opinion: Opinion, asked: Dearer
) -> Verdict:
    """Compare the whole models in float64, and by parts the changes that this comparison would not show."""
    try:
        whole, obstacle = _whole(request, draws, differed=asked.differed)
    except Broken as finding:
        return _unless_empty(request, _verdict(request, "failed", str(finding), "float64"))
    parts = asked.parts if whole is None and asked.parts is not None else _parts(request, subgraphs, whole)
    verdict = _decide(request, whole, obstacle, parts)
    if asked.fault and verdict.verified and whole is None:
        reason = f"the parts agree, but {asked.fault}"
        verdict = replace(verdict, status="unverified", reason=reason, decided_by="nothing")
    if asked.why and whole is not None:
        note = f"the whole models were compared in float64: {asked.why}"
        verdict = replace(verdict, notes=(*verdict.notes, note))
    if verdict.status == "failed":
        return _unless_empty(request, verdict)
    has_run = whole is not None and any(row.ran_after for row in whole.witnesses)
    given = asked.opinion if whole is None else whole.opinion
    if given.is_refusal:
        return _as_declared(request, whole, verdict, lambda: given)
    return _as_declared(request, whole, verdict, (lambda: TAKEN) if has_run else opinion)


def _unless_empty(request: Request, verdict: Verdict) -> Verdict:
    """Lower a failure to unverified if the models differ only when a declared size of 0 is read as dynamic.

    Not for bnfold's own rewrites (those with cuts): bnfold reads 0 as dynamic, so they have to hold for all sizes.
    """
    if request.cuts or verdict.decided_by == "interface":
        return verdict
    from bnfold.verification.end_to_end.empty import agree_as_declared

    if not agree_as_declared(request):
        return verdict
    reason = f"the models agree at the declared size 0, but not if 0 means a dynamic size: {verdict.reason}"
    return replace(verdict, status="unverified", reason=reason, decided_by="nothing", localised=None)


def _in_layers(
    request: Request, draws: PerturbedWeights, subgraphs: SubgraphPair, opinion: Opinion
) -> Verdict | Dearer:
    """Compare each part in float64 and the whole models in a runtime; return a verdict, or why that does not decide."""
    if request.checks.depth != "auto":
        return Dearer()
    from bnfold.verification.end_to_end.ort_check import start_guard

    with start_guard(request, draws) as wait:
        if wait is None:
            return Dearer()
        parts = _parts(request, subgraphs, None, True)
        with request.clock.phase("witness"):
            found = wait()
    # What changed in an announced part that cannot be compared is among the others.
    open_row = _failed(parts.rows) or next((row for row in parts.others if row.status != "verified"), None)
    if why := found.fault or found.doubt or (_sentence(open_row) if open_row is not None else ""):
        differed = _failed(parts.rows) is not None
        return Dearer(why, found.fault, parts if parts.are_all else None, differed, found.opinion)
    verdict = _by_parts(request, None, found.left_out, parts)
    if found.witness is not None and not found.left_out:
        whole = f"{found.witness.witness}: {'; '.join(found.witness.notes)}"
        reason = sentences.parts_agree(_checked(parts.rows), _kind(request), whole)
        verdict = replace(verdict, reason=reason, witnesses=(found.witness,), samples=1)
    has_run = found.witness is not None and found.witness.ran_after
    return _as_declared(request, None, verdict, (lambda: TAKEN) if has_run else opinion)


def _as_declared(request: Request, whole: Whole | None, verdict: Verdict, opinion: Opinion) -> Verdict:
    """Lower the verdict for a fault that no comparison of results shows.

    The rewritten model accepts fewer inputs than before, is not taken by a runtime that takes the original, is no valid
    model, promises an output shape without proof, or ignores an input.
    """
    if fault := narrowed(request.before, request.after):
        return replace(verdict, status="failed", reason=fault, decided_by="interface")
    is_open = whole is None or whole.doubt
    if verdict.verified and is_open and (reason := unproven_promise(request.before, request.after)):
        verdict = replace(verdict, status="unverified", reason=reason, decided_by="interface")
    verdict = _as_loaded(request, verdict, opinion())
    if verdict.verified and (reason := _ignored(request, whole.fed if whole is not None else ())):
        return replace(verdict, status="unverified", reason=reason, decided_by="interface")
    return verdict


def _as_loaded(request: Request, verdict: Verdict, opinion: RuntimeOpinion) -> Verdict:
    """Return the verdict in the light of a runtime's opinion, and of what onnx says of the rewritten model."""
    kind, text = opinion
    if opinion.is_refusal:
        is_excused = kind == "too old" and request.chose_version
        return replace(verdict, status="unverified" if is_excused else "failed", reason=text, decided_by="runtime")
    if invalid := new_error(request.before, request.after):
        is_failed = invalid.is_certain and kind != "taken"
        if is_failed or (verdict.verified and (invalid.is_certain or kind != "taken")):
            original = "the original is" if invalid.is_certain else "whether the original is cannot be told"
            reason = f"the rewritten model is no valid ONNX, and {original}: {invalid.text}"
            return replace(
                verdict, status="failed" if is_failed else "unverified", reason=reason, decided_by="interface"
            )
    if kind == "not looked" and text:
        note = f"{request.checks.runtime} did not look at the rewritten model: {text}"
        return replace(verdict, notes=(*verdict.notes, note))
    if kind == "neither":
        return replace(verdict, reason=f"{verdict.reason}; {text}")
    if kind == "doubt" and verdict.verified:
        return replace(verdict, status="unverified", reason=text, decided_by="runtime")
    return verdict


def _ignored(request: Request, fed: Collection[str]) -> str:
    """Return a sentence about inputs that only the original reads or takes, although no result shows it; else empty."""
    if names := unread(request.before, request.after, fed):
        return f"the inputs {names} are now unused; they were compared at their default values only"
    if names := idle_inputs(request.before, request.after):
        return f"the results are equal, but callers can no longer feed {sentences.listed(names)}, which nothing reads"
    return ""


def _whole(request: Request, draws: PerturbedWeights, *, differed: bool) -> tuple[Whole | None, str]:
    """Return the comparison of the whole models in float64, or the reason why there is none."""
    if request.checks.depth == "local":
        return None, "whole models were not compared (--verify local)"
    from bnfold.verification.end_to_end.examine import examine_whole  # as slow as comparing small parts

    try:
        look_at_clock()
        return examine_whole(request, draws, differs=differed), ""
    except Impossible as reason:
        return None, str(reason)
    except LimitStruck:
        return None, request.clock.over()


def _parts(request: Request, subgraphs: SubgraphPair, whole: Whole | None, is_first: bool = False) -> Parts:
    """Compare the changed parts. After the whole models, only those that they do not show, or to locate a fault."""
    if request.checks.depth == "full" and (whole is None or (whole.doubt and not whole.fault)):
        return Parts()
    with request.clock.phase("local"):
        try:
            return check_parts(subgraphs(), whole, is_first)
        except LimitStruck:
            return Parts(others=cut_off(request))


def _decide(request: Request, whole: Whole | None, obstacle: str, parts: Parts) -> Verdict:
    """Combine what was found; the first of these that applies decides.

    A fault of the whole models, a failed part, the parts where the whole is no evidence, a part that the whole does not
    show. Else the models are verified.
    """
    local = parts.rows
    decided = whole is not None and not whole.doubt
    broken = _failed(parts.announced if decided else local)
    if whole is not None and whole.fault:
        failed = broken or _failed(local)
        found = _location(failed) if failed is not None else whole.location
        return _verdict(request, "failed", whole.fault, whole.test, whole, parts.announced, found)
    if broken is not None:
        return _verdict(request, "failed", _sentence(broken), "local", whole, local, _location(broken))
    if whole is None or whole.doubt:
        return _by_parts(request, whole, obstacle if whole is None else whole.doubt, parts)
    unseen = next((row for row in parts.others if row.status != "verified"), None)
    if unseen is not None:
        reason = f"the whole models agree, but the inputs may not exercise every change: {_sentence(unseen)}"
        return _verdict(request, "unverified", reason, "nothing", whole, local)
    loose = f", of shapes that the operators take ({whole.pair.misfit})" if whole.pair.misfit else ""
    agree = sentences.agree(whole.rows, len(whole.seen), more=loose)
    return _verdict(request, "verified", agree, "float64", whole, local)


def _failed(rows: Sequence[LocalRow]) -> LocalRow | None:
    return next((row for row in rows if row.status == "failed"), None)


def _location(row: LocalRow) -> Location:
    return Location(row.outputs[0], row.label, row.relative)


def _sentence(row: LocalRow) -> str:
    if row.status == "skipped":
        return f"{row.label}: {row.note}"
    how_far = f" ({row.relative:.2g} of its largest value)" if row.note == TOO_FAR else ""
    return f"{row.label}: value {row.outputs[0]!r}: {row.note}{how_far}"


def _by_parts(request: Request, whole: Whole | None, obstacle: str, parts: Parts) -> Verdict:
    """Decide by the parts if the whole did not. They are verified only if none was skipped."""
    local = parts.rows
    skipped = [row for row in parts.others if row.status == "skipped"]
    if skipped:
        number = f"{len(skipped)} of {len(local)} changed parts"
        is_said = all("--verify-seconds" in said for said in (obstacle, skipped[0].note))  # once is enough
        first = skipped[0].label if is_said else _sentence(skipped[0])
        reason = f"{obstacle}; {number} could not be compared ({first})"
        return _verdict(request, "unverified", reason, "nothing", whole, local)
    if request.checks.depth == "full":
        return _verdict(request, "unverified", obstacle, "nothing", whole)
    reason = sentences.parts_agree(_checked(local), _kind(request))
    verdict = _verdict(request, "verified", reason, "local", whole, local)
    notes = [f"the whole models were not compared: {obstacle}"] if obstacle else []
    return replace(verdict, notes=(*notes, *verdict.notes))


def _checked(rows: Sequence[LocalRow]) -> int:
    return sum(row.status == "verified" for row in rows)


def _kind(request: Request) -> str:
    return "rewrite" if request.cuts else "changed part"


def _verdict(
    request: Request,
    status: Status,
    reason: str,
    decided_by: str,
    whole: Whole | None = None,
    local: Sequence[LocalRow] = (),
    localised: Location | None = None,
) -> Verdict:
    names = unlisted(request.before, request.after)
    notes = [f"constants that are no longer listed as inputs: {sentences.listed(names)}"] if names else []
    rows = whole.rows if whole else ()
    return Verdict(
        status=status,
        reason=reason,
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
