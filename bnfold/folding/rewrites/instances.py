"""InstanceNormalization that was exported as a BatchNormalization in training mode, between two Reshapes.

``Reshape(x, (1, N·C, …)) → BatchNormalization → Reshape``: with one row in the batch, every channel of every image is
normalised by its own mean and variance, which is what InstanceNormalization does. Older exports of PyTorch wrote it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from bnfold import analysis, ir
from bnfold.edits.apply import apply_edits
from bnfold.edits.edit import Bypass, Edit, Replace, SetConstant
from bnfold.edits.size_budget import SizeBudget
from bnfold.folding import facts, shapes
from bnfold.folding.context import Change, FoldContext
from bnfold.ir.tensor import TP, Array, InMemory, Tensor
from bnfold.ir.value import Dim
from bnfold.report.reasons import Declined, Reason
from bnfold.report.rewrites import INSTANCE
from bnfold.semantics import Unreadable
from bnfold.semantics import batchnorm as batchnorm_semantics

OPERATOR = "InstanceNormalization"
_LEAST_RANK = 3
"""Of what InstanceNormalization normalises."""
_WIDENED = 22
"""The first opset at which it takes bfloat16."""


def find_instances(run: FoldContext) -> Iterator[Change]:
    """Find what InstanceNormalization can stand for; the run learns why others that may be one are left."""
    for node in [node for node in run.events if node.is_op("BatchNormalization") and not node.removed]:
        try:
            change = run.planned(INSTANCE, node, _plan, run, node)
        except Declined as refusal:
            run.unproven[node] = refusal.without_frames()
            continue
        if change is not None:
            yield change


def stands_between_reshapes(node: ir.Node) -> bool:
    """Whether a BatchNormalization reads what a Reshape gave one row, and another Reshape reads what it makes."""
    around = _reshapes(node)
    if around is None:
        return False
    made = around[0].outputs[0]
    if (_stated(around[0]) or ())[:1] == (1,):
        return True
    known = shapes.known_dims(made) if made is not None else None
    return bool(known) and known is not None and known[0] == 1


def _reshapes(node: ir.Node) -> tuple[ir.Node, ir.Node] | None:
    x, y = node.input(0), node.output(0)
    before = x.producer if x is not None else None
    after = y.only_consumer if y is not None else None
    if before is None or after is None or not (before.is_op("Reshape") and after.is_op("Reshape")):
        return None
    is_in_one_graph = before.graph is node.graph and after.graph is node.graph
    return (before, after) if is_in_one_graph and after.input(0) is y and y is not after.input(1) else None


def _plan(run: FoldContext, node: ir.Node) -> Change | None:
    """Return how a BatchNormalization becomes an InstanceNormalization; None where it is none.

    Raises Declined where it may be one, and something is unproven.
    """
    around = _reshapes(node)
    if around is None:
        return None
    try:
        norm = batchnorm_semantics.read_batchnorm(node, run.policy)
        batchnorm_semantics.epsilon(node)
    except Unreadable:
        return None
    if norm.mode != "training" or norm.per_activation or not stands_between_reshapes(node):
        return None
    before, after = around
    if (run.limits.only and OPERATOR not in run.limits.only) or OPERATOR in run.limits.excluded:
        raise _declined(node, f"{OPERATOR} is excluded")
    if any(value is not None and not value.is_unread for value in norm.outputs[1:]):
        raise _declined(node, f"statistics of {facts.where(node)} are read")
    source, flat = before.input(0), before.output(0)
    if source is None or flat is None or after.output(0) is None or before.has_references or after.has_references:
        raise _declined(before, f"{facts.where(before)} cannot be read")
    scale, bias = (analysis.constant(value) for value in norm.inputs[1:3])
    if scale is None or bias is None:
        raise _declined(node, f"scale and bias of {facts.where(node)} are no constants")
    _check_types(node, source, (scale, bias))
    channels = _channels(before, source, flat, scale.size)
    restoring = _restores(source, after)
    if not restoring and not _is_independent(after):
        raise _declined(after, f"{facts.where(after)} copies sizes of what it reads")
    parameters = _of_one(node, scale, channels), _of_one(node, bias, channels)
    restored = [Bypass(after, (node.outputs[0],), renames=True)] if restoring else []
    edits = [*_edits(node, source, parameters), *restored]
    event, passed = run.events[node], (before.label, after.label)

    def tell(_added: list[ir.Node]) -> None:
        event.fold("stay", (node.label,), (OPERATOR,), passed)
        run.report.notes.append(f"{event.name} was an {OPERATOR}, written as a BatchNormalization in training mode")

    cut = run.cut_around((before, node, after), f"{node.label} as {OPERATOR}")
    return Change(INSTANCE, cut, partial(_apply, node, edits, run.budget), tell)


def _edits(node: ir.Node, source: ir.Value, parameters: Sequence[Tensor]) -> list[Edit]:
    """Return the edits after which the node normalises ``source``."""
    attrs = {"epsilon": batchnorm_semantics.epsilon(node)} if node.has_attr("epsilon") else {}
    constants = [SetConstant(node, slot, tensor) for slot, tensor in enumerate(parameters, 1)]
    return [Replace(node, OPERATOR, (source, *node.inputs[1:3]), attrs), *constants]


def _apply(node: ir.Node, edits: Sequence[Edit], budget: SizeBudget) -> tuple[list[str], list[ir.Node]]:
    """Edit the graph. Returns names of values that are gone, or have the shape of what is normalised now."""
    gone = [value.name for value in node.outputs if value is not None]
    made = node.outputs[0]
    apply_edits(edits, budget)
    if made is node.outputs[0] and made is not None:  # a Reshape behind it stays
        node.graph.forget_type(made)
        node.graph.rename(made, node.graph.model.fresh_name(f"{made.name}_normalised"))
    return gone, []


def _declined(node: ir.Node, detail: str) -> Declined:
    return Declined(Reason.INSTANCE_UNPROVEN, detail, at=node.label, operator=node.op_type)


def _check_types(node: ir.Node, source: ir.Value, parameters: tuple[Tensor, Tensor]) -> None:
    dtype = facts.float_type(source)
    if any(held.dtype != dtype for held in parameters):
        raise _declined(node, f"scale and bias of {facts.where(node)} have another type than what it normalises")
    if dtype == TP.BFLOAT16 and node.graph.opset() < _WIDENED:
        raise _declined(node, f"{OPERATOR} takes no bfloat16 before opset {_WIDENED}")


def _channels(before: ir.Node, source: ir.Value, flat: ir.Value, rows: int) -> int:
    """Return the channels of what is normalised, where each of its images and channels becomes one of ``rows``."""
    rank = shapes.rank(source)
    if rank < _LEAST_RANK:
        raise _declined(before, f"{facts.where(before)} reads a value of rank {rank}")
    images, channels = shapes.size(source, 0), shapes.size(source, 1)
    if not isinstance(channels, int) or channels < 1 or rows % channels:
        raise _declined(before, f"{facts.where(before)} reads {channels or 'unknown'} channels, and makes {rows}")
    if isinstance(images, int) and images > 0:
        if images * channels != rows:
            raise _declined(before, f"{facts.where(before)} makes {rows} channels of {images} times {channels}")
    elif not _are_as_many(shapes.dims(source)[2:], _target(before, flat)[2:]):
        raise _declined(before, f"the batch size in front of {facts.where(before)} is unknown")
    if len(_target(before, flat)) < 2:
        raise _declined(before, f"{facts.where(before)} makes no channels")
    return channels


def _target(before: ir.Node, flat: ir.Value) -> tuple[Dim, ...]:
    """Return the dims that a Reshape makes, as far as they are known."""
    stated = _stated(before)
    return shapes.dims(flat) if stated is None else tuple(size if size > 0 else None for size in stated)


def _stated(reshape: ir.Node) -> tuple[int, ...] | None:
    """Return what a Reshape is asked for, where that is a constant."""
    held = analysis.constant(reshape.input(1))
    return tuple(int(size) for size in held.numpy().reshape(-1)) if held is not None else None


def _are_as_many(these: tuple[Dim, ...], those: tuple[Dim, ...]) -> bool:
    """Whether sizes have the same product: of those that are open both have the same."""
    if None in these or None in those:
        return False
    open_ones = [sorted(dim for dim in dims if isinstance(dim, str)) for dims in (these, those)]
    known = [int(np.prod([dim for dim in dims if isinstance(dim, int)], dtype=np.int64)) for dims in (these, those)]
    return open_ones[0] == open_ones[1] and known[0] == known[1] > 0


def _restores(source: ir.Value, after: ir.Node) -> bool:
    """Whether the last Reshape gives back the dims that there were at first."""
    dims, made = shapes.dims(source), after.outputs[0]
    stated = _stated(after)
    if stated is not None and not after.attr("allowzero", 0):
        if len(stated) != len(dims) or 0 in stated:
            return False
        # What is left after the others is what it was.
        return all(size in (dim, -1) for size, dim in zip(stated, dims, strict=True))
    known = shapes.known_dims(made) if made is not None else None
    return known is not None and None not in dims and tuple(known) == tuple(dims)


def _is_independent(after: ir.Node) -> bool:
    """Whether the last Reshape makes the same of whatever has these elements."""
    stated = _stated(after)
    return bool(after.attr("allowzero", 0)) or (stated is not None and 0 not in stated)


def _of_one(node: ir.Node, tensor: Tensor, channels: int) -> Tensor:
    """Return the parameters of one image. Raises Declined where images have different ones."""
    rows: Array = tensor.numpy().reshape(-1, channels)
    if not (rows == rows[:1]).all():
        raise _declined(node, f"scale or bias of {facts.where(node)} differ from image to image")
    return InMemory(tensor.dtype, np.ascontiguousarray(rows[0]))
