"""Does a rewritten model compute what the original did? Decided from the two models alone.

Nothing here knows how models are rewritten; what a rewrite says about itself is only where it happened (`ir.Cut`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from bnfold import ir, reference
from bnfold.ir.fixing import fix_inputs
from bnfold.settings import VerifyOptions
from bnfold.verification.changes.pairing import paired
from bnfold.verification.changes.renamed import verdict_on_names
from bnfold.verification.decision import judge
from bnfold.verification.inputs.cost import session_seconds
from bnfold.verification.request import RUNTIME_SHARE, Clock, Request
from bnfold.verification.runtimes import helpers
from bnfold.verification.runtimes.threads import one_thread
from bnfold.verification.unscaled import Scaled
from bnfold.verification.verdict import LocalRow, Location, OutputRow, Verdict, WitnessRow

__all__ = ["LocalRow", "Location", "OutputRow", "Verdict", "WitnessRow", "start", "verdict_on_names", "verify"]

Source = ir.Model | str | PathLike[str]


def start(checks: VerifyOptions, model: ir.Model) -> None:
    """Start the runtime that `verify` is going to ask: to import it takes as long as to verify a small model."""
    if checks.runtime != "none" and session_seconds(model) < checks.verify_seconds * RUNTIME_SHARE:
        helpers.start(sys.executable, checks.runtime)


def verify(  # noqa: PLR0913 - one optional keyword an option
    before: Source,
    after: Source,
    *,
    checks: VerifyOptions | None = None,
    cuts: Sequence[ir.Cut] = (),
    scaled: Scaled | None = None,
    frozen: bool = False,
    fixed: Mapping[str, Sequence[int]] | None = None,
    budget_seconds: float | None = None,
    policy: reference.Policy | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    by_position: bool = False,
    **settings: Any,
) -> Verdict:
    """Compare two models numerically.

    Args:
        before: The original: a path, or a loaded model. A path spares the witness a copy.
        after: The rewritten model, likewise.
        checks: On what; ``depth="none"`` is read as ``auto``.
        cuts: Where rewrites happened; each is checked on its own.
        scaled: Values that are other ones by factors; where these are wrong, that is found.
        frozen: Whether the rewrite was asked to take inputs that have a default for constants.
        fixed: The shapes that the rewrite was asked to give to inputs.
        budget_seconds: For comparing whole models; None for ``checks.verify_seconds``.
        policy: What the original's nodes mean where their text leaves a choice.
        progress: Called with a phase, how much of it is done, and out of how much; with ``estimate``, the seconds that
            comparing whole models will take, and 0, where they are more than five.
        by_position: Whether inputs and outputs of other names are paired by position, where all of them fit.
        **settings: Fields of `VerifyOptions`, in place of those in ``checks``.

    Returns:
        The verdict. A model that cannot be run is no error: the verdict is then ``unverified`` and says why.

    Raises:
        BadInput: A file that cannot be read, recorded data that does not fit, a shape for an input that is not there.
    """
    checks = replace(checks or VerifyOptions(), **settings)
    old, new = (_opened(source, frozen=frozen) for source in (before, after))
    fix_inputs(old, fixed or {})
    named, notes = paired(old, new) if by_position else (new, [])
    request = Request(
        before=old,
        after=named,
        checks=replace(checks, depth="auto") if checks.depth == "none" else checks,
        before_file=_file(before),
        after_file=_file(after) if named is new else None,
        cuts=tuple(cuts),
        policy=policy or reference.Policy(),
        clock=Clock(checks.verify_seconds if budget_seconds is None else budget_seconds),
        scaled=scaled or {},
        progress=progress or (lambda _phase, _done, _total: None),
    )
    start(checks, request.before)
    with one_thread():
        verdict = judge(request)
    return replace(verdict, notes=(*verdict.notes, *notes)) if notes else verdict


def _opened(source: Source, *, frozen: bool) -> ir.Model:
    model = source if isinstance(source, ir.Model) else ir.load(source)
    model.require_weights()
    model.freeze_overridable = frozen
    model.sync()
    return model


def _file(source: Source) -> Path | None:
    return None if isinstance(source, ir.Model) else Path(source)
