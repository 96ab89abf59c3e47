"""The interface of a model as its file declares it: the inputs that callers may set, and the outputs' shapes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from fuzz import parts

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
    """Return the shapes of outputs as both models declare them, without the sizes that runtimes dispute."""
    old = {info.name: shape_of(info) for info in before.graph.output}
    specified = _as_specified(before) if has_disputed_sizes(before) else {}
    return {
        info.name: (old.get(info.name), _without(shape_of(info), specified.get(info.name)))
        for info in after.graph.output
    }


def has_disputed_sizes(model: onnx.ModelProto) -> bool:
    """Whether ONNX and onnxruntime give a node of the model different sizes."""
    empty = {tensor.name for tensor in model.graph.initializer if 0 in tensor.dims}
    return any(_is_disputed(node, empty) for node in parts.nodes(model))


def is_broken(declared: tuple[Shape, Shape], shape: Sequence[int]) -> bool:
    """Whether the second model declares a wrong shape although the first model's is right."""
    return _fits(declared[0], shape) and not _fits(declared[1], shape)


POOLS = ("MaxPool", "AveragePool", "LpPool")


def _is_disputed(node: onnx.NodeProto, empty: Collection[str]) -> bool:
    """Whether ONNX and onnxruntime give a node different sizes.

    One is a pool with auto_pad SAME_UPPER or SAME_LOWER beside dilations: ONNX's text says ceil(size / stride), however
    large these are. onnxruntime pads for a kernel without dilations, and then takes away what the dilated kernel
    covers. The other is a Concat of a tensor without elements, whose other sizes onnxruntime does not look at.
    """
    if node.op_type == "Concat":
        return any(name in empty for name in node.input)
    if node.op_type not in POOLS:
        return False
    attributes = {attribute.name: attribute for attribute in node.attribute}
    padding, dilations = attributes.get("auto_pad"), attributes.get("dilations")
    is_same = padding is not None and padding.s.startswith(b"SAME")
    return is_same and dilations is not None and max(dilations.ints, default=1) > 1


def _as_specified(model: onnx.ModelProto) -> dict[str, Shape]:
    """Return the shapes of outputs that follow from ONNX's text, and not from what the model declares behind inputs."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    bare.graph.ClearField("value_info")
    for info in bare.graph.output:
        info.type.tensor_type.ClearField("shape")
    return {info.name: shape_of(info) for info in onnx.shape_inference.infer_shapes(bare).graph.output}


def _without(declared: Shape, specified: Shape) -> Shape:
    """Return a declared shape that leaves open the sizes that are as specified."""
    if declared is None or specified is None or len(declared) != len(specified):
        return declared
    return [None if size == right else size for size, right in zip(declared, specified, strict=True)]


def _fits(declared: Shape, shape: Sequence[int]) -> bool:
    return declared is None or (
        len(declared) == len(shape) and all(dim in (None, size) for dim, size in zip(declared, shape, strict=True))
    )


def _closes(old: Shape, new: Shape) -> bool:
    if old is None or new is None:
        return new is not None
    return any(dim is None and other is not None for dim, other in zip(old, new, strict=False))


def keeps(model: onnx.ModelProto, results: Sequence[npt.ArrayLike]) -> bool:
    """Whether results of a model have the shapes that it declares for its outputs."""
    infos = model.graph.output
    return all(_fits(shape_of(info), np.shape(result)) for info, result in zip(infos, results, strict=True))


def declares_truly(model: onnx.ModelProto) -> bool:
    """Whether no size of an input is declared as 0: some exporters write 0 for unknown sizes."""
    dims = [dim for info in model.graph.input for dim in info.type.tensor_type.shape.dim]
    return all(dim.dim_value or not dim.HasField("dim_value") for dim in dims)
