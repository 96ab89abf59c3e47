"""The functions of the public interface: one call for each command, keyword options of the same names.

A model is a path (of an ONNX file, or of an OpenVINO IR, .xml), encoded bytes, an ``onnx.ModelProto``, an
``onnx_ir.Model`` or a ``torch.onnx.ONNXProgram``. It stays as it is. ``output`` is a path, or None to keep the result
in memory (`Outcome.to_proto`, `Outcome.to_onnx_ir`, `Outcome.save`). All of them raise `BnfoldError` and its children
for what a user can mend, and TypeError for arguments of another type.

``progress`` is called with a phase, how much of it is done, and how much there is (0: unknown); an exception that it
raises ends the call, and nothing is written (`bnfold.types.Progress`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack

import onnx

from bnfold.errors import WrongUsage
from bnfold.pipeline import formats
from bnfold.pipeline.arguments import open_source, options_of, process_source, settings_of
from bnfold.pipeline.outcome import Outcome
from bnfold.settings import ONE_JOB, OptionFields, Options, OutputOptions, Tolerance, VerifyOptions, simplified
from bnfold.settings.progress import Progress
from bnfold.settings.python_words import speaks_python
from bnfold.verification import Verdict

if TYPE_CHECKING:
    import onnx_ir

    from bnfold.pipeline.chain import StepRow


class OnnxProgram(Protocol):
    """What holds an ``onnx_ir.Model`` as its ``model``, as a ``torch.onnx.ONNXProgram`` does."""

    @property
    def model(self) -> onnx_ir.Model:
        """The model."""


Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto | onnx_ir.Model | OnnxProgram"
"""What a model is given as."""
Output: TypeAlias = str | os.PathLike[str] | None
"""Where a result goes; None to keep it in memory."""


@speaks_python
def optimize(
    source: Source,
    output: Output = None,
    *,
    options: Options | None = None,
    verify: VerifyOptions | None = None,
    simplify: bool | str | Sequence[str] = False,
    progress: Progress | None = None,
    **fields: Unpack[OptionFields],
) -> Outcome:
    """Upgrade, fold, decompose if asked, verify, and write.

    Args:
        source: A path, the bytes of a model, an ``onnx.ModelProto``, an ``onnx_ir.Model`` or a
            ``torch.onnx.ONNXProgram``, which stays as it is. Inputs and weights of any shape; float32, float64, float16
            and bfloat16 weights are folded in float64 and rounded once.
        output: The file to write, with its external data beside it; None to keep the result in memory.
        options: What to do; None for `Options` as they are by default.
        verify: How to verify; None for `VerifyOptions` as they are by default, ``VerifyOptions(depth="none")`` not to.
        simplify: Other optimisers to run as well (`Options.simplify`): a name, several, or True for onnxscript's.
        progress: Called with a phase, how much of it is done, and how much there is.
        **fields: Fields of `Options`, which count more than those of ``options``; ``opset`` is ``target_opset``.

    Returns:
        The rewritten model, the report and the verdict. Inputs and outputs keep names, shapes and types.

    Raises:
        BadInput: The model cannot be read, or recorded data does not fit it.
        Unsupported: It cannot be processed, `ConversionBlocked` where nodes have no equivalent at the target opset.
        OutputError: The result cannot be written, or would overwrite the input.
        VerificationFailed: The result does not compute what the model did; nothing was written.

    Examples:
        >>> import bnfold
        >>> outcome = bnfold.optimize("model.onnx", "out.onnx")
        >>> outcome.verdict.status, outcome.report.opset_before, outcome.report.opset_after
        ('verified', 6, 15)
        >>> {event.verdict for event in outcome.report.batchnorms}
        {'folded'}
    """
    chosen = options_of(fields, options)
    return process_source(source, output, simplified(chosen, simplify), verify, progress)


@speaks_python
def fold(
    source: Source,
    output: Output = None,
    *,
    verify: VerifyOptions | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionFields],
) -> Outcome:
    """Fold, and keep all else: `optimize` with ``target_opset="keep"``, ``constants="keep"`` and ``no_simplify=True``.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        progress: As for `optimize`.
        **options: The fields of `Options`.

    Raises:
        BnfoldError: As `optimize`.

    Examples:
        >>> import bnfold, onnx
        >>> proto = bnfold.fold(onnx.load("model.onnx")).to_proto()
        >>> proto.opset_import[0].version, "BatchNormalization" in {node.op_type for node in proto.graph.node}
        (6, False)
    """
    defaults = Options(target_opset="keep", **ONE_JOB)
    return process_source(source, output, options_of(options, defaults), verify, progress)


@speaks_python
def upgrade(
    source: Source,
    output: Output = None,
    *,
    verify: VerifyOptions | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionFields],
) -> Outcome:
    """Change the opset and nothing else.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        progress: As for `optimize`.
        **options: The fields of `Options`; only ``target_opset`` and ``policy`` have an effect. ``target_opset`` is
            the opset of the default domain to reach; None for 15, unless the model is newer.

    Raises:
        ConversionBlocked: Nodes have no equivalent at the target; its ``blockers`` names each of them.
        BnfoldError: As `optimize`.

    Examples:
        >>> import bnfold
        >>> report = bnfold.upgrade("model.onnx", target_opset=17).report
        >>> report.opset_before, report.opset_after, report.count("upgraded")
        (6, 17, 9)
    """
    defaults = Options(fold=False, **ONE_JOB)
    return process_source(source, output, options_of(options, defaults), verify, progress)


@speaks_python
def convert(
    source: Source,
    output: Output = None,
    *,
    verify: VerifyOptions | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionFields],
) -> Outcome:
    """Convert to another opset or IR version, up or down (downgrade), and change nothing else.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        progress: As for `optimize`.
        **options: The fields of `Options`; only ``opset``, ``ir_version``, ``ml_opset``, ``domain_opsets``, ``policy``,
            ``fix_shapes`` and ``disable`` have an effect. ``opset`` is the opset to reach: a number, ``"lowest"`` or
            ``"latest"``; None keeps it, if an IR version is given.

    Raises:
        ConversionBlocked: Nodes have no equivalent at the target; its ``blockers`` names each of them.
        WrongUsage: Neither an opset nor an IR version is given.
        BnfoldError: As `optimize`.

    Examples:
        >>> import bnfold
        >>> report = bnfold.convert("out.onnx", opset=11).report
        >>> report.opset_before, report.opset_after, report.ir_before, report.ir_after
        (15, 11, 8, 6)
    """
    chosen = options_of(options, Options(fold=False, **ONE_JOB))
    if chosen.target_opset is None:
        if not {"ir_version", "ml_opset", "domain_opsets"} & options.keys():
            raise WrongUsage("give an opset or an ir_version: for example bnfold.convert(model, opset=13)")
        chosen = replace(chosen, target_opset="keep")
    return process_source(source, output, chosen, verify, progress)


@speaks_python
def decompose(
    source: Source,
    output: Output = None,
    *,
    verify: VerifyOptions | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionFields],
) -> Outcome:
    """Write every BatchNormalization as primitive operators, folding nothing; the opset stays unless asked for.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        progress: As for `optimize`.
        **options: The fields of `Options`, above all ``decompose_form`` and ``decompose_ops``. Before opset 7
            nothing can be decomposed: operators did not broadcast then, so ask for a newer ``target_opset``.

    Raises:
        BnfoldError: As `optimize`.

    Examples:
        >>> import bnfold
        >>> bnfold.decompose("model.onnx", target_opset=15).report.count("decomposed")
        9
    """
    defaults = Options(target_opset="keep", fold=False, decompose="all", **ONE_JOB)
    return process_source(source, output, options_of(options, defaults), verify, progress)


@speaks_python
def inspect(
    source: Source,
    *,
    options: Options | None = None,
    progress: Progress | None = None,
    **fields: Unpack[OptionFields],
) -> Outcome:
    """Show what `optimize` would do, without writing or verifying anything.

    Args:
        source: As for `optimize`.
        options: As for `optimize`.
        progress: As for `optimize`.
        **fields: As for `optimize`.

    Returns:
        As `optimize`, without a verdict; ``outcome.to_json()`` has all that ``bnfold inspect`` shows.

    Raises:
        BnfoldError: As `optimize`.

    Examples:
        >>> import bnfold
        >>> [(event.version, event.mode, event.into) for event in bnfold.inspect("model.onnx").report.batchnorms][:1]
        [(6, 'inference', ('node1',))]
    """
    chosen = options_of({**fields, "simplify": ()}, options)
    return process_source(source, None, chosen, VerifyOptions(depth="none"), progress)


@speaks_python
def verify(
    before: Source,
    after: Source,
    *,
    tolerance: Tolerance | None = None,
    options: VerifyOptions | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Compare two models numerically.

    Args:
        before: The model that is right by definition; as ``source`` of `optimize`.
        after: The model that should be numerically equivalent, for the same inputs.
        tolerance: The error that is accepted, as a share of each output's largest value; or ``"float16"`` or
            ``"bfloat16"`` for what rounding to that type explains (`VerifyOptions.tolerance`). None: only what rounding
            new weights can cause.
        options: What to compare on; ``depth="none"`` is read as ``auto``.
        progress: As for `optimize`.

    Returns:
        A verdict, true if the models are equivalent. Errors are relative to each output's largest magnitude.

    Raises:
        BadInput: A model cannot be read, or recorded data does not fit.
        WrongUsage: Both are one object, as after a pass that works in place.

    Examples:
        >>> import bnfold
        >>> verdict = bnfold.verify("model.onnx", "out.onnx", options=bnfold.VerifyOptions(samples=2))
        >>> assert verdict
        >>> verdict.status, verdict.outputs[0].relative <= verdict.outputs[0].allowed
        ('verified', True)
        >>> bnfold.verify("model.onnx", "out.onnx", tolerance=0.01).outputs[0].beyond
        0.0
    """
    if _held(before) is _held(after) and not isinstance(before, str | bytes | os.PathLike | onnx.ModelProto):
        raise WrongUsage("before and after are one object: what changes a model in place is to be given a copy of it")
    sources = open_source(before, "before"), open_source(after, "after")
    return formats.verify_two(*sources, _within(tolerance, settings_of(VerifyOptions, options, "options")), progress)


