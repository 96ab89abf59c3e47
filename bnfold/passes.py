"""The same rewrites as onnx_ir passes, for toolchains: an ``onnx_ir.Model`` in, a new ``onnx_ir.Model`` out.

Tensors are handed across by reference (`interop.onnx_ir`). What was decided about each BatchNormalization is data, in
``report`` of the pass, and a line each in the log (`bnfold.log`).
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal

import onnx_ir

from bnfold.interop.onnx_ir import from_onnx_ir, to_onnx_ir
from bnfold.pipeline import passes
from bnfold.report.events import Report
from bnfold.settings import ONE_JOB, Options

__all__ = ["ConvertOpsetPass", "DecomposeBatchNormPass", "FoldBatchNormPass", "SimplifyPass", "UpgradeBatchNormPass"]


class _BatchNormPass(onnx_ir.passes.FunctionalPass):  # type: ignore[misc] # onnx_ir is not type-checked here
    """What the passes share.

    Attributes:
        options: The `bnfold.Options` that the pass runs with, those included that make it the pass that it is.
        report: The `bnfold.Report` of the last call: an event for each BatchNormalization, with what became of it and
            why. Empty before the first.
    """

    def __init__(self, options: Options | None, **own: Any) -> None:
        super().__init__()
        self.options = _settled(type(self).__name__, options or Options(), own)
        self.report = Report()

    def call(self, model: onnx_ir.Model) -> onnx_ir.passes.PassResult:
        """Rewrite a copy of ``model``; its tensors are shared. Raises `BnfoldError` for what cannot be processed."""
        borrowed = from_onnx_ir(model)
        before = borrowed.proto.SerializeToString(deterministic=True)
        self.report = passes.rewrite(borrowed, self.options)
        borrowed.sync()
        if borrowed.proto.SerializeToString(deterministic=True) == before:
            return onnx_ir.passes.PassResult(model.clone(), modified=False)  # a functional pass returns a new object
        return onnx_ir.passes.PassResult(to_onnx_ir(borrowed), modified=True)


class FoldBatchNormPass(_BatchNormPass):
    """Fold BatchNormalizations into their neighbours' weights; the opset stays.

    Args:
        options: How; ``target_opset``, ``fold``, ``decompose``, ``constants`` and ``no_simplify`` are not for the
            caller to choose here.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options, target_opset="keep", fold=True, decompose="never", **ONE_JOB)


class UpgradeBatchNormPass(_BatchNormPass):
    """Bring the model to an opset, and nothing else.

    Args:
        target_opset: The opset to reach; None for 15, unless the model is newer.
        options: How (``policy``); ``target_opset``, ``fold``, ``decompose`` and ``constants`` are not to be chosen in
            them.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(self, target_opset: int | None = None, options: Options | None = None) -> None:
        super().__init__(options, target_opset=target_opset, fold=False, decompose="never", **ONE_JOB)


class ConvertOpsetPass(_BatchNormPass):
    """Convert the model to another opset and its IR version, up or down (downgrade), and change nothing else.

    Args:
        opset: The opset to reach: a number, ``"lowest"``, ``"latest"``, or ``"keep"`` if only the IR version is to
            change.
        ir_version: As `Options.ir_version`.
        options: How (``policy``, ``fix_shapes``); what the other arguments say is not to be chosen in them.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(
        self,
        opset: int | Literal["lowest", "latest", "keep"],
        ir_version: int | Literal["auto", "keep"] = "auto",
        options: Options | None = None,
    ) -> None:
        super().__init__(options, target_opset=opset, ir_version=ir_version, fold=False, decompose="never", **ONE_JOB)


class DecomposeBatchNormPass(_BatchNormPass):
    """Spell every BatchNormalization that there is out as primitive operators; the opset stays.

    Args:
        options: How (``decompose_form``, ``decompose_ops``); ``target_opset``, ``fold``, ``decompose`` and
            ``constants`` are not for the caller to choose here.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options, target_opset="keep", fold=False, decompose="all", **ONE_JOB)


class SimplifyPass(_BatchNormPass):
    """Leave fewer nodes by the rewrites that docs/simplifying.md lists; the opset stays.

    Args:
        options: How; ``target_opset``, ``fold``, ``decompose``, ``constants`` and ``no_simplify`` are not for the
            caller to choose here.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(self, options: Options | None = None) -> None:
        own = {"fold": False, "decompose": "never", "constants": "keep", "no_simplify": False}
        super().__init__(options, target_opset="keep", **own)


def _settled(name: str, options: Options, own: dict[str, Any]) -> Options:
    """Return the options with those that the pass decides by itself.

    Setting one of these to another value is reported as a mistake.
    """
    untouched, own = Options(), {**own, "simplify": ()}
    for field in fields(options):
        asked = getattr(options, field.name)
        if field.name in own and asked not in (getattr(untouched, field.name), own[field.name]):
            raise ValueError(
                f"{name} decides {field.name} by itself, and not as {asked!r}: use the pass that does that"
            )
    return replace(options, **own)
