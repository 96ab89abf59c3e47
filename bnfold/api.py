"""The functions of the public interface: one call for each command, keyword options of the same names.

``source`` is a path (of an ONNX file, or of an OpenVINO IR, .xml), encoded bytes or an ``onnx.ModelProto``. ``output``
is a path, or None to keep the result in memory (`Outcome.model`, `Outcome.to_proto`). All of them raise `BnfoldError`
and its children for what a user can mend.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bnfold.pipeline import formats
from bnfold.pipeline.formats import Source
from bnfold.pipeline.job import process
from bnfold.pipeline.outcome import Outcome
from bnfold.settings import Options, OutputOptions, VerifyOptions, simplified
from bnfold.verification import Verdict

Output = str | os.PathLike[str] | None


def _delivery(output: Output) -> OutputOptions | None:
    return None if output is None else OutputOptions(Path(output))


def optimize(
    source: Source,
    output: Output = None,
    *,
    options: Options | None = None,
    verify: VerifyOptions | None = None,
    simplify: bool | Sequence[str] = False,
) -> Outcome:
    """Upgrade, fold, decompose where asked, verify, and write.

    Args:
        source: A path, the bytes of a model, or an ``onnx.ModelProto``, which stays as it is. Inputs and weights of any
            shape; float32, float64, float16 and bfloat16 weights are folded in float64 and rounded once.
        output: The file to write, with its external data beside it; None to keep the result in memory.
        options: What to do; None for `Options` as they are by default.
        verify: How to verify; None for `VerifyOptions` as they are by default, ``VerifyOptions(depth="none")`` not to.
        simplify: Other optimisers to run as well (`Options.simplify`); True for onnxscript's.

    Returns:
        The rewritten model, the report on every BatchNormalization, and the verdict. Names, shapes and types of the
        model's inputs and outputs are unchanged.

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
    return process(source, _delivery(output), simplified(options or Options(), simplify), verify or VerifyOptions())


def fold(source: Source, output: Output = None, *, verify: VerifyOptions | None = None, **options: Any) -> Outcome:
    """Fold and keep the opset: `optimize` with ``target_opset="keep"``.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        **options: The fields of `Options`.

    Raises:
        TypeError: `Options` has no field of that name.
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold, onnx
        >>> proto = bnfold.fold(onnx.load("model.onnx")).to_proto()
        >>> proto.opset_import[0].version, "BatchNormalization" in {node.op_type for node in proto.graph.node}
        (6, False)
    """
    return process(source, _delivery(output), Options(**{"target_opset": "keep", **options}), verify or VerifyOptions())


def upgrade(
    source: Source,
    output: Output = None,
    *,
    target_opset: int | None = None,
    verify: VerifyOptions | None = None,
    **options: Any,
) -> Outcome:
    """Change the opset and nothing else.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        target_opset: The opset of the default domain to reach; None for 15, unless the model is newer.
        verify: As for `optimize`.
        **options: The fields of `Options`, of which ``policy`` matters here.

    Raises:
        TypeError: `Options` has no field of that name.
        UpgradeBlocked: Nodes have no equivalent at the target; its ``blockers`` names each of them.
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold
        >>> report = bnfold.upgrade("model.onnx", target_opset=17).report
        >>> report.opset_before, report.opset_after, report.count("upgraded")
        (6, 17, 9)
    """
    settings: dict[str, Any] = {"target_opset": target_opset, "fold": False, **options}
    return process(source, _delivery(output), Options(**settings), verify or VerifyOptions())


def decompose(source: Source, output: Output = None, *, verify: VerifyOptions | None = None, **options: Any) -> Outcome:
    """Spell every BatchNormalization out as primitive operators, folding nothing; the opset stays unless asked for.

    Args:
        source: As for `optimize`.
        output: As for `optimize`.
        verify: As for `optimize`.
        **options: The fields of `Options`, above all ``decompose_form`` and ``decompose_ops``. Before opset 7
            nothing can be spelled out: operators did not broadcast then, so ask for a newer ``target_opset``.

    Raises:
        TypeError: `Options` has no field of that name.
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold
        >>> bnfold.decompose("model.onnx", target_opset=15).report.count("decomposed")
        9
    """
    settings: dict[str, Any] = {"target_opset": "keep", "fold": False, "decompose": "all", **options}
    return process(source, _delivery(output), Options(**settings), verify or VerifyOptions())


def inspect(source: Source, *, options: Options | None = None) -> Outcome:
    """What `optimize` would do, without writing or verifying anything.

    Args:
        source: As for `optimize`.
        options: As for `optimize`.

    Returns:
        As `optimize`, without a verdict; ``outcome.to_json()`` has the versions, modes and ranges that
        ``bnfold inspect`` shows.

    Raises:
        BnfoldError: As `optimize`.

    Example:
        >>> import bnfold
        >>> [(event.version, event.mode, event.into) for event in bnfold.inspect("model.onnx").report.batchnorms][:1]
        [(6, 'inference', ('node1',))]
    """
    return process(source, None, replace(options or Options(), simplify=()), VerifyOptions(depth="none"))


def verify(
    before: str | os.PathLike[str], after: str | os.PathLike[str], *, options: VerifyOptions | None = None
) -> Verdict:
    """Compare two model files, whoever made them.

    Args:
        before: The model that is right by definition.
        after: The model that should compute the same, for the same inputs.
        options: What to compare on; ``depth="none"`` is read as ``auto``.

    Returns:
        A verdict, also where the models differ; errors are relative to each output's largest magnitude, computed in
        float64.

    Raises:
        BadInput: A file cannot be read, or recorded data does not fit.

    Example:
        >>> import bnfold
        >>> verdict = bnfold.verify("model.onnx", "out.onnx", options=bnfold.VerifyOptions(samples=2))
        >>> verdict.verified, verdict.outputs[0].relative <= verdict.outputs[0].allowed
        (True, True)
    """
    return formats.verify_files(Path(before), Path(after), options or VerifyOptions())
