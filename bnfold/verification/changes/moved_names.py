"""Names that another tool gave to other values.

If a BatchNormalization was folded into a Conv, the result may keep the name of the Conv's output. So one name has a
different value in each model, and the name of the BatchNormalization's output has none in the rewritten model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bnfold import ir, reference
from bnfold.verification.changes.new_names import new_names, rename
from bnfold.verification.tolerance.bits import same
from bnfold.verification.tolerance.floats import is_float


def with_original_names(before: ir.Model, after: ir.Model, *, by_others: bool) -> ir.Model:
    """Return the rewritten model with the original's names for what it computes in the same way under new ones.

    Values of the main graph that consumers read in the same places get theirs as well. Only names that mean one value
    are exchanged, for free ones. New names are looked for only if another tool wrote the model (``by_others``).
    """
    if after.proto.training_info:
        return after
    found: dict[str, str] = {}
    if by_others and not after.graph.values.keys() <= before.graph.values.keys():
        with reference.keeping_constants(before), reference.keeping_constants(after):
            names = new_names(before.graph, after.graph)
        found = {name: original for name, original in names.items() if name != original}
    given = set(found.values())
    for value in before.graph.values.values():
        is_left = value.name not in after.graph.values and value.name not in given
        moved = _counterpart(value, after.graph) if is_left else None
        if moved is not None:
            found.setdefault(moved.name, value.name)
    if found:
        found = exchangeable(found, after)
    return after.clone(lambda proto: rename(proto.graph, found)) if found else after


def exchangeable(names: Mapping[str, str], model: ir.Model) -> dict[str, str]:
    """Return the names without those that mean two values, before or afterwards, and those that callers use."""
    meanings = Counter(name for graph in model.graphs() for name in graph.values)
    wanted = Counter(names.values())
    ends = {value.name for value in (*model.graph.inputs, *model.graph.outputs)}
    return {
        name: original
        for name, original in names.items()
        if meanings[name] == wanted[original] == 1 and name not in ends and not model.has_name(original)
    }


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
    pairs = [tuple(map(reference.constant, pair)) for pair in zip(old.inputs, new.inputs, strict=False)]
    return any(one and other and is_float(one.dtype) and not same(one, other) for one, other in pairs)


def _read_instead(node: ir.Node, slot: int, graph: ir.Graph) -> ir.Value | None:
    """Return the input of the node that makes the same output in the other model; None for another operator."""
    output = node.output(0)
    made = graph.values.get(output.name) if output is not None and node.graph.path == graph.path else None
    other = made.producer if made is not None else None
    return other.input(slot) if other is not None and other.is_op(node.op_type) else None
