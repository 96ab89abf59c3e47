"""The lowest opset that a model can be converted to: the first of all opsets, from the bottom, that works."""

from __future__ import annotations

import onnx

from bnfold import converting, ir
from bnfold.errors import Unsupported, UpgradeBlocked
from bnfold.ir.checking import checker_error
from bnfold.report.events import Report
from bnfold.settings import Options, Policy


def find_lowest(model: ir.Model, policy: Policy, *, above: int = 0) -> int:
    """Return the lowest opset beyond ``above`` that ``model``, which stays as it is, can be converted to."""
    own = model.opset("")
    for opset in range(above + 1, own):
        trial = model.clone()
        try:
            converting.convert(trial, opset, policy=policy, fail_fast=True)
        except (UpgradeBlocked, Unsupported):
            continue
        trial.remove_dead_nodes()
        if not new_error(model, trial):
            return opset
    return own


def new_error(before: ir.Model, after: ir.Model) -> str:
    """Return what the checker has against ``after``; empty if it has something against ``before`` as well."""
    error = checker_error(after)
    if not error:
        return ""
    return "" if checker_error(before, after.proto.ir_version) else error


def describe_below(model: ir.Model, lowest: int, policy: Policy) -> str:
    """Say what is in the way one opset below ``lowest``; empty if there is none."""
    if lowest < 2:
        return ""
    try:
        converting.convert(trial := model.clone(), lowest - 1, policy=policy)
    except Unsupported as blocked:
        return str(blocked)
    trial.remove_dead_nodes()
    return f"cannot convert to {lowest - 1}: {new_error(model, trial)}"


def target(model: ir.Model, options: Options, report: Report) -> int | None:
    """Return the opset to reach, as a number; None for the default: 15, or the opset of a newer model."""
    wanted = options.target_opset
    if wanted == "latest":
        return onnx.defs.onnx_opset_version()
    if wanted == "keep":
        return model.opset("")
    if wanted != "lowest":
        return wanted if isinstance(wanted, int) else None
    found = find_lowest(model, options.policy)
    report.lowest = {"opset": found, "below": describe_below(model, found, options.policy)}
    return found
