"""The functions of the public interface: one call for each command, keyword options of the same names.

``source`` is a path (of an ONNX file, or of an OpenVINO IR, .xml), encoded bytes or an ``onnx.ModelProto``. ``output``
is a path, or None to keep the result in memory (`Outcome.model`, `Outcome.to_proto`). All of them raise `BnfoldError`
and its children for what a user can mend.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bnfold import formats
from bnfold.job import Checks, Delivery, Outcome, Source, process
from bnfold.pipeline import Options
from bnfold.verification import Verdict

Output = str | os.PathLike[str] | None


def _delivery(output: Output) -> Delivery | None:
    return None if output is None else Delivery(Path(output))


def optimize(
    source: Source, output: Output = None, *, options: Options | None = None, checks: Checks | None = None
) -> Outcome:
    """Upgrade, fold, decompose where asked, verify, and write.

    Raises:
        BadInput: The model cannot be read.
        Unsupported: It cannot be processed, `UpgradeBlocked` where nodes have no equivalent at the target opset.
        OutputError: The result cannot be written.
        VerificationFailed: The result does not compute what the model did; nothing was written.
    """
    return process(source, _delivery(output), options or Options(), checks or Checks())


def fold(source: Source, output: Output = None, *, checks: Checks | None = None, **options: Any) -> Outcome:
    """Fold and keep the opset; ``options`` are the fields of `Options`. Raises as `optimize`."""
    return process(source, _delivery(output), Options(target_opset="keep", **options), checks or Checks())


def upgrade(
    source: Source,
    output: Output = None,
    *,
    target_opset: int | None = None,
    checks: Checks | None = None,
    **options: Any,
) -> Outcome:
    """Change the opset and nothing else; ``options`` are the fields of `Options`. Raises as `optimize`."""
    return process(
        source, _delivery(output), Options(target_opset=target_opset, fold=False, **options), checks or Checks()
    )


def decompose(source: Source, output: Output = None, *, checks: Checks | None = None, **options: Any) -> Outcome:
    """Spell every BatchNormalization out as primitive operators, folding nothing. Raises as `optimize`."""
    settings: dict[str, Any] = {"target_opset": "keep", "fold": False, "decompose": "all", **options}
    return process(source, _delivery(output), Options(**settings), checks or Checks())


def inspect(source: Source, *, options: Options | None = None) -> Outcome:
    """What `optimize` would do, without writing or verifying anything. Raises as `optimize`."""
    return process(source, None, options or Options(), Checks(depth="none"))


def verify(before: str | os.PathLike[str], after: str | os.PathLike[str], *, checks: Checks | None = None) -> Verdict:
    """Compare two model files, whoever made them.

    Raises:
        BadInput: A file cannot be read, or recorded data does not fit.
    """
    return formats.verify_files(Path(before), Path(after), checks or Checks())
