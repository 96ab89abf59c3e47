"""An Expand before an operator that would broadcast its operand to the same shape anyway."""

from __future__ import annotations

from bnfold import ir
from bnfold.ir.shapes.arithmetic import Proven
from bnfold.ir.traits import BROADCASTING
from bnfold.ir.value import Dim
from bnfold.report import rewrites
from bnfold.simplifying.plan import Plan, Respell


def find_broadcast(node: ir.Node, known: Proven) -> Plan | None:
    """Plan to let an operator read what an Expand reads, if another operand has the sizes to which it expands."""
    if not node.has_trait(BROADCASTING) or node.op_type == "PRelu" or node.graph.opset() < 7:
        return None
    for slot, value in enumerate(node.inputs[:1] if node.is_op("Pow") else node.inputs):  # powers by a number differ
        first = value.producer if value is not None else None
        source = first.input(0) if first is not None and first.is_op("Expand") else None
        if first is None or source is None or source.graph is not node.graph or first.has_references:
            continue
        others = [known.dims(other) for place, other in enumerate(node.inputs) if place != slot]
        if any(_covers(other, known.dims(source), known.dims(value)) for other in others):
            inputs = [*node.inputs[:slot], source, *node.inputs[slot + 1 :]]
            return Respell(rewrites.EXPAND_BROADCAST.of(node.op_type), node, node.op_type, inputs, None)
    return None


def _covers(other: tuple[Dim, ...] | None, source: tuple[Dim, ...] | None, made: tuple[Dim, ...] | None) -> bool:
    """Whether another operand has each size to which ``source`` is expanded, and every axis that it gets."""
    if other is None or source is None or made is None or not len(source) <= len(made) <= len(other):
        return False
    behind = other[len(other) - len(made) :]
    before = (1,) * (len(made) - len(source)) + source
    return all(
        size is not None and size in (old, beside) for old, size, beside in zip(before, made, behind, strict=True)
    )
