"""Operators for which agreement on random numbers means agreement on all numbers, and parts that differ in others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from bnfold import ir
from bnfold.ir.node import attribute_value
from bnfold.ir.tensor import FLOATS, TP
from bnfold.reference.dispatch import meaning
from bnfold.reference.legal import MEANINGLESS
from bnfold.reference.operators import MOVING, NORMALISING, SINGULAR
from bnfold.verification.changes.extract import Subgraph, constant_of
from bnfold.verification.changes.partly import known_of
from bnfold.verification.changes.unchanged import defaults, meaningful_attributes
from bnfold.verification.inputs.bounds import follow_from_sizes
from bnfold.verification.tolerance.discontinuities import read_discontinuously
from bnfold.verification.tolerance.floats import is_float

_SMOOTH = {
    "Add", "Affine", "AveragePool", "BatchNormalization", "Concat", "Conv", "ConvTranspose", "Crop", "DepthToSpace",
    "DequantizeLinear", "Div", "Expand", "Flatten", "Gather", "Gemm", "GlobalAveragePool", "GroupNormalization",
    "Identity", "ImageScaler", "InstanceNormalization", "LayerNormalization", "LpNormalization", "MatMul", "Mean",
    "MeanVarianceNormalization", "Mul", "Neg", "Pad", "Pow", "Reciprocal", "ReduceMean", "ReduceSum", "Reshape",
    "Resize", "Slice", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze",
    "Upsample",
}  # fmt: skip

_FIXED = {"MeanVarianceNormalization": 1e-9}
"""The epsilons of normalisers that do not state one."""

_OPEN = 8
"""What an open size counts for."""

_COUNTS = {TP.INT8, TP.INT16, TP.INT32, TP.INT64, TP.UINT8, TP.UINT16, TP.UINT32, TP.UINT64}


def is_smooth(node: ir.Node) -> bool:
    """Whether functions of such nodes that agree on random numbers agree everywhere, away from poles."""
    if node.is_op("Cast"):
        return settings(node).get("to") in FLOATS  # to 8 bits and fewer, it saturates
    if node.is_op("LayerNormalization", "InstanceNormalization", "GroupNormalization"):
        return bool(settings(node).get("epsilon"))  # without one, what is made of two numbers is their order
    if node.is_op("Div") and (made := node.output(0)) is not None and made.dtype in _COUNTS:
        return False  # it rounds
    return node.is_op(*_SMOOTH)


def only_moves(*parts: Subgraph) -> bool:
    """Whether results are floats that the parts are fed, at places that no number fed to them decides."""
    for part in parts:
        moved = set(part.fed)
        for node in part.nodes:
            slots = [slot for slot, value in enumerate(node.inputs) if value in moved]
            if not slots or node.is_op("Shape", "Size"):
                continue
            if node.is_call or not node.has_trait(MOVING) or (any(slots) and not node.is_op("Concat")):
                return False
            moved.update(value for value in node.outputs if value is not None)
    return all(is_float(value.dtype) for part in parts for value in part.fed)


def settings(node: ir.Node) -> dict[str, Any]:
    """Return the attributes with their defaults, but for graphs, what means nothing, and what only callers know."""
    spelled = {
        attribute.name: attribute_value(attribute)
        for attribute in meaningful_attributes(node)
        if not (attribute.name in node.subgraphs or attribute.name in MEANINGLESS or attribute.ref_attr_name)
    }
    return {**defaults(node), **spelled}


def differ_in_kind(old: Subgraph, new: Subgraph) -> bool:
    """Whether parts that agree on usual numbers may differ on those of another kind.

    Only one of them has an operator that behaves differently there. Or both have it, and one reads what it limits where
    the other one reads its result. Or an epsilon is another one.
    """
    one, other = _epsilons(old), _epsilons(new)
    return (
        _rough(old) != _rough(new) or _is_passed_by(old) or _is_passed_by(new) or bool(one and other and one != other)
    )


def sizes_at_jumps(nodes: Iterable[ir.Node]) -> dict[str, int]:
    """Return how many numbers discontinuous operators read, more or less, of each value that the nodes compute.

    One sample of a single number shows one side of a jump alone.
    """
    own = {*nodes}
    known = {value: known_of(value.graph.model).dims(value) for value in read_discontinuously(own)}
    return {
        value.name: math.prod(size if isinstance(size, int) else _OPEN for size in dims)
        for value, dims in known.items()
        if value.producer in own and dims is not None
    }


def _epsilons(subgraph: Subgraph) -> set[float]:
    """Return what normalisers add to variances, which only tiny numbers show."""
    return {
        _FIXED.get(node.op_type, settings(node).get("epsilon", 0.0))
        for node in subgraph.nodes
        if node.has_trait(NORMALISING)
    }


def _is_passed_by(subgraph: Subgraph) -> bool:
    """Whether an operator that may change nothing, or all to one number, does not stand between all that is read.

    What is computed from the same values beside it may be exchanged for its result.
    """
    rough = [node for node in subgraph.nodes if not is_smooth(node) and not _is_of_sizes(node)]
    if not rough:
        return False
    inside = {node for node in subgraph.nodes if not _is_of_sizes(node)}
    return any(_has_branch(node, inside) for node in rough)


def _has_branch(node: ir.Node, inside: set[ir.Node]) -> bool:
    """Whether something else reads what an operator is computed from; constants do not count."""
    before, waiting = {node}, [node]
    read: set[ir.Value] = set()
    while waiting:
        for value in filter(None, waiting.pop().inputs):
            if value in read or constant_of(value) is not None:
                continue
            read.add(value)
            if value.producer in inside and value.producer not in before:
                before.add(value.producer)
                waiting.append(value.producer)
    return any(reader in inside and reader not in before for value in read for reader, _ in value.uses)


def _rough(subgraph: Subgraph) -> set[tuple[object, ...]]:
    """Return the meaning of such nodes, with the names of what they read and make; not of what sizes decide.

    Values that are compared count as what they are compared with.
    """
    nodes = [node for node in subgraph.nodes if _is_singular(node) or not is_smooth(node)]
    places = {value: place for place, value in reversed([*enumerate(subgraph.outputs)])}

    def names(node: ir.Node) -> Iterator[object]:
        for value in (*node.outputs, *node.inputs):
            yield "" if value is None else places.get(value, value.name)

    return {(*meaning(node), *names(node)) for node in nodes if not _is_of_sizes(node)}


def _is_of_sizes(node: ir.Node) -> bool:
    """Whether its results follow from constants and sizes, whatever the numbers are."""
    return follow_from_sizes([value for value in node.outputs if value is not None])


def _is_singular(node: ir.Node) -> bool:
    """Whether it is another function at zero or below; a division by constants is the same everywhere."""
    return node.has_trait(SINGULAR) and not (node.is_op("Div") and constant_of(node.input(1)) is not None)
