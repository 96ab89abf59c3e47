"""Compare a folded model with the PyTorch module that it was exported from.

The module is run by PyTorch and the model by the reference evaluator, both in float64. Their results may differ by what
rounding the weights of the folded model once can cause. To measure that, all weights are moved, not only new ones: the
exporter optimises too, so any weight may be a rounded result. If the results differ by more, the exported model is
compared as well. It shows whether the difference existed before folding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BadInput, Unsupported
from bnfold.interop.pytorch import inputs as examples
from bnfold.interop.pytorch.inputs import Inputs
from bnfold.interop.pytorch.module_copy import CannotRun, ModuleCopy
from bnfold.interop.pytorch.verdict import ModuleRow, ModuleVerdict
from bnfold.ir.elements import Array
from bnfold.settings import VerifyOptions
from bnfold.verification.engine import Beside, Compared

WIDEST = 2.0**-5
"""The largest difference, relative to the scale, that a module's own rounding (16-bit floats) may explain."""


@dataclass(slots=True, eq=False)
class ModuleComparison:
    """One comparison in progress: the copy of the module, both models, and the evidence so far."""

    copied: ModuleCopy
    beside: Beside
    rows: list[ModuleRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: int = 0
    reacts: bool = False


class _Skip(Exception):
    """Raised for a sample that proves nothing; the message says why."""


def compare(
    before: ir.Model,
    after: ir.Model,
    module: Any,
    example: Any,
    checks: VerifyOptions,
    policy: reference.Policy | None = None,
) -> ModuleVerdict:
    """Compare on the example inputs and on more drawn after their pattern.

    Args:
        before: The model as it was exported.
        after: The folded model.
        module: The ``torch.nn.Module``; it is copied, and stays as it is.
        example: The inputs as `bnfold.pytorch.optimize` takes them, or as `Inputs`; None for made-up ones.
        checks: The number of samples, their seed, sizes for dynamic dims, and the time limit.
        policy: How the reference evaluator reads nodes of ``before`` that leave a choice.

    Raises:
        BadInput: The example inputs do not fit the model.
    """
    beside = Beside(before, after, checks.verify_seconds, policy)
    try:
        run = ModuleComparison(ModuleCopy(module), beside)
    except CannotRun as obstacle:
        return ModuleVerdict("unverified", str(obstacle))
    try:
        inputs = _first(run, before, example, checks)
        for sample in range(1, checks.samples):
            _further(run, inputs, checks.seed, sample)
    except _Skip as obstacle:
        if not run.samples:
            return ModuleVerdict("unverified", str(obstacle), notes=tuple(run.notes))
        run.notes.append(str(obstacle))
    return _verdict(run)


def _first(run: ModuleComparison, before: ir.Model, example: Any, checks: VerifyOptions) -> Inputs:
    """Compare on the example, or else on the first made-up inputs that module and model accept.

    Returns the inputs that were used.
    """
    obstacle: Exception | None = None
    for inputs in _candidates(before, example, checks):
        try:
            _compare(run, inputs, inputs.leaves, 0, binding=example is not None)
        except _Skip as reason:
            obstacle = obstacle or reason
        else:
            return inputs
    raise _Skip(str(obstacle)) from obstacle


def _candidates(before: ir.Model, example: Any, checks: VerifyOptions) -> Iterator[Inputs]:
    if example is None:
        return examples.made_up(before, checks)
    return iter([example if isinstance(example, Inputs) else examples.examples(before, example)])


def _further(run: ModuleComparison, inputs: Inputs, seed: int, sample: int) -> None:
    """Compare one more sample. If the module accepts it, dynamic dims get other sizes."""
    if run.beside.clock.is_over:
        raise _Skip(f"only {sample} samples were compared in {run.beside.clock.limit:.0f} s")
    obstacle: _Skip | None = None
    for leaves in inputs.draws(seed, sample):
        try:
            _compare(run, inputs, leaves, sample, binding=inputs.shapes(leaves) == inputs.shapes(inputs.leaves))
        except _Skip as reason:
            obstacle = reason
        else:
            return
    run.notes.append(f"sample {sample} was left out: {obstacle}")


def _compare(run: ModuleComparison, inputs: Inputs, leaves: list[Any], sample: int, *, binding: bool) -> None:
    """Add the rows of one sample.

    ``binding`` says that the export has to hold at these sizes, which are those of the example or of the first sample.
    At other sizes, an exported model that differs from the module proves nothing: the exporter may have fixed a size
    that was not declared dynamic. Raises _Skip then, or if the sample cannot be run.
    """
    try:
        results = run.copied.run(inputs, leaves)
    except CannotRun as reason:
        raise _Skip(str(reason)) from reason
    if len(results) != len(run.beside.outputs):
        raise _Skip(f"the module returns {len(results)} tensors, the model has {len(run.beside.outputs)} outputs")
    truth = dict(zip(run.beside.outputs, results, strict=True))
    feeds, shapes = inputs.feeds(leaves), inputs.shapes(leaves)
    try:
        exported, compared = run.beside.compare(feeds, truth, sample)
    except (Unsupported, reference.OutOfTime) as reason:
        raise _Skip(str(reason)) from reason
    except MemoryError as reason:
        raise _Skip("there is not enough memory to run the models") from reason
    if run.beside.is_random:
        raise _Skip("the model draws random numbers, and other ones than the module")
    rows = [_row(item, truth[item.name], exported[item.name], shapes) for item in compared if item.is_output]
    if not binding and any(row.fault and row.exported for row in rows):
        sizes = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
        raise _Skip(f"at {sizes} the exported model itself differs from the module")
    run.rows += rows
    run.samples += 1
    run.reacts = run.reacts or run.copied.precision == "stored" or any(item.reacts for item in compared)


def _row(item: Compared, truth: Array, exported: Array, shapes: Mapping[str, tuple[int, ...]]) -> ModuleRow:
    """Return the evidence on one output. If it differs, the exported model shows whether folding caused that."""
    found = item.difference
    own, allowed, fault = 0.0, found.allowed, found.fault
    if fault and (was := Beside.difference(truth, exported, item.dtype)).fault:
        measurable = was.same_pattern and found.same_pattern and truth.dtype.kind == "f"
        own = was.relative if measurable else float("inf")
        limit = min(WIDEST, item.limit)
        if max(own, found.relative) <= limit and found.relative <= 2 * own + allowed:
            allowed, fault = limit, ""
        else:
            fault = f"the model as it was exported is not what module.eval() computes: {was.fault}"
    return ModuleRow(item.sample, shapes, item.name, found.relative, allowed, found.scale, own, fault)


def _verdict(run: ModuleComparison) -> ModuleVerdict:
    rows, notes, precision = tuple(run.rows), (*run.copied.notes, *run.notes), run.copied.precision
    fault = next((row for row in rows if row.fault), None)
    if fault is not None:
        reason = (
            f"output {fault.output!r}, sample {fault.sample}: {fault.fault} ({fault.relative:.2g} of its largest value)"
        )
        return ModuleVerdict("failed", reason, precision, rows, notes)
    if not run.reacts:
        reason = "no output reacts to the weights on these inputs, so a fault in them would not be seen"
        return ModuleVerdict("unverified", reason, precision, rows, notes)
    inexact = [row for row in rows if row.exported]
    if inexact:
        worst = max(row.exported for row in inexact)
        notes = (
            *notes,
            f"the model as it was exported differs from the module by up to {worst:.2g} of the largest value",
        )
    largest = float(np.max([row.relative for row in rows], initial=0.0))
    count = f"{run.samples} sample{'s' if run.samples > 1 else ''}"
    kind = "float64" if precision == "float64" else "its own precision"
    reason = f"agrees with module.eval() in {kind} to {largest:.2g} of the largest value on {count}"
    return ModuleVerdict("verified", reason, precision, rows, notes)


def raise_unless_module(module: Any) -> None:
    """Raise BadInput unless ``module`` is a ``torch.nn.Module``."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise BadInput(f"module: a torch.nn.Module is wanted, not {type(module).__name__}")
