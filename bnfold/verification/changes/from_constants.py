"""Find the values that are the same in every run, whatever nodes compute them.

These are constants, fills, integers that are computed from constants alone, and floats that are only moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.ir.evaluators import filled
from bnfold.ir.tensor import TP, InMemory
from bnfold.ir.traits import BROADCASTING, DRAWING, KEEPS_SHAPE, MOVING
from bnfold.verification.changes.extract import Subgraph, constant_of
from bnfold.verification.changes.interface import declared_shapes
from bnfold.verification.tolerance.floats import is_float

_FEW = 64
"""Values that are visited to find out what a value is computed from."""


_MOST = 1 << 22
"""Elements of the largest constant whose moved numbers are evaluated."""

_MOVING = MOVING - {"Pad"} | {"Identity"}
"""Operators that only move numbers: they are exact in any precision."""


def fixed_or_default(value: ir.Value | None) -> ir.Tensor | None:
    """Return the tensor of a value that is the same in every run, or that only a caller can override."""
    return constant_of(value) or fixed(value)


def fixed(value: ir.Value | None) -> ir.Tensor | None:
    """Return the tensor of a value that is the same in every run; None if that is not certain.

    The answer is kept as long as the model's evaluated constants are.
    """
    tensor = ir.constant(value)
    if value is None or tensor is not None or value.producer is None:
        return tensor
    evaluation = value.graph.model.evaluation
    known = evaluation.others if evaluation is not None else {}
    if value not in known:
        known[value] = _filled(value.producer) or _integers(value)
    return known[value]


def _filled(producer: ir.Node) -> ir.Tensor | None:
    """Return the tensor of a ConstantOfShape of known size, which may be larger than a constant that is evaluated."""
    shape = producer.input(0) if producer.is_op("ConstantOfShape") else None
    if shape is None or len(producer.outputs) != 1 or producer.is_call:
        return None
    dims = ir.constant(shape) or _integers(shape)
    with suppress(BnfoldError, ValueError, TypeError, AttributeError):  # damaged, set by a caller, or too large
        return filled(producer, tuple(dims.numpy().reshape(-1).tolist())) if dims is not None else None
    return None


def _integers(value: ir.Value) -> ir.Tensor | None:
    shapes: dict[ir.Value, Array] = {}
    if not _follows_from_constants(value, shapes):
        return None
    if value in shapes:
        return InMemory(TP.INT64, shapes[value])
    with suppress(BnfoldError):
        subgraph = Subgraph([value], list(shapes))
        fed = {shape.name: array for shape, array in shapes.items()}
        made: object = reference.evaluate(subgraph.model, fed, [value.name], precision="stored")[value.name]
        if isinstance(made, np.ndarray) and (made.dtype.kind in "iub" or value.dtype in (TP.FLOAT, TP.DOUBLE)):
            return InMemory(onnx.helper.np_dtype_to_tensor_dtype(made.dtype), made)
    return None


def _follows_from_constants(value: ir.Value, shapes: dict[ir.Value, Array] | None) -> bool:
    """Whether a value is computed from constants alone, by a few nodes.

    Results of Shape count as constants if operators determine them, and single sizes if the model declares them for its
    input. They are added to ``shapes``; without it, no shape counts.
    """
    stack, seen = [value], {value}
    while stack:
        read = stack.pop()
        producer = read.producer
        if producer is None or producer.subgraphs or producer.has_references or not producer.inputs or len(seen) > _FEW:
            return False
        if producer.has_trait(DRAWING) or (is_float(read.dtype) and not producer.has_trait(_MOVING)):
            return False
        if shapes is not None and (sizes := _stated_sizes(read, producer)) is not None:
            shapes[read] = sizes
            continue
        for source in producer.inputs:
            constant = ir.constant(source)
            if constant is not None and constant.size > _MOST:
                return False
            if source is not None and source not in seen and constant is None:
                seen.add(source)
                stack.append(source)
    return True


def _stated_sizes(value: ir.Value, producer: ir.Node) -> Array | None:
    """Return the sizes that a Shape, or a node that takes some of a Shape, has in every run."""
    dims = _dims(producer.input(0)) if producer is _sole_producer(value) and producer.is_op("Shape") else None
    if dims is not None:
        return np.array(dims[slice(producer.attr("start", 0), producer.attr("end", None))], np.int64)
    return _chosen_sizes(producer)


def _dims(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return the dims that a value has in every run, derived from operators and not from declarations."""
    producer = _sole_producer(value)
    for _ in range(_FEW):
        if producer is None or not producer.has_trait(KEEPS_SHAPE):
            break
        producer = _sole_producer(producer.input(0))
    if producer is None or producer.has_references:
        return None
    if producer.is_op("Shape") and not producer.attrs:
        rank = _rank(producer.input(0))
        return None if rank is None else (rank,)
    target = ir.constant(producer.input(1)) if producer.is_op("Reshape") else None
    dims = [] if target is None else target.numpy().reshape(-1).tolist()
    return tuple(dims) if dims and all(dim > 0 for dim in dims) else None


