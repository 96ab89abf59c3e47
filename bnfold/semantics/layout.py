"""``spatial=0``: parameters for every activation, or the exporter bug that wrote it over per-channel ones.

MXNet wrote ``spatial=0`` with C parameters over images (onnx/models#156), so the attribute alone decides nothing: the
number of elements does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from bnfold import ir
from bnfold.semantics.policy import Repair, Unreadable, truth

PartialShape = tuple[int | str | None, ...]


def needs_shape(node: ir.Node) -> bool:
    """Whether the shape of the input decides what a BatchNormalization means, and is not known."""
    if not node.is_op("BatchNormalization") or node.attr("spatial", 1) != 0 or (x := node.input(0)) is None:
        return False
    return x.shape is None or (len(x.shape) > 2 and not isinstance(x.shape[1], int))


def is_per_activation(node: ir.Node, inputs: Sequence[ir.Value], repairs: list[Repair]) -> bool:
    """Whether the statistics of ``node`` belong to single activations rather than to channels.

    ``inputs`` are x, scale, bias, mean and var. False also where both readings coincide (all inner dims 1).

    Raises:
        Unreadable: ``spatial`` is neither 0 nor 1. It is 0, and the parameters' element count fits neither reading, or
            cannot be known.
    """
    if truth(node, "spatial") is not False:
        return False
    x, parameters = inputs[0], inputs[1:]
    if x.shape is not None and len(x.shape) <= 2:
        return False
    if x.shape is None or not isinstance(x.shape[1], int):
        return _by_parameters_alone(node, parameters)
    count = _element_count(node, parameters)
    channels, inner = x.shape[1], x.shape[2:]
    if count != channels:
        _check_fit(node, count, (channels, *inner))
        return True
    dims = _dims(parameters[0]) or ()
    if sum(dim != 1 for dim in dims) > 1:
        raise Unreadable(node, f"spatial=0 with parameters of shape {list(dims)}, but {channels} channels")
    if any(dim != 1 for dim in inner):
        text = f"spatial=0 with {count} parameters, one for each channel: read as spatial=1 (onnx/models#156)"
        repairs.append(Repair("nonspatial-channel-parameters", node.label, text))
    return False


def _element_count(node: ir.Node, parameters: Sequence[ir.Value]) -> int:
    counts = {_numel(value) for value in parameters}
    known = sorted(count for count in counts if count is not None)
    if None in counts:
        raise Unreadable(node, "spatial=0 with parameters of unknown size: per channel or per activation?")
    if len(known) != 1:
        raise Unreadable(node, f"spatial=0 with parameters of different sizes: {sorted(map(str, known))}")
    return known[0]


def _by_parameters_alone(node: ir.Node, parameters: Sequence[ir.Value]) -> bool:
    """Whether parameters alone say it.

    The channels of x are unknown, so only parameters that themselves have several axes still say what they are.
    """
    dims = _dims(parameters[0])
    if dims is None or len(dims) < 2:
        raise Unreadable(node, "spatial=0 over an input of unknown shape: per channel or per activation?")
    return any(dim != 1 for dim in dims[1:])


def _check_fit(node: ir.Node, count: int, activations: PartialShape) -> None:
    """Raise unless ``count`` can be the product of ``activations``."""
    known = prod(dim for dim in activations if isinstance(dim, int))
    symbolic = any(not isinstance(dim, int) for dim in activations)
    if (known > 0 and count % known == 0) if symbolic else count == known:
        return
    shape = ", ".join("?" if dim is None else str(dim) for dim in activations)
    raise Unreadable(node, f"spatial=0 with {count} parameters fits neither channels nor activations of (N, {shape})")


def _dims(value: ir.Value) -> PartialShape | None:
    return tuple(value.tensor.dims) if value.tensor is not None else value.shape


def _numel(value: ir.Value) -> int | None:
    dims = _dims(value)
    if dims is None:
        return None
    known = [dim for dim in dims if isinstance(dim, int)]
    return prod(known) if len(known) == len(dims) else None
