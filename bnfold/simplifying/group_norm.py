"""GroupNormalization that was exported as InstanceNormalization of groups, between two Reshapes, then Mul and Add.

``Reshape(x, (N, G, …)) → InstanceNormalization → Reshape(x's shape) → Mul → Add`` is what exporters write for older
opsets. Since opset 21 GroupNormalization, with a scale and a bias for each channel, says it in one node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.shapes.arithmetic import Proven
from bnfold.edits.edit import Operand
from bnfold.ir.tensor import TP, Array
from bnfold.report import rewrites
from bnfold.simplifying.no_effect import same_dims
from bnfold.simplifying.plan import Simplification, replace

OPERATOR = "GroupNormalization"
OPSET = 21
"""The first whose GroupNormalization has a scale and a bias for each channel."""
_LEAST_RANK = 3
_TYPES = (TP.FLOAT, TP.FLOAT16)
"""Types that it computes in float32, like the operators it replaces, or with less rounding."""


class Matched(NamedTuple):
    """The nodes in front of the last Add, from the first on, and the constants that are multiplied and added."""

    first: ir.Node
    norm: ir.Node
    restored: ir.Node
    gamma: ir.Tensor
    beta: ir.Tensor


def find_group_norm(node: ir.Node, known: Proven) -> Simplification | None:
    """Plan a GroupNormalization in place of an Add and the four nodes in front of it, which nothing else reads."""
    matched = _matched(node) if node.graph.opset() >= OPSET else None
    source = matched.first.input(0) if matched is not None else None
    if matched is None or source is None or known.dtype(source) not in _TYPES:
        return None
    dims, grouped = known.dims(source), known.dims(matched.first.output(0))
    if dims is None or grouped is None or min(len(dims), len(grouped)) < _LEAST_RANK:
        return None
    channels, groups = dims[1], grouped[1]
    if not (isinstance(channels, int) and isinstance(groups, int)) or min(channels, groups) < 1 or channels % groups:
        return None
    if not (_keeps_batch(matched.first, known) and _restores(matched.restored, source, known)):
        return None
    constants = _constants(matched, len(dims), channels, groups)
    if constants is None:
        return None
    inputs: list[Operand] = [source, *constants]
    attrs = {"num_groups": groups, "epsilon": matched.norm.attr("epsilon", 1e-5)}
    return replace(rewrites.GROUP_NORM, node, OPERATOR, inputs, attrs)


def _matched(node: ir.Node) -> Matched | None:
    scaled, beta = _operands(node, "Mul")
    restored, gamma = _operands(scaled, "Reshape")
    norm = _only_producer(restored.input(0), "InstanceNormalization") if restored is not None else None
    first = _only_producer(norm.input(0), "Reshape") if norm is not None else None
    if first is None or norm is None or restored is None or gamma is None or beta is None:
        return None
    return Matched(first, norm, restored, gamma, beta)


def _constants(matched: Matched, rank: int, channels: int, groups: int) -> tuple[Array, Array] | None:
    """Return the scale and bias of each channel, those of its group in them; None if they are not constant."""
    scale, bias = (analysis.constant(matched.norm.input(slot)) for slot in (1, 2))
    factor, shift = (_by_channel(held, rank, channels) for held in (matched.gamma, matched.beta))
    if scale is None or bias is None or factor is None or shift is None or not scale.size == bias.size == groups:
        return None
    inner, added = (np.repeat(held.float64(), channels // groups) for held in (scale, bias))
    dtype = matched.gamma.numpy().dtype
    return (factor * inner).astype(dtype), (factor * added + shift).astype(dtype)


def _only_producer(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """Return the producer of a value if it has this operator, and the value has only one consumer."""
    producer = value.producer if value is not None else None
    if producer is None or value is None or producer.has_references or not producer.is_op(op_type):
        return None
    return producer if value.only_consumer is not None and producer.output(0) is value else None


def _operands(node: ir.Node | None, op_type: str) -> tuple[ir.Node | None, ir.Tensor | None]:
    """Return the producer, of this operator, of one operand of a node, and the other operand, a constant."""
    if node is not None and len(node.inputs) == 2:
        for made, other in (node.inputs, node.inputs[::-1]):
            producer, held = _only_producer(made, op_type), analysis.constant(other)
            if producer is not None and held is not None:
                return producer, held
    return None, None


def _keeps_batch(first: ir.Node, known: Proven) -> bool:
    """Whether the Reshape into groups leaves the batch size."""
    source, made = known.dims(first.input(0)), known.dims(first.output(0))
    if source and made and source[0] is not None and source[0] == made[0]:
        return True
    target = known.integers(first.input(1))
    return target is not None and target.items[0] == 0 and not first.attr("allowzero", 0)


def _restores(restored: ir.Node, source: ir.Value | None, known: Proven) -> bool:
    """Whether a Reshape gives back the shape of ``source``, as known sizes or as the Shape of it."""
    if same_dims(known, source, restored.output(0)):
        return True
    target = restored.input(1)
    shape = target.producer if target is not None else None
    is_whole = shape is not None and shape.is_op("Shape") and not shape.attr("start", 0) and shape.attr("end") is None
    return is_whole and shape is not None and shape.input(0) is source


def _by_channel(held: ir.Tensor, rank: int, channels: int) -> Array | None:
    """Return a constant as one number for each channel of values of this rank; None if it has more numbers."""
    if len(held.dims) > rank:
        return None
    dims = (1,) * (rank - len(held.dims)) + held.dims
    if dims[1] not in (1, channels) or any(size != 1 for axis, size in enumerate(dims) if axis != 1):
        return None
    return np.broadcast_to(held.float64().reshape(-1), (channels,))
