"""The two kinds of model files, told apart by suffix: ONNX, and OpenVINO IR (.xml), imported when one is met."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bnfold import ir, settings
from bnfold.errors import BadInput, OutputError, Unsupported
from bnfold.pipeline import order
from bnfold.settings import Delivery

if TYPE_CHECKING:
    from bnfold.interop.openvino import IrModel
    from bnfold.interop.openvino import Staged as StagedIr
    from bnfold.pipeline.job import Outcome, Source
    from bnfold.report.events import Report
    from bnfold.settings import Checks, Options
    from bnfold.verification import Verdict

Progress = Callable[[str, int, int], None]
SUFFIX = ".xml"


def is_openvino(source: object) -> bool:
    """Whether a path names an OpenVINO IR."""
    return isinstance(source, str | os.PathLike) and os.fspath(source).lower().endswith(SUFFIX)


def load(source: Source) -> ir.Model:
    """The model at ``source``, without its weights; one that is open already stays as it is.

    Raises:
        BadInput, Unsupported: It cannot be read.
    """
    if isinstance(source, ir.Model):
        return source.clone()
    if isinstance(source, Path) and is_openvino(source):
        from bnfold.interop import openvino

        return openvino.load(source)
    return ir.load(source)


def check_target(source: Source, delivery: Delivery) -> None:
    """Raise OutputError where the output would be of the other kind, BadInput for options that its kind lacks."""
    source_is = is_openvino(source)
    for path in (delivery.path, delivery.keep_failed):
        if path is not None and is_openvino(path) != source_is:
            raise OutputError(f"{path}: bnfold does not convert between ONNX and OpenVINO IR ({SUFFIX})")
    if source_is and _split(delivery) != _split(Delivery(delivery.path)):
        raise BadInput("--external-data and --size-threshold are about ONNX: the constants of an IR are in its .bin")


def _split(delivery: Delivery) -> tuple[str, int]:
    return delivery.external_data, delivery.size_threshold


def check_operators(source: object, options: Options, unwanted: frozenset[str] = frozenset()) -> None:
    """Raise BadSetting for an operator that only OpenVINO has, where the model is not one of its."""
    if not is_openvino(source):
        names = ("only", "excluded", "decompose_ops")
        for name, given in (*((name, getattr(options, name)) for name in names), ("assert_none", unwanted)):
            settings.check_operators(name, given & settings.OPENVINO_OPERATORS, openvino=False)


def data_file(target: Path, external_data: str) -> Path | None:
    """Where weights go that are not in ``target`` itself, which is no link; None where all of them are in it."""
    if is_openvino(target):
        from bnfold.interop.openvino.document import weights_path

        return weights_path(target)
    if external_data == "none":
        return None
    return target.parent / (f"{target.name}.data" if external_data in ("auto", "keep") else external_data)


def data_files(model: ir.Model) -> list[Path]:
    """The files beside the one that ``model`` was read from, which hold weights of it."""
    if (lifted := _lifted(model)) is not None:
        return [lifted.document.source.path] if lifted.document.source.path is not None else []
    return model.external_files()


def rewrite(model: ir.Model, options: Options, progress: Progress) -> Report:
    """All passes over ``model``, in place. Raises as `pipeline.rewrite`."""
    if (lifted := _lifted(model)) is not None:
        from bnfold.interop import openvino

        return openvino.rewrite(lifted, options, progress)
    return order.rewrite(model, options, progress)


def stage(model: ir.Model, delivery: Delivery, wrote: Callable[[int], None]) -> ir.Staged | StagedIr:
    """Write the model beside its place. Raises OutputError, RangeViolation, BadInput."""
    if (lifted := _lifted(model)) is not None:
        from bnfold.interop import openvino

        return openvino.stage(lifted, delivery.path, progress=wrote)
    return ir.stage(
        model,
        delivery.path,
        external_data=delivery.external_data,
        size_threshold=delivery.size_threshold,
        progress=wrote,
    )


def save(model: ir.Model, delivery: Delivery, path: Path) -> None:
    """Write the model at another place than ``delivery`` names."""
    if (lifted := _lifted(model)) is not None:
        from bnfold.interop import openvino

        with openvino.stage(lifted, path) as staged:
            staged.commit()
    else:
        ir.save(model, path, external_data=delivery.external_data)


def left(outcome: Outcome, operators: frozenset[str]) -> list[tuple[str, str, str]]:
    """As `decomposing.left`, over a model of either kind."""
    from bnfold import decomposing

    policy = outcome.options.policy
    if (lifted := _lifted(outcome.model)) is not None:
        from bnfold.interop import openvino

        return openvino.left(lifted, operators, policy)
    return decomposing.left(outcome.model, operators, policy)


def verify_result(outcome: Outcome, result: ir.Model | Path, progress: Progress) -> Verdict:
    """Compare the result, staged or in memory, with the model as it came."""
    source = outcome.source
    if (lifted := _lifted(outcome.model)) is not None:
        return _verify_ir(lifted, outcome, result, progress)
    from bnfold import verification

    if outcome.model.is_detached:
        reason = "the weights lie in external data, and the model was not read from a file"
        return verification.Verdict("unverified", reason, "nothing")
    return verification.verify(
        source if isinstance(source, Path) else load(source),
        result,
        checks=outcome.checks,
        cuts=outcome.report.cuts,
        frozen=outcome.options.freeze_overridable,
        policy=outcome.options.policy,
        progress=progress,
    )


def _verify_ir(lifted: IrModel, outcome: Outcome, result: ir.Model | Path, progress: Progress) -> Verdict:
    """What stays in memory is written to a folder that is gone afterwards: only OpenVINO runs these models."""
    import tempfile

    from bnfold.interop import openvino

    source = outcome.source
    assert isinstance(source, Path), "an IR comes from a file"
    if isinstance(result, Path):
        return verify_files(source, result, outcome.checks, progress)
    with tempfile.TemporaryDirectory(prefix="bnfold-") as folder:
        target = Path(folder) / "model.xml"
        with openvino.stage(lifted, target) as staged:
            staged.commit()
        return verify_files(source, target, outcome.checks, progress)


def verify_files(before: Path, after: Path, checks: Checks, progress: Progress | None = None) -> Verdict:
    """Compare two model files of one kind. Raises BadInput."""
    if is_openvino(before) != is_openvino(after):
        raise BadInput(f"{after}: an ONNX model and an OpenVINO IR cannot be compared")
    if is_openvino(before):
        from bnfold.interop import openvino

        return openvino.verify(before, after, checks, progress=progress)
    from bnfold import verification

    return verification.verify(before, after, checks=checks, progress=progress)


def require_onnx(model: ir.Model) -> None:
    """Raise Unsupported for a model that only files can hold."""
    if _lifted(model) is not None:
        raise Unsupported("an OpenVINO IR is no ONNX model: it is written to a file, OUT.xml")


def _lifted(model: ir.Model) -> IrModel | None:
    """The model, if it came from an IR. Imports nothing: a model that did has brought its room along."""
    room = sys.modules.get("bnfold.interop.openvino")
    return model if room is not None and isinstance(model, room.IrModel) else None
