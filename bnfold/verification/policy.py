"""Which provers are asked, in which order, and at what price: what decides is what is cheapest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from bnfold import log, reference
from bnfold.ir.time_limit import LimitStruck, ends_at, look_at_clock
from bnfold.verification import sentences
from bnfold.verification.changes.control_flow import in_one_form
from bnfold.verification.changes.inlined import with_common_functions
from bnfold.verification.changes.interface import flaw, interface_fault
from bnfold.verification.claims import ClaimOutcome, Evidence, Prover, Why, about_whole
from bnfold.verification.codes import Code
from bnfold.verification.comparing.outputs import experiment
from bnfold.verification.comparing.sizes import original_in_one_form
from bnfold.verification.conclusion import (
    Opinion,
    as_declared,
    by_parts,
    conclude,
    enter_stated,
    first_failed,
    kind_of_part,
    lowered,
    number_verified,
    sentence_of,
    verdict_of,
)
from bnfold.verification.end_to_end.runtime_rejects import TAKEN, RuntimeOpinion, start_opinion
from bnfold.verification.obstacles import Broken, NotCompared
from bnfold.verification.parts import Parts, check_parts, cut_off
from bnfold.verification.request import Request
from bnfold.verification.subgraphs.verifier import SubgraphVerifier
from bnfold.verification.tolerance.rounding import PerturbedWeights
from bnfold.verification.verdict import Verdict, VerdictStatus

if TYPE_CHECKING:
    from bnfold.verification.end_to_end.examine import Whole
    from bnfold.verification.end_to_end.ort_check import Guard

VerifierFactory = Callable[[], SubgraphVerifier]
"""Makes the verifier of the changed parts, on first use."""


class NeedsFullComparison(NamedTuple):
    """The cheap tests do not decide, so the whole models are compared in float64.

    ``why`` is the reason, None for small models; ``fault`` is a difference that a runtime showed. ``differed``: a part
    did. All ``parts`` were compared, and are not looked for again if the whole models cannot be; None if some were not.
    ``opinion`` is that of a runtime that was given both models.
    """

    why: Why | None = None
    fault: Why | None = None
    parts: Parts | None = None
    differed: bool = False
    opinion: RuntimeOpinion = TAKEN


def judge(request: Request) -> Verdict:
    """Run the tests that the request's depth asks for, and decide.

    First the interface: inputs, outputs, and what is missing. Depth ``auto`` begins with the whole models in float64 if
    they are small (`_compare_whole`). It compares larger ones in a runtime and each changed part in float64
    (`_compare_parts_and_runtime`), and the whole models in float64 if that does not decide. Depth ``full`` begins with
    the whole models in float64, ``local`` compares parts alone. With a tolerance, the outputs of the whole models are
    compared in a runtime. At any depth, what the models state, and whether a runtime loads the result, may lower the
    verdict in the end. All of it ends at the limit on the clock.
    """
    try:
        with ends_at(request.clock.end):
            verdict = _judged(request)
    except LimitStruck:
        over = request.clock.over()
        request.ledger.enter(about_whole(request.outputs, ClaimOutcome(doubt=over)))
        verdict = verdict_of(request, "unverified", over, "nothing")
    log.debug(__name__, "%s, decided by %s [%s]: %s", verdict.status, verdict.decided_by, verdict.code, verdict.reason)
    word = reference.callers_word(node for model in (request.before, request.after) for node in model.nodes())
    verdict = _unless_contradicted(verdict, word)
    return replace(verdict, ledger=tuple(request.ledger), notes=(*verdict.notes, *([word] if word else [])))


def _unless_contradicted(verdict: Verdict, word: str) -> Verdict:
    """Lower a verdict on a caller's ``word`` for a kernel to unverified if a runtime computes something else."""
    row = next((row for row in verdict.witnesses if row.independent and row.agrees is False), None)
    if row is None or not (word and verdict.verified):
        return verdict
    why = Why(Code.CONTRADICTED, f"{row.witness} contradicts kernels that were registered: {'; '.join(row.notes)}")
    return lowered(verdict, "unverified", why, "runtime")


