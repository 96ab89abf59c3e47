"""Which numbers of a constant decide nothing in a part, whatever the inputs are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bnfold import ir, reference
from bnfold.errors import BnfoldError, Unsupported
from bnfold.ir.elements import Array, Bools
from bnfold.ir.value import Dims
from bnfold.verification.changes.partly import Partly, PartlyKnown, is_plain, moved, only_output

Changed = Mapping[ir.Value, Array]
"""Values by name, with a mark at each element that may be any other."""


class Extent(NamedTuple):
    """The nodes of a part, its ``own`` ones, which do not make constants, and the values that are compared."""

    nodes: Collection[ir.Node]
    own: Collection[ir.Node]
    compared: Collection[ir.Value]

    def is_idle(self, node: ir.Node, value: ir.Value, *, is_constant: bool) -> bool:
        """Whether what a node reads is no matter of this part: another part reads it, or it makes a constant.

        What a body captures, the part may read.
        """
        return node.graph is value.graph and node not in (self.own if is_constant else self.nodes)


def idle(known: PartlyKnown, constant: ir.Value, size: int, part: Extent) -> Array:
    """Return at which of its ``size`` places any number in a constant vector has no effect on what is compared."""
    held = known.read(constant)
    if held is None or held.elements.shape != (size,):
        return np.zeros(size, np.bool_)
    places = (np.arange(size) == place for place in range(size))
    return np.array([_is_idle(known, constant, place, part) for place in places], np.bool_)


def masked(
    value: ir.Value, dims: Sequence[int], nodes: Collection[ir.Node], ends: Collection[ir.Value]
) -> Array | None:
    """Return which elements of a constant no result has.

    All its consumers are Wheres whose masks choose others, or convolutions, and all that reads a channel that these
    make multiplies it by zero. None if it has other consumers. ``ends`` are the results.
    """
    uses = [use for use in value.uses if use[0] in nodes or use[0].graph is not value.graph]
    if uses and all(node.is_op("Conv") and slot for node, slot in uses):
        silent = [silent_channels(node.output(0), dims[0], nodes, ends) for node, _ in uses]
        return np.broadcast_to(np.logical_and.reduce(silent).reshape(-1, *(1,) * (len(dims) - 1)), dims)
    masks = [reference.constant(node.input(0)) if node.is_op("Where") and slot else None for node, slot in uses]
    if not uses or None in masks:
        return None
    hidden = np.ones(dims, np.bool_)
    for mask, (_, slot) in zip(filter(None, masks), uses, strict=True):
        try:
            hidden &= ~_chosen(mask.numpy() == (slot == 1), hidden)
        except ValueError:  # they do not fit
            return None
    return hidden


_BY_CHANNEL = frozenset(
    {
        *("Abs", "AveragePool", "BatchNormalization", "Clip", "Elu", "GlobalAveragePool", "GlobalMaxPool"),
        *("HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "MaxPool", "Neg", "PRelu", "Relu", "Selu", "Sigmoid"),
        *("Softplus", "Tanh"),
    }
)
"""Operators that make a channel of the same channel of their first input alone."""
_FAR = 16
"""Nodes in a row that are looked at."""


def silent_channels(
    value: ir.Value | None, count: int, nodes: Collection[ir.Node], ends: Collection[ir.Value], far: int = _FAR
) -> Bools:
    """Return which channels, along axis 1, no result of a part depends on: what reads them multiplies them by zero."""
    silent = np.ones(count, np.bool_)
    if value is None or value in ends or value.is_output or not far:
        return np.zeros(count, np.bool_)
    for node, slot in value.uses:
        if node not in nodes and node.graph is value.graph:
            continue
        if slot or node.graph is not value.graph or node.domain or len(node.outputs) != 1:
            return np.zeros(count, np.bool_)
        if node.op_type in _BY_CHANNEL:
            silent &= silent_channels(node.output(0), count, nodes, ends, far - 1)
        else:
            silent &= _multiplied_by_zero(node, count, nodes, ends, far)
    return silent


def _multiplied_by_zero(
    node: ir.Node, count: int, nodes: Collection[ir.Node], ends: Collection[ir.Value], far: int
) -> Bools:
    """Return which channels of its input a convolution multiplies by zero, or makes what no result depends on."""
    weight = reference.constant(node.input(1)) if node.is_op("Conv") else None
    none = np.zeros(count, np.bool_)
    if weight is None or len(weight.dims) < 3:
        return none
    filters, inner = weight.dims[:2]
    group = node.attr("group", 1)
    if group == 1 and inner == count:
        return np.asarray((weight.numpy() == 0).all((0, *range(2, len(weight.dims)))))
    if inner != 1 or group != count or filters % count:
        return none
    is_zero = (weight.numpy() == 0).all(tuple(range(1, len(weight.dims))))
    is_zero = is_zero | silent_channels(node.output(0), filters, nodes, ends, far - 1)
    return np.asarray(is_zero.reshape(count, -1).all(1))


def _chosen(mask: Array, of: Array) -> Array:
    """Return which elements of an operand a mask chooses at any place that it is broadcast to."""
    places: Array = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, of.shape))
    places = np.asarray(places.any(axis=tuple(range(places.ndim - of.ndim))))
    repeated = tuple(axis for axis, size in enumerate(of.shape) if size == 1)
    return np.asarray(places.any(axis=repeated, keepdims=True))


def _is_idle(known: PartlyKnown, constant: ir.Value, place: Array, part: Extent) -> bool:
    changed, waiting = {constant: place}, [constant]
    while waiting:
        value = waiting.pop()
        for node, slot in value.uses:
            if part.is_idle(node, value, is_constant=value is constant):
                continue
            if node not in part.own:
                return False
            try:
                made = _changed_by(known, node, slot, changed)
            except (BnfoldError, ValueError):
                return False
            if made.any():
                result = only_output(node)
                if result in changed or result in part.compared or result.is_output:
                    return False
                changed[result] = made
                waiting.append(result)
    return True


def _changed_by(known: PartlyKnown, node: ir.Node, slot: int, changed: Changed) -> Array:
    """Return which elements of a result depend on those of an input that are changed."""
    marked = node.inputs[slot]
    if not is_plain(node) or marked is None:
        raise Unsupported("not a plain operator")
    if slot and node.is_op("Expand") and _leaves_as_is(known, node, changed):
        return np.zeros(1, np.bool_)
    for value in filter(None, node.inputs):
        known.of(value)
    operands = known.operands(node)
    given = [operands[value] for value in node.inputs if value is not None]
    if node.is_op("Gather") and slot == 1 and given[0].elements.ndim == 1:
        return changed[marked]
    if node.is_op("Where") and sum(value in changed for value in node.inputs) == 1:
        return np.asarray(changed[marked] & _decides(slot, *given), np.bool_)
    if node.is_op("Where") or (slot and not node.is_op("Concat")):
        raise Unsupported("every element may depend on it")
    marks = {
        value: changed[marked] if value is marked else np.zeros_like(operand.unknown)
        for value, operand in operands.items()
    }
    return moved(node, operands, marks)


def _decides(slot: int, condition: Partly, yes: Partly, no: Partly) -> Array:
    """Return where an input of a Where decides about the result, if the others are as they are."""
    chosen = condition.unknown | (condition.elements == (slot == 1)) | (not condition.is_exact)
    differs = yes.unknown | no.unknown | (yes.elements != no.elements)
    return np.broadcast_arrays(chosen if slot else differs, *(operand.elements for operand in (condition, yes, no)))[0]


def _leaves_as_is(known: PartlyKnown, expand: ir.Node, changed: Changed) -> bool:
    """Whether an Expand has no effect, whichever of two sizes a Where chooses: each is 1, or the data's own."""
    data, target = expand.inputs
    choice = target.producer if target is not None else None
    dims = known.dims(data) if data is not None else None
    if data is None or target is None or choice is None or dims is None or changed[target].size > len(dims):
        return False
    if not choice.is_op("Where") or choice.input(0) not in changed:
        return False
    return all(value is not None and _is_size(known, value, data, dims) for value in choice.inputs[1:])


def _is_size(known: PartlyKnown, value: ir.Value, data: ir.Value, dims: Dims) -> bool:
    """Whether each element is 1, or they are the sizes of ``data``."""
    made = value.producer
    if made is not None and made.is_op("Shape") and not made.attrs:
        (source,) = made.inputs
        return source is data or (source is not None and None not in dims and known.dims(source) == dims)
    found = known.of(value)
    return found is not None and found.is_certain and bool((found.elements == 1).all())
