"""Find the values that are the same in every run, whatever nodes compute them.

These are constants, fills, integers that are computed from constants and from sizes that are the same in every run, and
floats that are only moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

import numpy as np
import onnx

from bnfold import ir, reference
from bnfold.errors import BnfoldError
from bnfold.ir.elements import Array
from bnfold.ir.tensor import TP, InMemory
from bnfold.reference.constants import kept, made_of
from bnfold.reference.operators import CHOOSING, DRAWING, MOVING
from bnfold.verification.changes.extract import Subgraph, constant_of
from bnfold.verification.changes.partly import known_of
from bnfold.verification.inputs.bounds import follow_from_sizes
from bnfold.verification.tolerance.bits import same
from bnfold.verification.tolerance.floats import is_float

_FEW = 64
"""Values that are visited to find out what a value is computed from."""


_MOST = 1 << 22
"""Elements of the largest constant whose moved numbers are evaluated."""

_MOST_ROUNDED = 1 << 12
"""The same, of numbers that are computed with."""

_ROUNDING = 2.0**-10
"""Relative; a number that rounding moves further is decided by it."""

_DEEPEST = 64
"""Ifs that decide one another; a damaged graph has circles."""

_MOVING = MOVING - {"Pad"} | CHOOSING | {"Identity", "ConstantOfShape"}
"""Operators that only move or repeat numbers: they are exact in any precision."""


def fixed_or_default(value: ir.Value | None, *, by_sizes: bool = True) -> ir.Tensor | None:
    """Return the tensor of a value that is the same in every run, or that only a caller can override."""
    return constant_of(value) or fixed(value, by_sizes=by_sizes)


def fixed(value: ir.Value | None, *, by_sizes: bool = True) -> ir.Tensor | None:
    """Return the tensor of a value that is the same in every run; None if that is not certain.

    The answer is kept as long as the model's evaluated constants are. Sizes count as constants only ``by_sizes``.
    """
    return _fixed(value, by_sizes, 0)


def _no_fixed(_: ir.Model) -> dict[tuple[ir.Value, bool], ir.Tensor | None]:
    return {}


def _no_rounded(_: ir.Model) -> dict[ir.Value, ir.Tensor | None]:
    return {}


def _fixed(value: ir.Value | None, by_sizes: bool, depth: int) -> ir.Tensor | None:
    tensor = reference.constant(value)
    if value is None or tensor is not None or value.producer is None or depth > _DEEPEST:
        return tensor
    known = kept(value.graph.model, _no_fixed)
    key = value, by_sizes
    if key not in known:
        known[key] = (
            _filled(value.producer, by_sizes) or _integers(value, by_sizes) or _of_branch(value, by_sizes, depth)
        )
        if by_sizes and known[key] is None:  # of floats of any size, nothing is known beside sizes
            known[key] = _fixed(value, False, depth)
    return known[key]


def fixed_but_for_rounding(value: ir.Value | None, *, by_sizes: bool = True) -> ir.Tensor | None:
    """Do as `fixed_or_default`, and return the tensor of floats that a few nodes compute from few constants."""
    tensor = fixed_or_default(value, by_sizes=by_sizes)
    if tensor is not None or value is None or not follow_from_sizes([value]):  # asked first, for it is kept
        return tensor
    known = kept(value.graph.model, _no_rounded)
    if value not in known:
        known[value] = _rounded(value) if _follows_from_constants(value, None, are_exact=False) else None
    return known[value]


def _rounded(value: ir.Value) -> ir.Tensor | None:
    """Return what is computed in the model's own precision, if it is the same in float64 but for rounding."""
    stored, exact = _evaluated(value, {}), _evaluated(value, {}, precision="float64")
    if stored is None or exact is None:
        return None
    if stored.numpy().dtype.kind in "iub":
        return stored if same(stored, exact) else None
    agree = np.allclose(stored.numpy(), exact.numpy(), rtol=_ROUNDING, atol=0.0, equal_nan=True)
    return stored if agree else None


def are_one_constant(old: ir.Value | None, new: ir.Value | None) -> bool:
    """Whether two values are the same constant in every run."""
    one, other = fixed(old), fixed(new)
    return one is not None and other is not None and same(one, other)


