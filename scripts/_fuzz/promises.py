"""The interface of a model as its file declares it: the inputs that callers may set, and the outputs' shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

Shape = Sequence[int | None] | None
"""None is a dynamic size or rank."""
Told = Mapping[str, tuple[Shape, Shape]]


def are_narrower(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    """Whether an input is missing or in another place, has become mandatory, or takes fewer sizes than before."""
    fed, free = inputs(before)
    needed, accepted = inputs(after)
    both = [name for name in (*needed, *accepted) if name in fed]
    outputs = [[info.name for info in model.graph.output] for model in (before, after)]
    if outputs[0] != outputs[1] or both != [*fed] or not {*needed} <= {*fed} or not {*free} <= {*needed, *accepted}:
        return True
    takes = needed | accepted
    return any(_closes(shape, takes[name]) for name, shape in (fed | free).items())


def inputs(model: onnx.ModelProto) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """Return the mandatory inputs, and those with a default."""
    stored = {tensor.name for tensor in model.graph.initializer}
    shapes = {info.name: shape_of(info) for info in model.graph.input}
    free = {name: shape for name, shape in shapes.items() if name in stored and model.ir_version > 3}
    return {name: shape for name, shape in shapes.items() if name not in stored}, free


def shape_of(info: Any) -> Shape:
    """Return the declared shape; exporters write 0 for an unknown size."""
    kind = info.type.tensor_type
    return [dim.dim_value or None for dim in kind.shape.dim] if kind.HasField("shape") else None


def of_outputs(before: onnx.ModelProto, after: onnx.ModelProto) -> Told:
    """Return the shapes of outputs as both models declare them."""
    old = {info.name: shape_of(info) for info in before.graph.output}
    return {info.name: (old.get(info.name), shape_of(info)) for info in after.graph.output}


def is_broken(declared: tuple[Shape, Shape], shape: Sequence[int]) -> bool:
    """Whether the second model declares a wrong shape although the first model's is right."""
    return _fits(declared[0], shape) and not _fits(declared[1], shape)


def _fits(declared: Shape, shape: Sequence[int]) -> bool:
    return declared is None or (
        len(declared) == len(shape) and all(dim in (None, size) for dim, size in zip(declared, shape, strict=True))
    )


def _closes(old: Shape, new: Shape) -> bool:
    if old is None or new is None:
        return new is not None
    return any(dim is None and other is not None for dim, other in zip(old, new, strict=False))
