"""Nodes and weights that nothing reads."""

from __future__ import annotations

from collections.abc import Collection

from bnfold import ir
from bnfold.report.events import Report
from bnfold.report.other_events import SimplifyEvent
from bnfold.report.rewrites import UNREAD_NODE, UNREAD_RESULT, UNREAD_WEIGHT
from bnfold.simplifying.results import Purity, drop_unread


def remove(model: ir.Model, report: Report, disabled: frozenset[str], among: Collection[ir.Node] | None = None) -> bool:
    """Remove what nothing reads, or only nodes ``among`` these and what only they read; return whether any is gone."""
    if model.proto.training_info:
        return False
    nodes = {node: node.graph.path for node in model.nodes()} if UNREAD_NODE.name not in disabled else {}
    for graph in model.graphs():
        if getattr(graph.proto, "quantization_annotation", ()):
            return False  # which names values that no node reads
    purity = Purity(model)
    for node in nodes if among is None or not nodes else among:
        is_unread = all(value is None or value.is_unread for value in node.outputs)
        if is_unread and purity.only_computes(node):
            for value in filter(None, node.outputs):
                model.note_unread(value)
    is_whole = among is None and UNREAD_WEIGHT.name not in disabled
    values = (value for graph in model.graphs() for value in graph.values.values()) if is_whole else ()
    weights = [value for value in values if _is_unread_weight(value)]
    for value in weights:
        model.note_unread(value)
    model.remove_dead_nodes()
    results = drop_unread(model, purity) if among is None and UNREAD_RESULT.name not in disabled else []
    report.simplified += results
    gone = {node: path for node, path in nodes.items() if node.removed}
    report.simplified += [
        SimplifyEvent(UNREAD_NODE, node.label, path, node.op_type, "")
        for node, path in gone.items()
        if not node.is_op("Constant")
    ]
    report.simplified += [SimplifyEvent(UNREAD_WEIGHT, value.name, value.graph.path, "", "") for value in weights]
    return bool(gone or weights or results)


def _is_unread_weight(value: ir.Value) -> bool:
    return value.tensor_proto is not None and value.is_unread and not value.is_input
