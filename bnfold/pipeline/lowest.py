"""The lowest opset that a model can be converted to: the first of all opsets, from the bottom, that works."""

from __future__ import annotations

from bnfold import converting, ir
from bnfold.errors import Unsupported
from bnfold.pipeline import clearing
from bnfold.pipeline.checker import checker_error
from bnfold.pipeline.context import PassContext
from bnfold.report.events import Report
from bnfold.settings import Policy


def find_lowest(run: PassContext, *, above: int = 0) -> int:
    """Return the lowest opset beyond ``above`` that the model, which stays as it is, can be converted to."""
    own, rewritten = run.model.opset(""), _rewritten(run)
    for opset in range(above + 1, own):
        if _is_open(rewritten, opset, run.options.policy) and not _obstacle(run, opset):
            return opset
    return own


def describe_below(run: PassContext, lowest: int) -> str:
    """Say what is in the way one opset below ``lowest``; empty if there is none."""
    return _obstacle(run, lowest - 1) if lowest > 1 else ""


def _rewritten(run: PassContext) -> ir.Model:
    """Return the model as all simplifications leave it: they take out whatever an attempt could."""
    if not run.options.no_simplify:
        return run.model
    from bnfold import simplifying

    rewritten = run.model.clone()
    simplifying.remove_unread(rewritten, Report())
    simplifying.simplify(rewritten, Report())
    return rewritten


def _is_open(model: ir.Model, opset: int, policy: Policy) -> bool:
    """Whether a copy of the model can be converted, without a look at what is in the way."""
    try:
        converting.convert(model.clone(), opset, policy=policy, fail_fast=True)
    except Unsupported:
        return False
    return True


def _obstacle(run: PassContext, opset: int) -> str:
    """Return why the model cannot be converted to an opset; empty if it can."""
    trial = run.trial()
    try:
        clearing.convert(trial, opset)
    except Unsupported as blocked:
        return str(blocked)
    trial.model.remove_dead_nodes()
    error = new_error(run.model, trial.model)
    return f"cannot convert to {opset}: {error}" if error else ""


def new_error(before: ir.Model, after: ir.Model) -> str:
    """Return what the checker has against ``after``; empty if it has something against ``before`` as well."""
    error = checker_error(after)
    if not error:
        return ""
    given = before.clone()
    given.proto.ir_version = after.proto.ir_version  # its rules are those of the IR version
    return "" if checker_error(given) else error