def _filled(producer: ir.Node, by_sizes: bool) -> ir.Tensor | None:
    """Return the tensor of a ConstantOfShape whose size follows from sizes."""
    shape = producer.input(0) if producer.is_op("ConstantOfShape") else None
    if shape is None or len(producer.outputs) != 1 or producer.is_call:
        return None
    dims = reference.constant(shape) or _integers(shape, by_sizes)
    return None if dims is None else filled(producer, dims.numpy().reshape(-1).tolist())


def filled(node: ir.Node, dims: Sequence[int]) -> ir.Tensor | None:
    """Return what a ConstantOfShape makes; None if it is damaged, or too large. It takes no memory."""
    with suppress(BnfoldError, ValueError, TypeError, OverflowError):
        return made_of(node, [InMemory(TP.INT64, np.array(dims, np.int64))])
    return None


def bodies_run(node: ir.Node) -> Sequence[ir.Graph]:
    """Return the graphs of a node that some run may take: of an If whose condition never changes, one."""
    return _bodies_run(node, by_sizes=True, depth=0)


def _bodies_run(node: ir.Node, *, by_sizes: bool, depth: int) -> Sequence[ir.Graph]:
    condition = _fixed(node.input(0), by_sizes, depth + 1) if node.is_op("If") else None
    if condition is None:
        return node.bodies
    return node.subgraphs.get("then_branch" if condition.numpy().all() else "else_branch", ())


def _of_branch(value: ir.Value, by_sizes: bool, depth: int) -> ir.Tensor | None:
    """Return the tensor of a result of an If that always takes the same branch."""
    producer = value.producer
    if producer is None or not producer.is_op("If"):
        return None
    bodies = _bodies_run(producer, by_sizes=by_sizes, depth=depth)
    results = bodies[0].outputs if len(bodies) == 1 else []
    return _fixed(results[value.slot], by_sizes, depth + 1) if value.slot < len(results) else None


def _integers(value: ir.Value, by_sizes: bool) -> ir.Tensor | None:
    shapes: dict[ir.Value, Array] = {}
    if not _follows_from_constants(value, shapes if by_sizes else None):
        return None
    if value in shapes:
        return InMemory(onnx.helper.np_dtype_to_tensor_dtype(shapes[value].dtype), shapes[value])
    return _evaluated(value, shapes)


def _evaluated(
    value: ir.Value, shapes: Mapping[ir.Value, Array], precision: Literal["float64", "stored"] = "stored"
) -> ir.Tensor | None:
    with suppress(BnfoldError):
        subgraph = Subgraph([value], list(shapes))
        fed = {shape.name: array for shape, array in shapes.items()}
        made: object = reference.evaluate(subgraph.model, fed, [value.name], precision=precision)[value.name]
        if isinstance(made, np.ndarray) and (made.dtype.kind in "iub" or _dtype(value) in (TP.FLOAT, TP.DOUBLE)):
            return InMemory(onnx.helper.np_dtype_to_tensor_dtype(made.dtype), made)
    return None


def _dtype(value: ir.Value) -> int | None:
    """Return the element type, inferred where the file does not declare it."""
    return value.dtype or known_of(value.graph.model).dtype(value)


def _follows_from_constants(value: ir.Value, shapes: dict[ir.Value, Array] | None, *, are_exact: bool = True) -> bool:
    """Whether a value is computed from constants alone, by a few nodes.

    Integers that follow from sizes count as constants where these are the same in every run; they are added to
    ``shapes``, if it is given. Unless they ``are_exact``, floats may be rounded, and are few.
    """
    most = _MOST if are_exact else _MOST_ROUNDED
    stack, seen = [value], {value}
    while stack:
        read = stack.pop()
        producer = read.producer
        if producer is None or producer.subgraphs or producer.has_references or not producer.inputs or len(seen) > _FEW:
            return False
        found = known_of(read.graph.model).of(read) if shapes is not None and not is_float(read.dtype) else None
        has_floats = is_float(read.dtype) or (found is not None and found.elements.dtype.kind not in "iub")
        if producer.has_trait(DRAWING) or (are_exact and has_floats and not producer.has_trait(_MOVING)):
            return False
        if shapes is not None and found is not None and not has_floats:
            if not found.is_exact:
                return False
            if found.is_certain:
                shapes[read] = found.elements
                continue
        for source in producer.inputs:
            constant = reference.constant(source)
            if constant is not None and constant.size > most:
                return False
            if source is not None and source not in seen and constant is None:
                seen.add(source)
                stack.append(source)
    return True
