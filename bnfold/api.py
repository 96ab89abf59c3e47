"""The functions of the public interface: one call for each command, keyword options of the same names.

A model is a path (of an ONNX file, or of an OpenVINO IR, .xml), encoded bytes, an ``onnx.ModelProto`` or an
``onnx_ir.Model``. ``output`` is a path, or None to keep the result in memory (`Outcome.save`, `Outcome.to_proto`). All
of them raise `BnfoldError` and its children for what a user can mend, and TypeError for arguments of another type.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

import onnx

from bnfold.pipeline import formats
from bnfold.pipeline.job import process
from bnfold.pipeline.outcome import Outcome
from bnfold.settings import OptionFields, Options, OutputOptions, VerifyOptions, simplified
from bnfold.verification import Verdict

if TYPE_CHECKING:
    import onnx_ir

    from bnfold.pipeline.chain import StepRow

Source: TypeAlias = "str | os.PathLike[str] | bytes | onnx.ModelProto | onnx_ir.Model"
Output: TypeAlias = str | os.PathLike[str] | None
T = TypeVar("T", Options, VerifyOptions)


def _opened(source: Any, name: str = "source") -> formats.Source:
    """Return the model as the pipeline takes it."""
    if isinstance(source, str | os.PathLike):
        return Path(source)
    onnx_ir = sys.modules.get("onnx_ir")
    if onnx_ir is not None and isinstance(source, onnx_ir.Model):
        from bnfold.interop.onnx_ir import from_onnx_ir

        return from_onnx_ir(source)
    if isinstance(source, bytes | onnx.ModelProto):
        return source
    raise TypeError(f"{name}: a path, bytes, onnx.ModelProto or onnx_ir.Model is wanted, not {type(source).__name__}")


def _given(kind: type[T], value: object, name: str) -> T:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        example = {"VerifyOptions": 'depth="full"', "Options": "target_opset=17"}[kind.__name__]
        wanted = f"a bnfold.{kind.__name__} is wanted, not {type(value).__name__}"
        raise TypeError(f"{name}: {wanted}; for example bnfold.{kind.__name__}({example})")
    return value


def _delivery(output: Output) -> OutputOptions | None:
    return None if output is None else OutputOptions(Path(output))


def _process(source: Source, output: Output, options: Options, verify: VerifyOptions | None) -> Outcome:
    checks = _given(VerifyOptions, verify, "verify")
    return process(_opened(source), _delivery(output), options, checks)


def optimize(
    source: Source,
    output: Output = None,
    *,
    options: Options | None = None,
    verify: VerifyOptions | None = None,
    simplify: bool | str | Sequence[str] = False,
    **fields: Unpack[OptionFields],
) -> Outcome:
    """Upgrade, fold, decompose if asked, verify, and write.

    Args:
        source: A path, the bytes of a model, an ``onnx.ModelProto`` or an ``onnx_ir.Model``, which stays as it is.
            Inputs and weights of any shape; float32, float64, float16 and bfloat16 weights are folded in float64 and
            rounded once.
        output: The file to write, with its external data beside it; None to keep the result in memory.
        options: What to do; None for `Options` as they are by default.
        verify: How to verify; None for `VerifyOptions` as they are by default, ``VerifyOptions(depth="none")`` not to.
        simplify: Other optimisers to run as well (`Options.simplify`): a name, several, or True for onnxscript's.
        **fields: Fields of `Options`, which count more than those of ``options``.

    Returns:
        The rewritten model, the report and the verdict. Inputs and outputs keep names, shapes and types.

    Raises:
        BadInput: The model cannot be read, or recorded data does not fit it.
        Unsupported: It cannot be processed, `UpgradeBlocked` where nodes have no equivalent at the target opset.
        OutputError: The result cannot be written, or would overwrite the input.
        VerificationFailed: The result does not compute what the model did; nothing was written.

    Example:
        >>> import bnfold
        >>> outcome = bnfold.optimize("model.onnx", "out.onnx")
        >>> outcome.verdict.status, outcome.report.opset_before, outcome.report.opset_after
        ('verified', 6, 15)
        >>> {event.verdict for event in outcome.report.batchnorms}
        {'folded'}
    """
    chosen = replace(_given(Options, options, "options"), **dict[str, Any](fields))
    return _process(source, output, simplified(chosen, simplify), verify)


def fold(
    source: Source, output: Output = None, *, verify: VerifyOptions | None = None, **options: Unpack[OptionFields]
) -> Outcome:
    """Fold, and keep all else: `optimize` with ``target_opset="keep"``, ``constants="keep"`` and ``no_simplify=True``.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        **options: The fields of `Options`.

    Raises:
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold, onnx
        >>> proto = bnfold.fold(onnx.load("model.onnx")).to_proto()
        >>> proto.opset_import[0].version, "BatchNormalization" in {node.op_type for node in proto.graph.node}
        (6, False)
    """
    settings: dict[str, Any] = {"target_opset": "keep", "constants": "keep", "no_simplify": True, **options}
    return _process(source, output, Options(**settings), verify)


def upgrade(
    source: Source, output: Output = None, *, verify: VerifyOptions | None = None, **options: Unpack[OptionFields]
) -> Outcome:
    """Change the opset and nothing else.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        **options: The fields of `Options`, of which ``target_opset`` and ``policy`` matter here. ``target_opset`` is
            the opset of the default domain to reach; None for 15, unless the model is newer.

    Raises:
        UpgradeBlocked: Nodes have no equivalent at the target; its ``blockers`` names each of them.
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold
        >>> report = bnfold.upgrade("model.onnx", target_opset=17).report
        >>> report.opset_before, report.opset_after, report.count("upgraded")
        (6, 17, 9)
    """
    settings: dict[str, Any] = {"fold": False, "constants": "keep", "no_simplify": True, **options}
    return _process(source, output, Options(**settings), verify)


def decompose(
    source: Source, output: Output = None, *, verify: VerifyOptions | None = None, **options: Unpack[OptionFields]
) -> Outcome:
    """Spell every BatchNormalization out as primitive operators, folding nothing; the opset stays unless asked for.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        **options: The fields of `Options`, above all ``decompose_form`` and ``decompose_ops``. Before opset 7
            nothing can be spelled out: operators did not broadcast then, so ask for a newer ``target_opset``.

    Raises:
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold
        >>> bnfold.decompose("model.onnx", target_opset=15).report.count("decomposed")
        9
    """
    own = {"target_opset": "keep", "fold": False, "decompose": "all", "constants": "keep", "no_simplify": True}
    settings: dict[str, Any] = own | {**options}
    return _process(source, output, Options(**settings), verify)


def inspect(source: Source, *, options: Options | None = None, **fields: Unpack[OptionFields]) -> Outcome:
    """Show what `optimize` would do, without writing or verifying anything.

    Args:
        source: As for `optimize`.
        options: As for `optimize`.
        **fields: As for `optimize`.

    Returns:
        As `optimize`, without a verdict; ``outcome.to_json()`` has all that ``bnfold inspect`` shows.

    Raises:
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold
        >>> [(event.version, event.mode, event.into) for event in bnfold.inspect("model.onnx").report.batchnorms][:1]
        [(6, 'inference', ('node1',))]
    """
    chosen = replace(_given(Options, options, "options"), **dict[str, Any](fields), simplify=())
    return _process(source, None, chosen, VerifyOptions(depth="none"))


def verify(before: Source, after: Source, *, options: VerifyOptions | None = None) -> Verdict:
    """Compare two models numerically.

    Args:
        before: The model that is right by definition; as ``source`` of `optimize`.
        after: The model that should compute the same, for the same inputs.
        options: What to compare on; ``depth="none"`` is read as ``auto``.

    Returns:
        A verdict, true if the models are equivalent. Errors are relative to each output's largest magnitude.

    Raises:
        BadInput: A model cannot be read, or recorded data does not fit.

    Example:
        >>> import bnfold
        >>> verdict = bnfold.verify("model.onnx", "out.onnx", options=bnfold.VerifyOptions(samples=2))
        >>> assert verdict
        >>> verdict.status, verdict.outputs[0].relative <= verdict.outputs[0].allowed
        ('verified', True)
    """
    sources = _opened(before, "before"), _opened(after, "after")
    return formats.verify_two(*sources, _given(VerifyOptions, options, "options"))


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

    Example:
        >>> import bnfold
        >>> (found := bnfold.diff("model.onnx", "out.onnx"))["equal"], found["values"]["outputs"]["notable"]
        (False, 0)
    """
    from bnfold import diffing

    sources = _opened(before, "before"), _opened(after, "after")
    old, new = map(formats.one_kind(*sources).load, sources)
    return diffing.diff(old, new, values=values, checks=_given(VerifyOptions, options, "options"))


def run(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    command: Sequence[str],
    *,
    tolerance: str = "",
    options: Options | None = None,
    verify: VerifyOptions | None = None,
) -> StepRow:
    """Run an external tool on a copy of a model, and keep its output only if it is equivalent.

    Args:
        source: An ONNX file.
        output: The file to write.
        command: The program and its arguments; ``{input}`` and ``{output}`` are the files that it reads and writes.
        tolerance: The relative error that is accepted, as text, or ``float16`` or ``bfloat16`` for their rounding.
        options: ``step_seconds`` is the time limit.
        verify: As for `optimize`.

    Returns:
        The step: its status, time and verdict.

    Raises:
        StepRefused: The command failed, or its output is not equivalent; nothing was written.
        BnfoldError: `BadCommand` if there is no such program; else as `optimize`.

    Example:
        >>> import bnfold
        >>> bnfold.run("model.onnx", "copy.onnx", ["cp", "{input}", "{output}"]).status
        'verified'
    """
    from bnfold.pipeline import command as step

    checks, chosen = _given(VerifyOptions, verify, "verify"), _given(Options, options, "options")
    _, row, _ = step.run_command(Path(source), OutputOptions(Path(output)), command, chosen, checks, tolerance)
    return row
