"""A model at other sizes of its inputs: what follows from them for all its values, as far as inference tells."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bnfold import ir
from bnfold.errors import Unsupported
from bnfold.verification.feeding.dims import Dims, Known

MANY_NODES = 20_000
"""Beyond this, even inferring shapes is not worth its time."""

_MOST_ROUNDS = 4
_LARGEST = 2**63 - 1
"""What a file can say of a size; damaged operators may tell more."""


def sized(model: ir.Model, shapes: Mapping[str, Known | None], *, strict: bool = False) -> ir.Model:
    """A copy whose inputs have these shapes, as far as they are known, and all else what follows from them.

    Raises Unsupported if ``strict`` and operators are known not to fit together at these sizes.
    """
    copy = model.clone()
    for info in copy.proto.graph.input:
        if info.name not in shapes or not info.type.HasField("tensor_type"):
            continue
        info.type.tensor_type.ClearField("shape")
        if (known := shapes[info.name]) is not None:
            info.type.tensor_type.shape.SetInParent()
        for axis, dim in enumerate(known or ()):
            is_size = isinstance(dim, int) and dim <= _LARGEST
            size = {"dim_value": dim} if is_size else {"dim_param": f"{dim or f'?{info.name}.{axis}'}"}
            info.type.tensor_type.shape.dim.add(**size)
    for info in copy.proto.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    del copy.proto.graph.value_info[:]
    copy.reindex()
    if len(copy.graph.nodes) <= MANY_NODES:
        copy.infer_shapes(strict=strict)
    if strict and any(map(_loses_elements, copy.graph.nodes)):
        raise Unsupported("a Reshape would make more or fewer elements than there are")
    return copy


def _loses_elements(node: ir.Node) -> bool:
    """What inference does not look at."""
    shapes = [value.shape for value in (node.input(0), node.output(0)) if value is not None and value.shape is not None]
    sizes = [[dim for dim in shape if isinstance(dim, int)] for shape in shapes if node.is_op("Reshape")]
    return sorted(map(len, sizes)) == sorted(map(len, shapes)) and len(set(map(math.prod, sizes))) > 1


def fitted(model: ir.Model, shapes: Mapping[str, Known | None]) -> ir.Model | None:
    """As `sized`; None where operators are known not to fit together at these sizes."""
    try:
        return sized(model, shapes, strict=True)
    except Unsupported:
        return None


def told_shapes(model: ir.Model, shapes: Mapping[str, Known | None]) -> dict[str, Known | None]:
    """The shapes of inputs, with what operators tell of dims and ranks that are open in ``shapes``.

    A size of 0 is what exporters write for an open one.
    """
    told: dict[str, Known | None] = {
        name: None if shape is None else [dim or None for dim in shape] for name, shape in shapes.items()
    }
    for _ in range(_MOST_ROUNDS):
        if all(isinstance(dim, int) for shape in told.values() for dim in (shape if shape is not None else (None,))):
            break
        copy = sized(model, told)
        dims = Dims()
        dims.follow([*copy.nodes()], guess=True)
        before, told = told, {name: dims.of(copy.graph.values[name]) for name in told}
        if told == before:
            break
    return told
