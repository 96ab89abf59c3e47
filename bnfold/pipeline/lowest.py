"""The lowest opset that a model can be converted to: the first of all opsets, from the bottom, that works."""

from __future__ import annotations

import shlex

from bnfold import converting, ir
from bnfold.errors import Unsupported
from bnfold.ir.checking import checker_error
from bnfold.ir.fixing import fix_inputs, written
from bnfold.pipeline import overridable
from bnfold.report.events import Report
from bnfold.settings import Options, Policy


def find_lowest(model: ir.Model, policy: Policy, *, above: int = 0) -> int:
    """Return the lowest opset beyond ``above`` that ``model``, which stays as it is, can be converted to."""
    own = model.opset("")
    return next((opset for opset in range(above + 1, own) if _reaches(model, opset, policy)), own)


def _reaches(model: ir.Model, opset: int, policy: Policy) -> bool:
    """Whether ``model``, which stays as it is, can be converted to an opset."""
    trial = model.clone()
    try:
        converting.convert(trial, opset, policy=policy, fail_fast=True)
    except Unsupported:
        return False
    trial.remove_dead_nodes()
    return not new_error(model, trial)


def next_step(model: ir.Model, options: Options, target: int) -> str:
    """Say what a user can do whose ``model`` cannot be converted to ``target``; each step was tried, and works."""
    own, policy = model.opset(""), options.policy
    if target < own:
        steps = [f"lowest opset for this model: {find_lowest(model, policy, above=target)}"]
    else:
        highest = next((opset for opset in range(target - 1, own, -1) if _reaches(model, opset, policy)), own)
        steps = [f"highest opset for this model: {highest}"]
    for edits in ([overridable.freeze], [_fix], [overridable.freeze, _fix]):
        trial = model.clone()
        words = [text for edit in edits if (text := edit(trial))]
        if len(words) == len(edits) and _reaches(trial, target, policy):
            return "; ".join([" and ".join(words), *steps])
    return steps[0]


_SIZE = 224
"""What a user is shown as the size of an axis behind the batch."""


def _fix(model: ir.Model) -> str:
    """Fix the dynamic sizes of the inputs of ``model``; return the options that do so, empty if no size is dynamic."""
    shapes: dict[str, tuple[int, ...]] = {}
    sizes: dict[str, int] = {}
    for value in model.graph.inputs:
        dims = value.shape
        if value.is_initializer or dims is None or all(isinstance(dim, int) and dim for dim in dims):
            continue
        shapes[value.name] = tuple(
            sizes.setdefault(dim, _SIZE if axis else 1) if isinstance(dim, str) else dim or (_SIZE if axis else 1)
            for axis, dim in enumerate(dims)
        )
    fix_inputs(model, shapes)
    options = [shlex.quote(f"{name}={written(shape)}") for name, shape in shapes.items()]
    return f"fix dynamic sizes, as in `{' '.join(f'--fix-shapes {each}' for each in options)}`" if shapes else ""


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
        from bnfold.pipeline.newest import newest_loaded

        return max(newest_loaded(), model.opset(""))
    if wanted == "keep":
        return model.opset("")
    if wanted != "lowest":
        return wanted if isinstance(wanted, int) else None
    found = find_lowest(model, options.policy)
    report.lowest = {"opset": found, "below": describe_below(model, found, options.policy)}
    return found
