"""From what `torch.onnx.export` made to the folded model, compared with the module on the way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import onnx

from bnfold import ir, log
from bnfold.errors import VerificationFailed
from bnfold.interop.pytorch.compare import compare, raise_unless_module
from bnfold.interop.pytorch.opening import example, opened
from bnfold.interop.pytorch.training import Training, training_nodes
from bnfold.interop.pytorch.verdict import ModuleStatus, ModuleVerdict
from bnfold.pipeline import job
from bnfold.pipeline.arguments import options_of
from bnfold.pipeline.outcome import Outcome, ProcessedModel
from bnfold.report.events import Report
from bnfold.settings import OptionFields, Options, OutputOptions, VerifyOptions, simplified
from bnfold.settings.progress import Progress
from bnfold.settings.python_words import speaks_python
from bnfold.verification import Verdict
from bnfold.verification.engine import one_thread

if TYPE_CHECKING:
    import onnx_ir

SAMPLES = 3
"""Inputs to compare with the module on, unless `VerifyOptions` say otherwise: the example, and two unlike it."""


@dataclass(slots=True, eq=False)
class TorchOutcome:
    """What became of one exported model.

    Attributes:
        outcome: What `bnfold.optimize` gives: model, report, verdict of comparing the two models, times.
        module: What comparing with the module found; None where none was given, or nothing was to be compared.
        notes: What was odd about the export.
        model: The folded ``onnx_ir.Model`` where one came in; None for files. For a program, its new ``model``.
        program: The ``ONNXProgram`` that holds it: the one given, or what the ``ExportedProgram`` given became.
    """

    outcome: Outcome
    module: ModuleVerdict | None = None
    notes: tuple[str, ...] = ()
    model: onnx_ir.Model | None = None
    program: Any = None

    @property
    def report(self) -> Report:
        """What was done to each BatchNormalization, and why not."""
        return self.outcome.report

    @property
    def verdict(self) -> Verdict | None:
        """What comparing the model before and after found."""
        return self.outcome.verdict

    @property
    def status(self) -> ModuleStatus | None:
        """The weaker of the two verdicts; None where nothing was to be compared."""
        found = [verdict.status for verdict in (self.verdict, self.module) if verdict is not None]
        return "unverified" if "unverified" in found else found[0] if found else None

    def to_proto(self) -> onnx.ModelProto:
        """Return the folded model with its weights inside. Raises OutputError beyond protobuf's 2 GB."""
        return self.outcome.to_proto()

    def to_json(self) -> dict[str, Any]:
        """Return the report of `Outcome.to_json`, and ``module``.

        The verdict of the comparison with the module, or None.
        """
        return {
            **self.outcome.to_json(),
            "module": self.module.to_json() if self.module is not None else None,
            "export_notes": list(self.notes),
        }