def _judged(request: Request) -> Verdict:
    is_within = request.checks.tolerance is not None
    _next(request, "inputs and outputs", "they cost nothing to compare")
    fault = interface_fault(request.before, request.after, any_float=is_within)
    if fault:
        return _stated(request, "failed", Why(Code.INTERFACE, fault), "interface")
    if missing := flaw(request.after):
        if own := flaw(request.before):
            why = Why(Code.NO_FIT, f"neither model can be computed: of the original, {own}")
            return _stated(request, "unverified", why, "checker")
        why = Why(Code.INVALID, f"the rewritten model cannot be computed: {missing}")
        return _stated(request, "failed", why, "checker")
    if is_within:
        from bnfold.verification.end_to_end.within import judge_within

        _next(request, "the whole models in a runtime", f"a tolerance of {request.checks.tolerance} was asked for")

        # It ran both models; a note says if the runtime did not run the original.
        return as_declared(request, None, judge_within(request), lambda: TAKEN)
    with request.clock.phase("weights"):
        draws = PerturbedWeights(request.before, request.after)
    subgraphs = cache(partial(_verifier, request, draws))
    with start_opinion(request) as opinion:
        layered = _compare_parts_and_runtime(request, draws, subgraphs, opinion)
        return layered if isinstance(layered, Verdict) else _compare_whole(request, draws, subgraphs, opinion, layered)


def _stated(request: Request, status: VerdictStatus, why: Why, prover: Prover) -> Verdict:
    """Return the verdict on what the models state, with its evidence in the ledger: nothing is computed."""
    enter_stated(request, status, why, prover)
    return verdict_of(request, status, why, "interface")


def _next(request: Request, what: str, why: str) -> None:
    """Log what is compared next, why, and how much of the counted seconds is used."""
    used = f"{request.clock.work.seconds:.3g} of {request.clock.budget:.0f} counted seconds used"
    log.debug(__name__, "next: %s (%s): %s", what, used, why)


def _verifier(request: Request, draws: PerturbedWeights) -> SubgraphVerifier:
    """Return what compares the changed parts, of models with the same functions and control flow in one form."""
    before, after = with_common_functions(original_in_one_form(request), in_one_form(request.after))
    if before is request.before and after is request.after:
        return SubgraphVerifier(request, draws)
    return SubgraphVerifier(replace(request, before=before, after=after, _found={}), PerturbedWeights(before, after))


def _compare_whole(
    request: Request, draws: PerturbedWeights, subgraphs: VerifierFactory, opinion: Opinion, asked: NeedsFullComparison
) -> Verdict:
    """Compare the whole models in float64, and by parts the changes that this comparison would not show."""
    cost = "it is cheap enough to begin with" if request.checks.depth == "auto" else f"--verify {request.checks.depth}"
    _next(request, "the whole models in float64", str(asked.why or cost))
    try:
        whole, obstacle = _whole(request, draws, differed=asked.differed)
    except Broken as finding:
        fed = [] if finding.feeds is None else [finding.feeds]
        runs = tuple(experiment(feeds, finding.numbers, finding.why) for feeds in fed)
        request.ledger.enter(about_whole(request.outputs, finding.outcome, experiments=runs), fed)
        return _unless_empty(request, verdict_of(request, "failed", finding.why, "float64"))
    parts = asked.parts if whole is None and not asked.differed else None
    if parts is None:
        why = obstacle or (whole and (whole.fault or whole.doubt)) or "for changes that the whole models do not show"
        _next(request, "each change in float64", str(why))
        parts = _parts(request, subgraphs, whole)
    verdict = conclude(request, whole, obstacle, parts)
    if asked.fault is not None and verdict.verified and whole is None:
        verdict = lowered(verdict, "unverified", asked.fault.said(f"the parts agree, but {asked.fault}"), "nothing")
    if asked.why is not None and whole is not None:
        note = f"the whole models were compared in float64: {asked.why}"
        verdict = replace(verdict, notes=(*verdict.notes, note))
    if verdict.status == "failed":
        return _unless_empty(request, verdict)
    has_run = whole is not None and any(row.ran_after for row in whole.witnesses)
    given = asked.opinion if whole is None else whole.opinion
    if given.is_refusal:
        return as_declared(request, whole, verdict, lambda: given)
    return as_declared(request, whole, verdict, (lambda: TAKEN) if has_run else opinion)