def _chosen_sizes(node: ir.Node) -> Array | None:
    """Return the sizes that a node takes from a Shape: those that its input declares, or that follow from weights."""
    shape = _sole_producer(node.input(0)) if node.is_op("Gather", "Slice") else None
    data = shape.input(0) if shape is not None and shape.is_op("Shape") and not shape.attrs else None
    places = _chosen_places(node, data) if data is not None else None
    if data is None or places is None:
        return None
    declared: Sequence[int | str | None] = ()
    if data.is_input and data.graph is node.graph.model.graph:
        infos = (info for info in data.graph.proto.input if info.name == data.name)
        declared = declared_shapes(infos).get(data.name) or ()
    with suppress(IndexError):
        chosen = places.reshape(-1).tolist()
        sizes = [declared[index] if declared else _stated_by_weights(data, index) for index in chosen]
        if all(isinstance(size, int) and size > 0 for size in sizes):
            return np.array(sizes, np.int64).reshape(places.shape)
    return None


def _chosen_places(node: ir.Node, data: ir.Value) -> Array | None:
    """Return the axes of ``data`` whose sizes a Gather or Slice takes from its Shape; a Slice may take none."""
    if node.is_op("Gather"):
        indices = ir.constant(node.input(1))
        return None if node.attr("axis", 0) or indices is None else indices.numpy()
    rank, sizes, taken = _rank(data), node.input(0), node.output(0)
    bounds = (value for value in node.inputs[1:] if value is not None and ir.constant(value) is None)
    if rank is None or sizes is None or taken is None or not all(_follows_from_constants(it, None) for it in bounds):
        return None
    with suppress(BnfoldError):
        subgraph, fed = Subgraph([taken], [sizes]), {sizes.name: np.arange(rank)}
        places: object = reference.evaluate(subgraph.model, fed, [taken.name], precision="stored")[taken.name]
        return places if isinstance(places, np.ndarray) else None
    return None


def _stated_by_weights(value: ir.Value | None, axis: int) -> int | None:
    """Return the size of the channels of a Conv, or of an axis counted from the end, if constant operands determine it.

    Beside a constant with more than one element along an axis, other operands have as many or are broadcast to it.
    """
    for _ in range(_FEW):
        producer = _sole_producer(value)
        if producer is None or producer.domain or producer.has_references:
            return None
        if producer.has_trait(BROADCASTING) and axis < 0:
            known = {ir.constant(read) for read in producer.inputs} - {None}
            sizes = {tensor.dims[axis] for tensor in known if tensor is not None and len(tensor.dims) >= -axis} - {1}
            open_ = [read for read in producer.inputs if ir.constant(read) is None]
            if sizes or len(open_) != 1:
                return sizes.pop() if len(sizes) == 1 else None
            value = open_[0]
        elif producer.has_trait(KEEPS_SHAPE):
            value = producer.input(0)
        else:
            slot, place = {("MatMul", -1): (1, -1), ("Conv", 1): (1, 0)}.get((producer.op_type, axis), (0, 0))
            weight = ir.constant(producer.input(slot)) if slot else None
            return weight.dims[place] if weight is not None and len(weight.dims) > 1 else None
    return None


def _rank(value: ir.Value | None) -> int | None:
    """Return the rank that a value has in every run; broadcasting results in the largest rank of its operands."""
    stack, seen, rank = [value], {value}, 0
    while stack:
        constant, producer = ir.constant(read := stack.pop()), _sole_producer(read)
        target = ir.constant(producer.input(1)) if producer is not None and producer.is_op("Reshape") else None
        if constant is not None:
            rank = max(rank, len(constant.dims))
        elif target is not None:
            rank = max(rank, target.size)
        elif producer is not None and producer.is_op("Range", "Shape"):
            rank = max(rank, 1)
        elif producer is not None and producer.is_op("Transpose") and producer.attr("perm"):
            rank = max(rank, len(producer.attr("perm")))
        elif producer is not None and producer.is_op("MatMul") and _is_matrix(producer.input(1)):
            stack += [operand for operand in producer.inputs[:1] if operand not in seen]
            seen.add(producer.input(0))
        elif producer is not None and producer.has_trait(KEEPS_SHAPE | BROADCASTING) and len(seen) <= _FEW:
            operands = producer.inputs if producer.has_trait(BROADCASTING) else producer.inputs[:1]
            stack += [operand for operand in operands if operand not in seen]
            seen.update(operands)
        else:
            return None
    return rank


def _is_matrix(value: ir.Value | None) -> bool:
    weight = ir.constant(value)
    return weight is not None and len(weight.dims) == 2


def _sole_producer(value: ir.Value | None) -> ir.Node | None:
    """Return the producer of a value if the value is its first output and it is no function call."""
    producer = value.producer if value is not None else None
    return None if producer is None or producer.is_call or value is not producer.output(0) else producer