@speaks_python
def optimize(  # noqa: PLR0913 - one optional keyword an option
    program: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    module: Any = None,
    example_inputs: Any = None,
    options: Options | None = None,
    verify: VerifyOptions | None = None,
    simplify: bool | str | Sequence[str] = False,
    progress: Progress | None = None,
    **fields: Unpack[OptionFields],
) -> TorchOutcome:
    """Upgrade and fold what `torch.onnx.export` made, and compare it with the module.

    An ``ONNXProgram`` (``dynamo=True``) gets the folded model in place of its own, weights by reference: ``save``,
    calling it and ``optimize`` then work on that. Its ``apply_weights`` would write unfolded weights over folded ones:
    call it before. If it was not optimised, its own ``optimize`` is called first. A file, encoded bytes or a ModelProto
    (``dynamo=False``, any opset) stay as they are. So does an ``ExportedProgram``: it is exported, compared with what
    it computes itself, and the result is the outcome's ``program``.

    Args:
        program: An ``ONNXProgram``, a ``torch.export.ExportedProgram``, an ``onnx_ir.Model``, a path, encoded bytes or
            an ``onnx.ModelProto``.
        output: Where to write the folded model; None: nowhere.
        module: The ``torch.nn.Module`` that was exported. A copy of it, in evaluation mode and float64, is what the
            folded model is compared with; the module stays as it is, whatever its mode.
        example_inputs: What to call ``module`` with: a tensor, a sequence of positional or a mapping of keyword
            arguments. None: those that the program was exported with; for files, made up from the graph's inputs.
            Further samples are drawn after their pattern, of other sizes along dynamic axes.
        options: As for `bnfold.optimize`.
        verify: How much to compare, as for `bnfold.optimize`. ``samples`` (None given: 3) and ``seed`` hold for the
            comparison with the module as well, and with ``depth`` "none" there is none.
        simplify: As for `bnfold.optimize`.
        progress: As for `bnfold.optimize`.
        **fields: As for `bnfold.optimize`. ``opset`` is the opset to deliver, such as 13 for an older runtime; the IR
            version follows it down.

    Returns:
        Report and verdicts. `TorchOutcome.status` is ``unverified`` where one of the comparisons could not be made.
        Where there was no BatchNormalization and nothing changed, the module is not run.

    Raises:
        ExportedInTraining: BatchNormalization or Dropout are in training mode, and the module in evaluation mode is
            not known to compute that.
        VerificationFailed: The result differs from the exported model or from the module. Nothing was replaced or
            written.
        BadInput: The example inputs do not fit the model, ``module`` is no module, or as `bnfold.optimize`.
        Unsupported, OutputError: As `bnfold.optimize`.
    """
    if module is not None:
        raise_unless_module(module)
    by_module = verify or VerifyOptions(samples=SAMPLES)
    asked, checks = simplified(options_of(fields, options), simplify), verify or VerifyOptions()
    given = opened(program)
    computes = module if module is not None else given.module
    before = given.source if isinstance(given.source, ir.Model) else ir.load(given.source)
    before.freeze_overridable = asked.overridable == "freeze"
    training = training_nodes(before, asked.policy)
    comparing = computes is not None and checks.depth != "none"
    if training.dropouts or (training and not comparing):
        raise training.error()
    found: list[ModuleVerdict] = []

    def second_opinion(outcome: ProcessedModel) -> None:
        if not outcome.report.batchnorms and _same(before, outcome.model):
            return
        before.freeze_overridable = bool(outcome.report.frozen)
        first = example_inputs if example_inputs is not None else example(given.program, before)
        with one_thread():
            found[:] = [compare(before, outcome.model, computes, first, by_module, asked.policy)]
        _act_on(found[0], training, outcome)

    delivery = OutputOptions(Path(output)) if output is not None else None
    opinion = second_opinion if comparing else None
    outcome = job.process(given.source, delivery, asked, checks, progress, second_opinion=opinion)
    notes = (*given.notes, *_notes(module, training))
    result = TorchOutcome(outcome, found[0] if found else None, notes, program=given.program)
    for note in result.notes:
        log.info(__name__, "%s", note)
    if given.model is not None:
        _replace(result, before, outcome.model, given.model)
    return result


def _act_on(verdict: ModuleVerdict, training: Training, outcome: Outcome) -> None:
    """Raise where the module does not compute what the model does; in training mode that is no wonder."""
    tell = log.info if verdict.verified else log.warning
    tell(__name__, "module: %s: %s", verdict.status, verdict.reason)
    if training and not verdict.verified:
        raise training.error()
    if verdict.status == "failed":
        raise VerificationFailed(f"not replaced or written: {verdict.reason}", outcome)


def _notes(module: Any, training: Training) -> tuple[str, ...]:
    notes = []
    if module is not None and module.training:
        notes.append(
            "the module is in training mode, the model in inference mode: "
            "the model was compared with what module.eval() computes"
        )
    if training:
        notes.append(
            f"{len(training.normalisations)} BatchNormalizations use the batch's own statistics, as the module"
        )
    return tuple(notes)


def _replace(result: TorchOutcome, before: ir.Model, after: ir.Model, given: Any) -> None:
    """Put the folded model in the place of the one that came; if nothing changed, that one stays."""
    from bnfold.interop.onnx_ir import to_onnx_ir

    result.model = given if _same(before, after) else to_onnx_ir(after)
    if result.program is not None and result.model is not given:
        result.program.model = result.model
        if hasattr(result.program, "release"):  # a session that it may have opened runs the old model
            result.program.release()


def _same(before: ir.Model, after: ir.Model) -> bool:
    before.sync()
    after.sync()
    first, second = (model.proto.SerializeToString(deterministic=True) for model in (before, after))
    return bool(first == second)
