"""Decide from two models alone whether the rewritten one is numerically equivalent to the original.

Nothing here knows how models are rewritten. A rewrite only says where it happened (`ir.Cut`).

One random sample decides whether two analytic functions are equal. Whatever is done beyond it serves one of these, and
the modules name it: *visibility* (would a fault have shown?), *pieces* (Relu, Clip, a flag that chooses a branch:
points on both sides), *discontinuities* (Round, ArgMax, comparisons: what they read is compared), *integers and sizes*
(several, so that what depends on them differs), *special values* (NaN, infinities, zeros of both signs), *poles*.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BadSetting
from bnfold.ir.cut import ValueMaps
from bnfold.ir.fixing import fix_inputs
from bnfold.ir.value import written
from bnfold.settings import VerifyOptions
from bnfold.settings.progress import Progress
from bnfold.verification.changes.new_names import paired, with_original_names
from bnfold.verification.changes.renamed import verdict_on_names
from bnfold.verification.claims import Evidence, Experiment, Ledger, Why
from bnfold.verification.codes import Code
from bnfold.verification.explaining import ComparedModels, with_explanation
from bnfold.verification.inputs.cost import session_seconds
from bnfold.verification.inputs.data import load_data
from bnfold.verification.policy import judge
from bnfold.verification.request import RUNTIME_SHARE, Clock, Request, budget_of
from bnfold.verification.runtimes import helpers
from bnfold.verification.runtimes.threads import one_thread
from bnfold.verification.saving import nothing_saved, require_free, save
from bnfold.verification.verdict import Explained, Location, NextStep, OutputRow, RuntimeRow, Verdict

__all__ = [
    "Code",
    "Evidence",
    "Experiment",
    "Explained",
    "Location",
    "NextStep",
    "OutputRow",
    "RuntimeRow",
    "Verdict",
    "Why",
    "explained",
    "start",
    "verdict_on_names",
    "verify",
]

VerifiedSource = ir.Model | str | PathLike[str]


def start(checks: VerifyOptions, model: ir.Model) -> None:
    """Start the runtime that `verify` will use. Importing it takes as long as verifying a small model."""
    if checks.runtime != "none" and session_seconds(model) < budget_of(checks.verify_seconds) * RUNTIME_SHARE:
        helpers.start(sys.executable, checks.runtime)


def verify(  # noqa: PLR0913 - one optional keyword an option
    before: VerifiedSource,
    after: VerifiedSource,
    *,
    checks: VerifyOptions | None = None,
    cuts: Sequence[ir.Cut] = (),
    scaled: ValueMaps | None = None,
    frozen: bool = False,
    fixed: Mapping[str, Sequence[int]] | None = None,
    budget_seconds: float | None = None,
    policy: reference.Policy | None = None,
    chose_version: bool = True,
    progress: Progress | None = None,
    by_position: bool = False,
    **settings: Any,
) -> Verdict:
    """Compare two models numerically.

    Args:
        before: The original: a path, or a loaded model. With a path, the runtime needs no copy.
        after: The rewritten model: a path, or a loaded model.
        checks: How to compare; ``depth="none"`` means ``auto`` here.
        cuts: Where rewrites happened; each is checked on its own.
        scaled: Values that the rewrite multiplied by factors, and those that lost channels. Wrong factors and
            wrong channels are found.
        frozen: Whether the rewrite was asked to treat inputs with a default as constants.
        fixed: The shapes that the rewrite was asked to give to inputs.
        budget_seconds: The time limit; None means ``checks.verify_seconds``.
        policy: The meaning of nodes of the original for which the operator's text leaves a choice.
        chose_version: Whether the caller named the opset or the IR version of ``after``. A runtime that is too old for
            it is then no fault of ``after``.
        progress: Called with a phase (`bnfold.settings.PHASES`), how much of it is done, and the total. As soon
            as it is known that the rest takes more than ten seconds, it is called once with ``estimate``, these
            seconds, and 0.
        by_position: Whether inputs and outputs with different names are paired by position, if all of them fit.
        **settings: Fields of `VerifyOptions` that replace those of ``checks``.

    Returns:
        The verdict. A model that cannot be run is no error: the verdict is then ``unverified`` and says why.

    Raises:
        BadInput: A file cannot be read, recorded data does not fit, or a shape is given for an input that does not
            exist.
    """
    checks = replace(checks or VerifyOptions(), **settings)
    clock = Clock(checks.verify_seconds if budget_seconds is None else budget_seconds)
    old, new = (_opened(source, frozen=frozen) for source in (before, after))
    checks = _at_fixed_sizes(old, checks, fixed or {})
    is_cast = checks.tolerance is not None
    named, notes = paired(old, new, any_float=is_cast) if by_position else (new, [])
    with reference.keeping_constants(old), reference.keeping_constants(named):
        renamed = with_original_names(old, named, by_others=not cuts)
    request = Request(
        before=old,
        after=renamed,
        checks=replace(checks, depth="auto") if checks.depth == "none" else checks,
        before_file=_file(before),
        after_file=_file(after) if named is new else None,
        cuts=tuple(cuts),
        policy=policy or reference.Policy(),
        clock=clock,
        scaled=scaled or {},
        chose_version=chose_version,
        progress=progress or (lambda _phase, _done, _total: None),
        ledger=Ledger(keeps=checks.save is not None),
    )
    models = ComparedModels(request.before, request.after, new, request.scaled)
    if checks.explain:
        models.require(checks.explain)
    if checks.save is not None:
        require_free(checks.save, [file for file in (_file(before), _file(after), checks.data) if file is not None])
    start(checks, request.before)
    with one_thread(), reference.keeping_constants(old), reference.keeping_constants(renamed):
        verdict = with_explanation(judge(request), models, checks)
        if checks.save is not None:
            verdict = save(verdict, models, request, checks.save)
    return replace(verdict, notes=(*verdict.notes, *notes)) if notes else verdict


def explained(verdict: Verdict, before: ir.Model, after: ir.Model, checks: VerifyOptions) -> Verdict:
    """Return a verdict that needed no comparison, with the explanation that was asked for.

    Raises BadSetting if neither model has the value that was asked about.
    """
    models = ComparedModels(before, after)
    if checks.explain:
        models.require(checks.explain)
    verdict = with_explanation(verdict, models, checks)
    return verdict if checks.save is None else nothing_saved(verdict)


def _at_fixed_sizes(old: ir.Model, checks: VerifyOptions, fixed: Mapping[str, Sequence[int]]) -> VerifyOptions:
    """Fix the sizes of the original; return the options with these sizes as the ones that it is fed."""
    changed = fix_inputs(old, fixed)
    values = {value.name: value.shape for value in old.required_inputs() if value.name in changed}
    shapes = {
        name: tuple(dim for dim in shape if isinstance(dim, int))
        for name, shape in values.items()
        if shape is not None and all(isinstance(dim, int) for dim in shape)
    }
    runs = load_data(checks.data, old) if shapes and checks.data is not None else []
    recorded = [(name, np.shape(run.feeds[name])) for run in runs for name in shapes]
    for name, given in (*checks.inputs.items(), *recorded):
        if name in shapes and tuple(given) != tuple(shapes[name]):
            what = f"input {name!r} has the shape {written(given)}, and is fixed at {written(shapes[name])}"
            raise BadSetting("inputs" if checks.data is None else "data", what)
    return replace(checks, inputs={**shapes, **checks.inputs})


def _opened(source: VerifiedSource, *, frozen: bool) -> ir.Model:
    model = source if isinstance(source, ir.Model) else ir.load(source)
    model.require_weights()
    model.freeze_overridable = frozen
    model.sync()
    return model


def _file(source: VerifiedSource) -> Path | None:
    return None if isinstance(source, ir.Model) else Path(source)