def _unless_empty(request: Request, verdict: Verdict) -> Verdict:
    """Lower a failure to unverified if the models differ only when a declared size of 0 is read as dynamic.

    Not for bnfold's own rewrites (those with cuts): bnfold reads 0 as dynamic, so they have to hold for all sizes.
    """
    if request.cuts or verdict.decided_by == "interface":
        return verdict
    from bnfold.verification.end_to_end.examine import agree_as_declared

    if not agree_as_declared(request):
        return verdict
    reason = f"the models agree at the declared size 0, but not if 0 means a dynamic size: {verdict.reason}"
    return replace(lowered(verdict, "unverified", Why(Code.SOME_SIZES, reason), "nothing"), localised=None)


def _compare_parts_and_runtime(
    request: Request, draws: PerturbedWeights, subgraphs: VerifierFactory, opinion: Opinion
) -> Verdict | NeedsFullComparison:
    """Compare each part in float64 and the whole models in a runtime; return a verdict, or why that does not decide."""
    if request.checks.depth != "auto":
        return NeedsFullComparison()
    from bnfold.verification.end_to_end.ort_check import start_guard

    with start_guard(request, draws) as wait:
        if wait is None:
            return NeedsFullComparison()
        cheaper = "the whole models in float64 are dearer; a runtime runs them beside it"
        _next(request, "each change in float64", cheaper)
        parts = _parts(request, subgraphs, None, True)
        request.progress("runtime", 0, 0)
        with request.clock.phase("witness"):
            found = wait()
    request.ledger.enter(_by_runtime(request, found))
    # What changed in an announced part that cannot be compared is among the others.
    open_row = first_failed(parts.rows) or next((row for row in parts.others if row.status != "verified"), None)
    own = found.fault or (found.doubt if found.is_suspicion else None)
    why = own or (sentence_of(open_row) if open_row is not None else None)
    if why is not None:
        differed = first_failed(parts.rows) is not None
        return NeedsFullComparison(why, found.fault, parts if parts.are_all else None, differed, found.opinion)
    verdict = by_parts(request, None, found.doubt, parts)
    if found.witness is not None and found.agrees:
        reason = sentences.parts_agree(number_verified(parts.rows), kind_of_part(request), found.witness.said)
        verdict = replace(verdict, reason=reason, witnesses=(found.witness,), samples=1)
    has_run = found.witness is not None and found.witness.ran_after
    return as_declared(request, None, verdict, (lambda: TAKEN) if has_run else opinion)


def _by_runtime(request: Request, found: Guard) -> Evidence:
    """Return the evidence of a runtime on the whole models, which decides nothing by itself."""
    outcome: ClaimOutcome = found
    if found.agrees and found.witness is None:
        is_asked = request.checks.runtime != "none"
        reason = "none is needed, as nothing that is computed has changed" if is_asked else "no runtime was asked"
        outcome = ClaimOutcome(doubt=Why(Code.NOT_ASKED, reason))
    agreed = Why(Code.TESTED, found.witness.said if found.witness is not None else "")
    return about_whole(request.outputs, outcome, agreed, prover="runtime")


def _whole(request: Request, draws: PerturbedWeights, *, differed: bool) -> tuple[Whole | None, Why | None]:
    """Return the comparison of the whole models in float64, or the reason why there is none."""
    if request.checks.depth == "local":
        return None, Why(Code.NOT_ASKED, "whole models were not compared (--verify local)")
    from bnfold.verification.end_to_end.examine import examine_whole  # as slow as comparing small parts

    try:
        look_at_clock()
        whole = examine_whole(request, draws, differs=differed)
    except NotCompared as reason:
        obstacle = reason.why
    except LimitStruck:
        obstacle = request.clock.over()
    else:
        agreed = Why(Code.TESTED, sentences.agree(whole.rows, len(whole.seen)))
        feeds = [sample.feeds for sample in (*whole.seen, *whole.zeros)]
        request.ledger.enter(about_whole(request.outputs, whole, agreed, whole.experiments), feeds)
        return whole, None
    request.ledger.enter(about_whole(request.outputs, ClaimOutcome(doubt=obstacle)))
    return None, obstacle


def _parts(request: Request, subgraphs: VerifierFactory, whole: Whole | None, is_first: bool = False) -> Parts:
    """Compare the changed parts. After the whole models, only those that they do not show, or to locate a fault."""
    if request.checks.depth == "full" and (whole is None or (whole.doubt is not None and whole.fault is None)):
        return Parts()
    with request.clock.phase("local"):
        try:
            return check_parts(subgraphs(), whole, is_first)
        except LimitStruck:
            return Parts(others=cut_off(request))
