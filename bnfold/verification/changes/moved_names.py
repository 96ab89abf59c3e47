"""Names that another tool gave to other values.

If a BatchNormalization was folded into a Conv, the result may keep the name of the Conv's output. So one name has a
different value in each model, and the name of the BatchNormalization's output has none in the rewritten model.
"""

from __future__ import annotations

from bnfold import ir
from bnfold.verification.tolerance.bits import same
from bnfold.verification.tolerance.floats import is_float


def with_original_names(before: ir.Model, after: ir.Model) -> ir.Model:
    """Return the rewritten model with the original's names for the values that its consumers read in the same places.

    Only values that nodes of the main graph produce and consume are renamed, to names that are free.
    """
    found: dict[str, str] = {}
    for value in before.graph.values.values():
        moved = _counterpart(value, after.graph) if value.name not in after.graph.values else None
        if moved is not None and not after.has_name(value.name):
            found.setdefault(moved.name, value.name)
    if not found:
        return after
    copy = after.clone()
    for name, original in found.items():
        copy.graph.rename(copy.graph.values[name], original)
    copy.sync()
    return copy


def _counterpart(value: ir.Value, graph: ir.Graph) -> ir.Value | None:
    """Return the value that all counterparts of a value's consumers read in its place, and no other node reads."""
    if value.producer is None or value.is_output or not value.uses:
        return None
    found = {_read_instead(node, slot, graph) for node, slot in value.uses}
    moved = found.pop()
    if found or moved is None or moved.producer is None or moved.producer.graph is not graph or moved.is_output:
        return None
    own = value.graph.values.get(moved.name)
    if own is None or own.producer is None or not _has_other_weights(own.producer, moved.producer):
        return None  # the name is new, or it may have the same value as before
    return moved if len(moved.uses) == len(value.uses) else None


def _has_other_weights(old: ir.Node, new: ir.Node) -> bool:
    """Whether nodes of one operator compute with different float constants, so that their results differ."""
    if old.op_type != new.op_type or old.domain != new.domain:
        return False
    pairs = [tuple(map(ir.constant, pair)) for pair in zip(old.inputs, new.inputs, strict=False)]
    return any(one and other and is_float(one.dtype) and not same(one, other) for one, other in pairs)


def _read_instead(node: ir.Node, slot: int, graph: ir.Graph) -> ir.Value | None:
    """Return the input of the node that makes the same output in the other model; None for another operator."""
    output = node.output(0)
    made = graph.values.get(output.name) if output is not None and node.graph.path == graph.path else None
    other = made.producer if made is not None else None
    return other.input(slot) if other is not None and other.is_op(node.op_type) else None
