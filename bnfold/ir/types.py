"""Types as messages: one filled in by another, or with sizes left open."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import deepcopy

import onnx

_INFERRED = ("?", "unk__")


def is_inferred(dim: object) -> bool:
    """Whether a dim is a name that no file gave: inference invents another one each time that it runs."""
    return isinstance(dim, str) and dim.startswith(_INFERRED)


def filled(known: onnx.TypeProto | None, other: onnx.TypeProto, *, names: bool = True) -> onnx.TypeProto:
    """Return the known type, with the dims that it leaves open taken from ``other``; the very same if it gains nothing.

    Without ``names``, dims that a file named stand for any size and stay, and no other names are taken.
    """
    if known is None or known.WhichOneof("value") is None:
        return other
    if not (known.HasField("tensor_type") and other.HasField("tensor_type")):
        return known
    mine, theirs = known.tensor_type, other.tensor_type
    dims = zip(mine.shape.dim, theirs.shape.dim, strict=False) if len(mine.shape.dim) == len(theirs.shape.dim) else ()
    better = {axis: there for axis, (here, there) in enumerate(dims) if _says_more(there, here, names)}
    lacks_shape = theirs.HasField("shape") and not mine.HasField("shape")
    if not better and not lacks_shape and (mine.elem_type or not theirs.elem_type):
        return known
    fresh = deepcopy(known)
    fresh.tensor_type.elem_type = mine.elem_type or theirs.elem_type
    if lacks_shape:
        fresh.tensor_type.shape.CopyFrom(theirs.shape)
    for axis, dim in better.items():
        fresh.tensor_type.shape.dim[axis].CopyFrom(dim)
    return fresh


def _says_more(there: onnx.TensorShapeProto.Dimension, here: onnx.TensorShapeProto.Dimension, names: bool) -> bool:
    if here.HasField("dim_value"):
        return False
    if there.HasField("dim_value"):
        return names or not here.dim_param or is_inferred(here.dim_param)
    return names and bool(there.dim_param) and not here.dim_param


def without_sizes(kind: onnx.TypeProto, axes: Collection[int]) -> onnx.TypeProto:
    """Return a tensor's type that leaves the sizes of some axes open, and the rank, where it has not so many."""
    copy = deepcopy(kind)
    if max(axes, default=-1) >= len(copy.tensor_type.shape.dim):
        copy.tensor_type.ClearField("shape")
    for axis, dim in enumerate(copy.tensor_type.shape.dim):
        if axis in axes:
            dim.Clear()
    return copy


def forget_shapes(infos: Iterable[onnx.ValueInfoProto]) -> None:
    """Drop the shapes that are declared for tensors, and not even their ranks stay."""
    for info in infos:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")


def without_zeros(kind: onnx.TypeProto) -> onnx.TypeProto:
    """Return a type that leaves open what is declared as 0; the very same where nothing is.

    Some exporters mean an unknown size by it, and wrong sizes would follow from that.
    """
    dims = kind.tensor_type.shape.dim
    zeros = [axis for axis, dim in enumerate(dims) if dim.HasField("dim_value") and not dim.dim_value]
    return without_sizes(kind, zeros) if zeros else kind
