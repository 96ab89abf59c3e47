"""An Expand before an operator that would broadcast its operand to the same shape anyway."""

from __future__ import annotations

from bnfold import ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.analysis.traits import BROADCASTING
from bnfold.ir.value import Dim, Dims
from bnfold.report import rewrites
from bnfold.simplifying.plan import Simplification, replace


def find_broadcast(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan to let an operator read what an Expand reads, if another operand has the sizes to which it expands."""
    is_product = node.is_op("MatMul")
    if not (is_product or node.has_trait(BROADCASTING)) or node.op_type == "PRelu" or node.graph.opset() < 7:
        return None
    rewrite = rewrites.EXPAND_MATMUL if is_product else rewrites.EXPAND_BROADCAST.of(node.op_type)
    for slot, value in enumerate(node.inputs[:1] if node.is_op("Pow") else node.inputs):  # powers by a number differ
        first = value.producer if value is not None else None
        source = first.input(0) if first is not None and first.is_op("Expand") else None
        if first is None or source is None or source.graph is not node.graph or first.has_references:
            continue
        dims, made = known.dims(source), known.dims(value)
        others = [known.dims(other) for place, other in enumerate(node.inputs) if place != slot]
        if is_product:
            dims, made, *others = _matrices(dims, made, others[0])
        if any(_covers(other, dims, made) for other in others):
            inputs = [*node.inputs[:slot], source, *node.inputs[slot + 1 :]]
            return replace(rewrite, node, node.op_type, inputs)
    return None


def _matrices(source: Dims | None, made: Dims | None, other: Dims | None) -> list[Dims | None]:
    """Return the axes in front of the matrices of a MatMul, which are broadcast, if only these are expanded."""
    shapes = [source, made, other]
    is_same = source is not None and made is not None and None not in source[-2:] and source[-2:] == made[-2:]
    if not is_same or any(dims is None or len(dims) < 2 for dims in shapes):
        return [None, None, None]
    return [dims[:-2] if dims is not None else None for dims in shapes]


def _covers(other: tuple[Dim, ...] | None, source: tuple[Dim, ...] | None, made: tuple[Dim, ...] | None) -> bool:
    """Whether another operand has each size to which ``source`` is expanded, and every axis that it gets."""
    if other is None or source is None or made is None or not len(source) <= len(made) <= len(other):
        return False
    behind = other[len(other) - len(made) :]
    before = (1,) * (len(made) - len(source)) + source
    return all(
        size is not None and size in (old, beside) for old, size, beside in zip(before, made, behind, strict=True)
    )
