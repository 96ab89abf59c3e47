"""How the nodes that a rewrite adds are spelled as OpenVINO layers of opset 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bnfold import ir
from bnfold.interop.openvino.emit import ELEMENT_NAMES, Kind

_BROADCAST = {"Add": "Add", "Mul": "Multiply", "Sub": "Subtract", "Div": "Divide"}


@dataclass(frozen=True, slots=True)
class Spelling:
    """Type and attributes of a layer, and what it makes."""

    type: str
    output: Kind
    attributes: dict[str, str] = field(default_factory=dict)
    opset: int = 1


def spelled(node: ir.Node, inputs: Sequence[Kind]) -> Spelling | None:
    """The layer for a new node that reads ``inputs``; None where there is none."""
    first = inputs[0]
    if node.is_op(*_BROADCAST):
        dims = _broadcast(first.dims, inputs[1].dims)
        return Spelling(_BROADCAST[node.op_type], Kind(first.dtype, dims), {"auto_broadcast": "numpy"})
    if node.is_op("Cast"):
        target = int(node.attr("to"))
        return Spelling("Convert", Kind(target, first.dims), {"destination_type": ELEMENT_NAMES[target]})
    if node.is_op("Unsqueeze"):
        return _unsqueeze(node, first)
    if node.is_op("BatchNormalization"):
        return Spelling("BatchNormInference", first, {"epsilon": repr(float(node.attr("epsilon")))}, opset=5)
    if node.is_op("Conv"):
        return Spelling("GroupConvolution", first, _pointwise(len(node.attr("kernel_shape"))))
    return Spelling("Sqrt", first) if node.is_op("Sqrt") else None


def _unsqueeze(node: ir.Node, kind: Kind) -> Spelling | None:
    axes = ir.constant(node.input(1))
    if kind.dims is None or axes is None:
        return None
    dims = list(kind.dims)
    for axis in sorted(int(axis) for axis in axes.numpy().reshape(-1)):
        dims.insert(axis, 1)
    return Spelling("Unsqueeze", Kind(kind.dtype, tuple(dims)))


def _pointwise(spatial: int) -> dict[str, str]:
    """The attributes of a convolution without stride, padding or dilation."""
    ones, zeros = ", ".join(["1"] * spatial), ", ".join(["0"] * spatial)
    return {"strides": ones, "pads_begin": zeros, "pads_end": zeros, "dilations": ones, "auto_pad": "explicit"}


def _broadcast(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(y if x == 1 else x if y == 1 else max(x, y) for x, y in pairs)
