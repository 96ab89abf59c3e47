"""Prepare models for runtimes, which know no policy: a node that is read as inference has to say so itself."""

from __future__ import annotations

from pathlib import Path

from bnfold import ir, reference
from bnfold.errors import MistypedAttribute

_IS_TEST = 6
"""The last version of BatchNormalization that says its mode by ``is_test``."""

_TRAINING_MODE = 14
"""The first one that says it by ``training_mode``; those between say it by the number of outputs."""


def as_read(model: ir.Model, file: Path | None, policy: reference.Policy) -> ir.Model | Path:
    """Return the file or model; if the policy forces training nodes to inference, a copy that says inference."""
    if not is_forced(model, policy):
        return file or model
    copy = model.clone()
    for node in [node for node in copy.nodes() if _is_forced(node)]:
        for name in ("is_test", "training_mode"):
            node.del_attr(name)
        if node.graph.opset() <= _IS_TEST:
            node.set_attr("is_test", 1)
        node.trim_outputs(1)
    copy.sync()
    return copy


def is_forced(model: ir.Model, policy: reference.Policy) -> bool:
    """Whether the policy reads some node otherwise than a runtime does."""
    return policy.force_inference and any(map(_is_forced, model.nodes()))


def _is_forced(node: ir.Node) -> bool:
    """Whether a BatchNormalization trains, or may, and its batch statistics are unused."""
    if not node.is_op("BatchNormalization") or node.has_references:
        return False
    if any(value is not None and (value.uses or value.is_output) for value in node.outputs[1:]):
        return False
    try:
        if node.has_attr("is_test"):
            return not node.attr("is_test")
        if node.has_attr("training_mode"):
            return bool(node.attr("training_mode"))
    except MistypedAttribute:
        return False
    return node.graph.opset() < _TRAINING_MODE and (node.graph.opset() <= _IS_TEST or len(node.outputs) > 1)
