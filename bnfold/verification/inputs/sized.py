"""Sizes of all values of a model, given those of its inputs; and sizes that two models share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import onnx

from bnfold import ir
from bnfold.analysis.shapes.computed import infer_what_is_computed
from bnfold.analysis.shapes.unification import UnifiedDims
from bnfold.errors import Unsupported
from bnfold.ir.types import forget_shapes
from bnfold.ir.value import Known

MANY_NODES = 20_000
"""Beyond this, even inferring shapes is not worth its time."""

_MOST_ROUNDS = 4
_LARGEST = 2**63 - 1
"""The largest size that a file can state; damaged operators may imply a larger one."""


def sized(model: ir.Model, shapes: Mapping[str, Known | None], *, strict: bool = False) -> ir.Model:
    """Return a copy whose inputs have these shapes, as far as they are known, and all else what follows from them.

    Raises Unsupported if ``strict`` and operators are known not to fit together at these sizes.
    """
    copy = model.clone(partial(_state, shapes))
    if len(copy.graph.nodes) <= MANY_NODES:
        infer_what_is_computed(copy, strict=strict)
    if strict and any(map(_loses_elements, copy.graph.nodes)):
        raise Unsupported("a Reshape would make more or fewer elements than there are")
    return copy


def _state(shapes: Mapping[str, Known | None], proto: onnx.ModelProto) -> None:
    """State these shapes of inputs, and forget all others."""
    for info in proto.graph.input:
        if info.name not in shapes or not info.type.HasField("tensor_type"):
            continue
        info.type.tensor_type.ClearField("shape")
        if (known := shapes[info.name]) is not None:
            info.type.tensor_type.shape.SetInParent()
        for axis, dim in enumerate(known or ()):
            is_size = isinstance(dim, int) and dim <= _LARGEST
            size = {"dim_value": dim} if is_size else {"dim_param": f"{dim or f'?{info.name}.{axis}'}"}
            info.type.tensor_type.shape.dim.add(**size)
    forget_shapes(proto.graph.output)
    del proto.graph.value_info[:]


def _loses_elements(node: ir.Node) -> bool:
    """Whether elements are lost, which inference does not look at."""
    shapes = [value.shape for value in (node.input(0), node.output(0)) if value is not None and value.shape is not None]
    sizes = [[dim for dim in shape if isinstance(dim, int)] for shape in shapes if node.is_op("Reshape")]
    return sorted(map(len, sizes)) == sorted(map(len, shapes)) and len(set(map(math.prod, sizes))) > 1


def fitted(model: ir.Model, shapes: Mapping[str, Known | None]) -> ir.Model | None:
    """Do as `sized`; None where operators are known not to fit together at these sizes."""
    try:
        return sized(model, shapes, strict=True)
    except Unsupported:
        return None


class Followed(NamedTuple):
    """Shapes of inputs as far as they follow, and a copy of the model at these; None if there is none that fits."""

    shapes: dict[str, Known | None]
    model: ir.Model | None = None


def followed(model: ir.Model, shapes: Mapping[str, Known | None]) -> Followed:
    """Return the shapes of inputs, with dims and ranks that are open in ``shapes`` filled in from operators.

    Exporters write a size of 0 for an unknown one.
    """
    told: dict[str, Known | None] = {
        name: None if shape is None else [dim or None for dim in shape] for name, shape in shapes.items()
    }
    for _ in range(_MOST_ROUNDS):
        if all(isinstance(dim, int) for shape in told.values() for dim in (shape if shape is not None else (None,))):
            break
        fits = fitted(model, told)
        copy = sized(model, told) if fits is None else fits
        dims = UnifiedDims()
        dims.follow([*copy.nodes()], guess=True)
        before, told = told, {name: dims.of(copy.graph.values[name]) for name in told}
        if told == before:
            return Followed(told, fits)
    return Followed(told)
