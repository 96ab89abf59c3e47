"""Dropout: ``is_test`` to version 7, the mask's type to 10, ``ratio`` and mode as inputs to 12."""

from __future__ import annotations

import numpy as np

from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down, up


@up("Dropout", 7)
def test_mode(conversion: NodeConversion) -> None:
    """Convert 6 → 7: from 7 to 11 Dropout copies; training, where the node says it, needs version 12."""
    is_test = conversion.take("is_test")
    conversion.node.del_attr("consumed_inputs")
    if is_test is None:
        if conversion.policy.legacy_mode == "error":
            raise Inexpressible("has no is_test, so it may mean training or inference (--legacy-mode says which)")
        is_test = conversion.policy.legacy_mode != "training"
        mode = "inference" if is_test else "training"
        conversion.repair("absent-is-test", f"Dropout without is_test: read as {mode}")
    if is_test or conversion.policy.force_inference:
        if not is_test:
            conversion.repair("forced-inference", "Dropout in training mode read as inference, as asked")
        return
    boolean_mask(conversion)
    _move_ratio(conversion)
    operands = [conversion.input(0), conversion.node.input(1), conversion.constant(np.array(True), "training_mode")]
    conversion.become("Dropout", operands)


@up("Dropout", 10)
def boolean_mask(conversion: NodeConversion) -> None:
    """Convert 7 → 10: the mask becomes boolean; its consumers get it cast to the data's type, as before."""
    mask = conversion.node.output(1)
    if mask is None:
        return
    if not (mask.uses or mask.is_output):
        conversion.node.trim_outputs(1)
        return
    conversion.append("Cast", [conversion.divert(1, "mask")], mask, to=conversion.dtype(conversion.input(0)))


@up("Dropout", 12)
def ratio_input(conversion: NodeConversion) -> None:
    """Convert 10 → 12: ``ratio`` is an input, and the mask of inference is all ones.

    No text before says what that mask is. onnxruntime makes it of zeros.
    """
    mask = conversion.node.output(1)
    if mask is not None and not mask.is_unread:
        text = "Dropout has a mask, which no version before 12 defines in inference: read as all ones"
        conversion.repair("undefined-mask", text)
    _move_ratio(conversion)


def _move_ratio(conversion: NodeConversion) -> None:
    """Make attribute ``ratio`` an input."""
    ratio = conversion.take("ratio")
    if ratio is not None:
        conversion.node.set_input(1, conversion.constant(np.array(ratio, np.float32), "ratio"))


@down("Dropout", 7)
def inference(conversion: NodeConversion) -> None:
    """Convert 7 → 6: what copies is in test mode."""
    conversion.node.set_attr("is_test", 1)
