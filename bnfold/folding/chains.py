"""Recognise affines with constant parameters, and the chains that they form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bnfold import analysis, ir
from bnfold.analysis.traits import ARITHMETIC
from bnfold.folding import facts, shapes
from bnfold.folding.affine import Affine, every, make, on_axis
from bnfold.folding.facts import guarded
from bnfold.ir.tensor import FLOATS, Float64
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import BatchNormSpec, Policy, Unreadable
from bnfold.semantics import batchnorm as batchnorm_semantics


class Link(NamedTuple):
    """One affine node: the slot that the activation comes in at, and what the node does to it."""

    node: ir.Node
    slot: int
    affine: Affine


class AffineChain(NamedTuple):
    """Affine nodes in a row, each the only consumer of the one before; they move as one."""

    links: tuple[Link, ...]
    affine: Affine

    @property
    def source(self) -> ir.Value:
        value = self.links[0].node.inputs[self.links[0].slot]
        assert value is not None
        return value

    @property
    def target(self) -> ir.Value:
        value = self.links[-1].node.outputs[0]
        assert value is not None
        return value

    @property
    def batchnorms(self) -> int:
        return sum(link.node.op_type == "BatchNormalization" for link in self.links)


def batchnorm(node: ir.Node, policy: Policy) -> Link:
    """Return the affine of an inference BatchNormalization. Raises Declined with the reason why it is none."""
    try:
        norm, epsilon = batchnorm_semantics.read_batchnorm(node, policy), batchnorm_semantics.epsilon(node)
    except Unreadable as error:
        raise Declined(
            Reason.REFERENCE_ATTRIBUTE if node.has_references else Reason.UNREADABLE, error.reason
        ) from error
    if norm.mode == "training":
        raise Declined(Reason.TRAINING_MODE)
    s, t = statistics(norm, epsilon)
    x = norm.inputs[0]
    dims = x.shape
    channels = dims[1] if dims is not None and len(dims) > 1 else None
    if not norm.per_activation and isinstance(channels, int) and channels != s.size:
        raise Declined(Reason.UNREADABLE, f"{s.size} parameters for {channels} channel{'s' * (channels != 1)}")
    if norm.per_activation:
        inner = shapes.dims(x)[1:]
        if not all(isinstance(dim, int) for dim in inner):
            raise Declined(Reason.NOT_STATIC, f"value {x.name!r}")
        shape = (1, *(int(dim) for dim in inner if dim is not None))
        if math.prod(shape) != s.size:
            raise Declined(Reason.UNREADABLE, f"{s.size} parameters for {math.prod(shape)} activations")
        return Link(node, 0, make(s.reshape(shape), t.reshape(shape)))
    return Link(node, 0, _on_channels(x, s, t))


def _on_channels(x: ir.Value, s: Float64, t: Float64) -> Affine:
    """Return one factor and shift for each channel of ``x``. Raises Declined."""
    rank = shapes.rank(x)
    if x.dtype is not None and x.dtype not in FLOATS:
        raise Declined(Reason.TYPE, f"the element type of value {x.name!r}")
    if rank == 0:
        raise Declined(Reason.UNREADABLE, f"value {x.name!r} is a scalar")
    if rank == 1 and s.size != 1:
        raise Declined(Reason.UNREADABLE, f"{s.size} parameters for value {x.name!r} of rank 1, which is one channel")
    return on_axis(s, t, 0, 1) if rank == 1 else on_axis(s, t, 1, rank)


def statistics(norm: BatchNormSpec, epsilon: float) -> tuple[Float64, Float64]:
    """Return ``s`` and ``t`` of an inference BatchNormalization, flat, in float64. Raises Declined."""
    tensors = [_parameter(value) for value in norm.inputs[1:]]
    with np.errstate(all="ignore"):
        scale, bias, mean, var = [tensor.widened().reshape(-1) for tensor in tensors]
        if not scale.size == bias.size == mean.size == var.size:
            raise Declined(Reason.UNREADABLE, "its parameters have different lengths")
        s = scale / np.sqrt(var + epsilon)
        t = bias - mean * s
    if not every(np.isfinite(t)):  # it is not where s is not, or the root is of no positive number
        raise Declined(Reason.NON_FINITE)
    return s, t


def _parameter(value: ir.Value) -> ir.Tensor:
    tensor = analysis.constant(value)
    if tensor is not None:
        return tensor
    if value.is_initializer and value.is_input:
        raise Declined(Reason.OVERRIDABLE_PARAMETER, f"value {value.name!r}")
    if value.producer is None:
        raise Declined(Reason.DYNAMIC_PARAMETERS, f"value {value.name!r} is an input")
    made = facts.made_of_constants(value) or f", which {facts.where(value.producer)} computes"
    raise Declined(Reason.DYNAMIC_PARAMETERS, f"value {value.name!r}{made}")


def has_constant(node: ir.Node) -> bool:
    """Whether an arithmetic node has one operand only that is computed."""
    return node.op_type == "Neg" or any(analysis.constant(value) is not None for value in node.inputs)


def arithmetic(node: ir.Node) -> Link:
    """Return the affine of a constant Mul, Add, Sub, Div or Neg. Raises Declined when it is none."""
    if not node.has_trait(ARITHMETIC) or len(node.outputs) != 1 or node.outputs[0] is None:
        raise Declined(Reason.NO_HANDLER, f"{node.op_type} {node.label!r}")
    if node.op_type == "Neg":
        rank = shapes.rank(facts.operand(node, 0))
        return Link(node, 0, Affine(np.full((1,) * rank, -1.0), np.zeros((1,) * rank)))
    if len(node.inputs) != 2:
        raise Declined(Reason.UNREADABLE, f"{node.op_type} {node.label!r}")
    decline_legacy(node)
    for slot in (0, 1):
        held = analysis.constant(node.inputs[1 - slot])
        if held is not None and held.dtype in FLOATS and analysis.constant(node.inputs[slot]) is None:
            return Link(node, slot, _binary(node, slot, held.float64()))
    raise Declined(Reason.NO_HANDLER, f"{node.op_type} {node.label!r} has no constant operand")


def decline_legacy(node: ir.Node) -> None:
    """Decline what broadcasts as before opset 7."""
    if node.has_attr("broadcast") or node.has_attr("axis"):
        raise Declined(Reason.LEGACY_BROADCAST, facts.where(node))


def _binary(node: ir.Node, slot: int, constant: Float64) -> Affine:
    x = facts.operand(node, slot)
    rank = shapes.rank(x)
    if constant.ndim > rank:
        raise Declined(Reason.AXIS, f"the constant of {node.op_type} {node.label!r} adds axes to the value")
    block = constant.reshape((1,) * (rank - constant.ndim) + constant.shape)
    # A size of 0 is what exporters write for an unknown one: of one row such a constant leaves none.
    if any(size != 1 and (not size or size != shapes.size(x, axis)) for axis, size in enumerate(block.shape)):
        raise Declined(Reason.NOT_STATIC, f"the constant of {node.op_type} {node.label!r} may stretch the value")
    one, zero = np.ones((1,) * rank), np.zeros((1,) * rank)
    with np.errstate(all="ignore"):
        if node.op_type == "Mul":
            affine = make(block, zero)
        elif node.op_type == "Add":
            affine = make(one, block)
        elif node.op_type == "Sub":
            affine = make(one, -block) if slot == 0 else make(-one, block)
        elif slot == 0:
            affine = make(1.0 / block, zero)
        else:
            raise Declined(Reason.NO_HANDLER, f"{node.op_type} {node.label!r} divides by the value")
    if not affine.is_finite:
        raise Declined(Reason.NON_FINITE, f"{node.op_type} {node.label!r}")
    return affine


def link(node: ir.Node, policy: Policy) -> Link:
    """Return the affine that a node is, BatchNormalization or arithmetic. Raises Declined when it is none."""
    return batchnorm(node, policy) if node.is_op("BatchNormalization") else arithmetic(node)


def chain(links: Sequence[Link]) -> AffineChain:
    """Make several links in a row one affine."""
    affine = links[0].affine
    for following in links[1:]:
        affine = following.affine.after(affine)
    return AffineChain(tuple(links), affine)


MAX_ROW = 64
"""Affines that move as one; a longer row takes several plans."""


def around(node: ir.Node, policy: Policy) -> Iterator[AffineChain]:
    """Yield the whole row of affines around a BatchNormalization, then its neighbours folded into it, then it alone.

    If ``node`` is part of a decomposed one, the whole row only. Raises Declined if it is no affine.
    """
    middle = guarded(node, link, node, policy)
    before, behind = _row_before(middle, policy), _row_behind(middle, policy)
    yield chain([*before, middle, *behind])
    if not node.is_op("BatchNormalization") or not (before or behind):
        return
    if behind:
        yield chain(behind)
    if before:
        yield chain(before)
    yield chain([middle])


def without_batchnorm(model: ir.Model, policy: Policy) -> Iterator[AffineChain]:
    """Find every row of constant Mul, Add, Sub, Div and Neg, each at its first node, then its single nodes."""
    for row in all_of([node for node in model.nodes() if node.has_trait(ARITHMETIC)], policy):
        try:
            whole = chain(row)
        except Declined:  # together they are too large
            continue
        yield whole
        for single in row if len(row) > 1 else ():
            # A neighbour that was folded may have left its shift in the constant.
            if not single.node.removed and (found := _link(single.node, policy)) is not None:
                yield chain([found])


def all_of(nodes: Iterable[ir.Node], policy: Policy) -> Iterator[list[Link]]:
    """Yield the whole row of each node that starts one, and still is there when its turn comes."""
    for node in nodes:
        if not node.removed and (first := _link(node, policy)) is not None and not _row_before(first, policy):
            yield [first, *_row_behind(first, policy)]


def _row_before(link: Link, policy: Policy) -> list[Link]:
    row: list[Link] = []
    source = link.node.inputs[link.slot]
    while source is not None and source.producer is not None and len(row) < MAX_ROW:
        found = _link(source.producer, policy) if source.only_consumer is not None else None
        if found is None:
            break
        row.append(found)
        source = found.node.inputs[found.slot]
    return row[::-1]


def _row_behind(link: Link, policy: Policy) -> list[Link]:
    row: list[Link] = []
    value = link.node.outputs[0]
    while value is not None and (consumer := value.only_consumer) is not None and len(row) < MAX_ROW:
        found = _link(consumer, policy)
        if found is None or found.node.inputs[found.slot] is not value:
            break
        row.append(found)
        value = consumer.outputs[0]
    return row


def _link(node: ir.Node, policy: Policy) -> Link | None:
    if not (node.is_op("BatchNormalization") or node.has_trait(ARITHMETIC)):
        return None
    try:
        return guarded(node, link, node, policy)
    except Declined:
        return None
