"""Defects of onnxruntime that users of a correct model will meet; found by pattern, reported as notes."""

from __future__ import annotations

from bnfold import ir
from bnfold.verification.changes.extract import producer_of_elements


def hazards(model: ir.Model) -> list[str]:
    """Return one sentence for every known defect that the model as it is would run into."""
    notes = []
    for node in model.nodes():
        if not node.is_op("BatchNormalization"):
            continue
        if _is_behind_moved_matmul(node):
            notes.append(
                f"onnxruntime, optimising as by default, folds BatchNormalization {node.label!r} into the MatMul "
                "before it without looking at the Transpose or Reshape between them, and may compute something else"
            )
        if _aliases_in_training(node):
            notes.append(
                f"onnxruntime computes the training BatchNormalization {node.label!r} wrongly, because two of its "
                "parameters are the same initializer"
            )
    return notes


def _is_behind_moved_matmul(node: ir.Node) -> bool:
    value = node.input(0)
    producer = producer_of_elements(value)
    return producer is not None and producer.is_op("MatMul") and value is not None and producer is not value.producer


def _aliases_in_training(node: ir.Node) -> bool:
    if not node.attr("training_mode", 0):
        return False
    scale, bias, mean, var = (node.input(slot) for slot in range(1, 5))
    return (scale is not None and scale is var) or (bias is not None and bias is mean)
