"""Whole-model opset upgrade, with BatchNormalization and InstanceNormalization read by meaning.

Every version step of every operator is compatible, adapted or refused (:mod:`bnfold.converting.steps`). A node whose
steps are all compatible is not touched, the others go through adapters of our own, and what has no equivalent is an
error that lists all such nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bnfold import ir
from bnfold.converting.imports import DEFAULT_TARGET, leave_old_ir, merge_opset_imports, strip_initializer_inputs
from bnfold.settings import Policy

if TYPE_CHECKING:
    from bnfold.converting.ir_version import Wanted
    from bnfold.converting.model import Converted

__all__ = ["DEFAULT_TARGET", "convert", "leave_old_ir", "merge_opset_imports", "strip_initializer_inputs"]


def convert(
    model: ir.Model,
    target: int | None = None,
    *,
    policy: Policy | None = None,
    ir_version: Wanted = "auto",
    ml_opset: int | None = None,
    domain_opsets: Mapping[str, int] | None = None,
    fail_fast: bool = False,
) -> Converted:
    """Bring ``model`` to opset ``target`` in place (None: 15, unless it is newer).

    After an error the model is half way and has to be discarded. ``ir_version`` is what the caller wants of it, as
    `Options.ir_version`: functions are inlined if it has none. The field itself is lowered only for ``auto``.
    ``ml_opset`` and ``domain_opsets`` are as in `Options`. With ``fail_fast`` the first node in the way is an error.

    Raises:
        MalformedModel: A value is read that nothing makes, or an operator has no inputs.
        Unsupported: The model is of an opset newer than the installed onnx knows, or holds training graphs.
        ConversionBlocked: Some nodes have no equivalent at the target, or a form that no version allows; all of
            them are listed.
    """
    from bnfold.converting.model import upgrade  # the table and its adapters, which folding alone needs nothing of

    return upgrade(model, target, policy or Policy(), ir_version, ml_opset, domain_opsets, fail_fast=fail_fast)
