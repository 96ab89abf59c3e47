"""The same rewrites as onnx_ir passes, for toolchains: an ``onnx_ir.Model`` in, a new ``onnx_ir.Model`` out.

Tensors are handed across by reference (`interop.onnx_ir`). What was decided about each BatchNormalization is data, in
``report`` of the pass, and a line each in the log (`bnfold.log`). With ``verify=bnfold.VerifyOptions()``, each result
is compared with what came in: ``verdict`` of the pass says what was found, and one that differs raises.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

import onnx_ir

from bnfold import ir
from bnfold.errors import warn_renamed
from bnfold.interop.onnx_ir import from_onnx_ir, to_onnx_ir
from bnfold.pipeline import job
from bnfold.report.events import Report
from bnfold.settings import ONE_JOB, Opset, Options, VerifyOptions, with_one_name
from bnfold.settings.python_words import in_python_words, translated
from bnfold.verification import Verdict

__all__ = ["ConvertOpsetPass", "DecomposeBatchNormPass", "FoldBatchNormPass", "SimplifyPass"]


class _BnfoldPass(onnx_ir.passes.FunctionalPass):  # type: ignore[misc] # onnx_ir is not type-checked here
    """What the passes share.

    Attributes:
        options: The `bnfold.Options` that the pass runs with, those included that make it the pass that it is.
        verify: How each result is verified; None if it is not.
        report: The `bnfold.Report` of the last call: an event for each BatchNormalization, with what became of it and
            why. Empty before the first.
        verdict: The `bnfold.Verdict` on the last result; None if none was asked for.
    """

    def __init__(self, options: Options | None, verify: VerifyOptions | None, **own: Any) -> None:
        super().__init__()
        self.options = _settled(type(self).__name__, options or Options(), own)
        self.verify = verify
        self.report = Report()
        self.verdict: Verdict | None = None

    def call(self, model: onnx_ir.Model) -> onnx_ir.passes.PassResult:
        """Rewrite a copy of ``model``; its tensors are shared.

        Raises:
            BnfoldError: The model cannot be processed.
            VerificationFailed: The result does not compute what ``model`` does.
        """
        given = from_onnx_ir(model)
        with in_python_words():
            outcome = job.process(given, None, self.options, self.verify or VerifyOptions(depth="none"))
        self.report, self.verdict = translated(outcome.report), translated(outcome.verdict)
        if _skeleton(outcome.model) == _skeleton(given):
            return onnx_ir.passes.PassResult(model.clone(), modified=False)  # a functional pass returns a new object
        return onnx_ir.passes.PassResult(to_onnx_ir(outcome.model), modified=True)


def _skeleton(model: ir.Model) -> bytes:
    model.sync()
    return bytes(model.proto.SerializeToString(deterministic=True))


class FoldBatchNormPass(_BnfoldPass):
    """Fold BatchNormalizations into their neighbours' weights; the opset stays.

    Args:
        options: How; ``target_opset``, ``fold``, ``decompose``, ``constants`` and ``no_simplify`` are not for the
            caller to choose here.
        verify: How to verify each result; None not to.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(self, options: Options | None = None, *, verify: VerifyOptions | None = None) -> None:
        super().__init__(options, verify, target_opset="keep", fold=True, decompose="never", **ONE_JOB)


class ConvertOpsetPass(_BnfoldPass):
    """Convert the model to another opset and its IR version, up or down (downgrade), and change nothing else.

    Args:
        opset: The opset to reach: a number, ``"lowest"``, ``"latest"``, ``"keep"`` if only the IR version is to change,
            or None for 15, unless the model is newer.
        ir_version: As `Options.ir_version`.
        options: How (``policy``, ``fix_shapes``); what the other arguments say is not to be chosen in them.
        target_opset: Another name for ``opset``.
        verify: How to verify each result; None not to.

    Raises:
        ValueError: ``options`` ask for what another pass does, or two opsets are given.
    """

    def __init__(
        self,
        opset: Opset = None,
        ir_version: int | Literal["auto", "keep"] = "auto",
        options: Options | None = None,
        *,
        target_opset: Opset = None,
        verify: VerifyOptions | None = None,
    ) -> None:
        named = {"opset": opset, "target_opset": target_opset}
        own = with_one_name({name: value for name, value in named.items() if value is not None} or {"opset": None})
        super().__init__(options, verify, **own, ir_version=ir_version, fold=False, decompose="never", **ONE_JOB)


class DecomposeBatchNormPass(_BnfoldPass):
    """Spell every BatchNormalization that there is out as primitive operators; the opset stays.

    Args:
        options: How (``decompose_form``, ``decompose_ops``); ``target_opset``, ``fold``, ``decompose`` and
            ``constants`` are not for the caller to choose here.
        verify: How to verify each result; None not to.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(self, options: Options | None = None, *, verify: VerifyOptions | None = None) -> None:
        super().__init__(options, verify, target_opset="keep", fold=False, decompose="all", **ONE_JOB)


class SimplifyPass(_BnfoldPass):
    """Leave fewer nodes by the rewrites that docs/simplifying.md lists; the opset stays.

    Args:
        options: How; ``target_opset``, ``fold``, ``decompose``, ``constants`` and ``no_simplify`` are not for the
            caller to choose here.
        verify: How to verify each result; None not to.

    Raises:
        ValueError: ``options`` ask for what another pass does.
    """

    def __init__(self, options: Options | None = None, *, verify: VerifyOptions | None = None) -> None:
        own = {"fold": False, "decompose": "never", "constants": "keep", "no_simplify": False}
        super().__init__(options, verify, target_opset="keep", **own)


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


class _UpgradeBatchNormPass(ConvertOpsetPass):
    """The same as `ConvertOpsetPass`, under its old name and with its old arguments."""

    def __init__(self, target_opset: Opset = None, options: Options | None = None) -> None:
        super().__init__(target_opset, options=options)


_UpgradeBatchNormPass.__name__ = _UpgradeBatchNormPass.__qualname__ = "UpgradeBatchNormPass"  # which pickles hold

if TYPE_CHECKING:
    UpgradeBatchNormPass = _UpgradeBatchNormPass
else:

    def __getattr__(name: str) -> Any:
        if name != "UpgradeBatchNormPass":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warn_renamed("bnfold.passes.UpgradeBatchNormPass", "bnfold.passes.ConvertOpsetPass")
        return _UpgradeBatchNormPass
