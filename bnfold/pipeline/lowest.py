"""The lowest opset that a model can be converted to: the first of all opsets, from the bottom, that works."""

from __future__ import annotations

import shlex
from dataclasses import replace

from bnfold import converting, ir
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.checking import checker_error
from bnfold.ir.fixing import fix_inputs
from bnfold.ir.value import written
from bnfold.pipeline import clearing, overridable
from bnfold.pipeline.context import PassContext
from bnfold.report.events import Report
from bnfold.settings import Options, Policy


def find_lowest(run: PassContext, *, above: int = 0) -> int:
    """Return the lowest opset beyond ``above`` that the model, which stays as it is, can be converted to."""
    own, rewritten = run.model.opset(""), _rewritten(run)
    for opset in range(above + 1, own):
        if _is_open(rewritten, opset, run.options.policy) and not _obstacle(run, opset):
            return opset
    return own


def next_step(run: PassContext, target: int) -> str:
    """Say what a user can do whose model cannot be converted to ``target``; each step was tried, and works."""
    own = run.model.opset("")
    asked = _of_other_domains(run.options)
    if asked and not _obstacle(replace(run, options=replace(run.options, ml_opset=None, domain_opsets={})), target):
        return f"{' and '.join(asked)} is in the way, and without it --opset {target} gets there"
    if target < own:
        steps = [_reachable("lowest", find_lowest(run, above=target), own)]
    else:
        highest = next((opset for opset in range(target - 1, own, -1) if not _obstacle(run, opset)), own)
        steps = [_reachable("highest", highest, own)]
    for edits in ([overridable.freeze], [_fix], [overridable.freeze, _fix]):
        trial = run.trial()
        words = [text for edit in edits if (text := edit(trial.model))]
        if len(words) == len(edits) and not _obstacle(trial, target):
            return "; ".join([" and ".join(words), *steps])
    return steps[0]


def _of_other_domains(options: Options) -> list[str]:
    """Return the options that ask for versions of other domains."""
    ml = [] if options.ml_opset is None else [f"--ml-opset {options.ml_opset}"]
    return [*ml, *(f"--domain-opset {domain}={version}" for domain, version in options.domain_opsets.items())]


def _reachable(kind: str, opset: int, own: int) -> str:
    how = f"--opset {opset} gets there" if opset != own else f"its own; use a runtime that loads opset {own}"
    return f"{kind} opset for this model: {opset} ({how})"


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
        trial.model.remove_dead_nodes()
        error = new_error(run.model, trial.model)
    except BnfoldError as blocked:  # sizes that are tried may contradict the weights
        return str(blocked)
    return f"cannot convert to {opset}: {error}" if error else ""


def new_error(before: ir.Model, after: ir.Model) -> str:
    """Return what the checker has against ``after``; empty if it has something against ``before`` as well."""
    error = checker_error(after)
    if not error:
        return ""
    return "" if checker_error(before, after.proto.ir_version) else error