def _held(source: Source) -> object:
    """Return the model of onnx_ir that an object holds, or the source itself."""
    return getattr(source, "model", source)


def _within(tolerance: Tolerance | None, checks: VerifyOptions) -> VerifyOptions:
    return checks if tolerance is None else replace(checks, tolerance=tolerance)


@speaks_python
def diff(
    before: Source, after: Source, *, values: bool | None = None, options: VerifyOptions | None = None
) -> dict[str, Any]:
    """Compare two models node by node.

    Args:
        before: One model; as ``source`` of `optimize`.
        after: The other one.
        values: Whether to run both, and find the value that differs first; None: if that takes a few seconds.
        options: What to run them on.

    Returns:
        What differs, as plain JSON types; docs/diff.md describes them.

    Raises:
        BadInput: A model cannot be read.

    Examples:
        >>> import bnfold
        >>> (found := bnfold.diff("model.onnx", "out.onnx"))["equal"], found["values"]["outputs"]["notable"]
        (False, 0)
    """
    from bnfold import diffing

    sources = open_source(before, "before"), open_source(after, "after")
    old, new = map(formats.one_kind(*sources).load, sources)
    return diffing.diff(old, new, values=values, checks=settings_of(VerifyOptions, options, "options"))


@speaks_python
def run(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    command: Sequence[str],
    *,
    tolerance: Tolerance | None = None,
    options: Options | None = None,
    verify: VerifyOptions | None = None,
    progress: Progress | None = None,
) -> StepRow:
    """Run an external tool on a copy of a model, and keep its output only if it is equivalent.

    Args:
        source: An ONNX file.
        output: The file to write.
        command: The program and its arguments; ``{input}`` and ``{output}`` are the files that it reads and writes.
        tolerance: As for `verify`.
        options: ``step_seconds`` is the time limit.
        verify: As for `optimize`.
        progress: As for `optimize`.

    Returns:
        The step: its status, time and verdict.

    Raises:
        StepRefused: The command failed, or its output is not equivalent; nothing was written.
        BnfoldError: `BadCommand` if there is no such program; else as `optimize`.

    Examples:
        >>> import bnfold
        >>> bnfold.run("model.onnx", "copy.onnx", ["cp", "{input}", "{output}"]).status
        'verified'
    """
    from bnfold.pipeline import command as step

    checks = _within(tolerance, settings_of(VerifyOptions, verify, "verify"))
    chosen = settings_of(Options, options, "options")
    _, row, _ = step.run_command(Path(source), OutputOptions(Path(output)), command, chosen, checks, progress)
    return row
