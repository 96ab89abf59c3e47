"""LayerNormalization, RMSNormalization and GroupNormalization in terms of primitive operators.

The input is centred before it is squared: the difference of two large means would cancel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from bnfold import ir
from bnfold.converting.adapters.normalization import group as per_channel
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import down
from bnfold.semantics.batchnorm import DEFAULT_EPSILON

TP = onnx.TensorProto
_HALVES = (TP.FLOAT16, TP.BFLOAT16)


@down("LayerNormalization", 17)
def layer(conversion: NodeConversion) -> None:
    """Decompose LayerNormalization into at most nine nodes, and one for every Cast and every further output."""
    node, data, scale, bias = conversion.node, conversion.input(0), conversion.input(1), conversion.node.input(2)
    axes, output = _trailing_axes(conversion, data), conversion.output()
    wide = _widened(conversion, data)
    mean_output, inverse_output = (_wanted(node.output(index)) for index in (1, 2))
    epsilon = float(node.attr("epsilon", DEFAULT_EPSILON))
    node.trim_outputs(1)
    is_stored_wide = conversion.dtype(wide) == TP.DOUBLE  # these outputs are float32
    mean = _mean(conversion, wide, axes, None if is_stored_wide else mean_output, "mean")
    centred = conversion.add("Sub", [wide, mean], "centred")
    deviation = _root_of_mean_square(conversion, centred, axes, epsilon)
    if is_stored_wide and mean_output is not None:
        conversion.add("Cast", [mean], mean_output, to=TP.FLOAT)
    if inverse_output is not None:
        made = conversion.add("Reciprocal", [deviation], "inverse" if is_stored_wide else inverse_output)
        if is_stored_wide:
            conversion.add("Cast", [made], inverse_output, to=TP.FLOAT)
    assert node.output(0) is output
    _scaled(conversion, _divided(conversion, centred, deviation, data), scale, bias)


@down("RMSNormalization", 23)
def root_mean_square(conversion: NodeConversion) -> None:
    """Decompose RMSNormalization: ``x / √(mean(x²) + epsilon) · scale``."""
    data, scale = conversion.input(0), conversion.input(1)
    if conversion.dtype(scale) != conversion.dtype(data):
        raise Inexpressible("has a scale of another type than its input")
    axes, wide = _trailing_axes(conversion, data), _widened(conversion, data)
    epsilon = float(conversion.node.attr("epsilon", DEFAULT_EPSILON))
    deviation = _root_of_mean_square(conversion, wide, axes, epsilon)
    _scaled(conversion, _divided(conversion, wide, deviation, data), scale, None)


@down("GroupNormalization", 21)
def group_of_channels(conversion: NodeConversion) -> None:
    """Decompose GroupNormalization 21: InstanceNormalization of groups that are laid out as channels."""
    data, scale, bias = (conversion.input(index) for index in range(3))
    groups, shape = int(conversion.node.attr("num_groups", 0)), conversion.shape(data)
    if shape is None or len(shape) < 3 or groups < 1 or not isinstance(channels := shape[1], int):
        raise Inexpressible("has an input of unknown channels, or less than three axes, or no groups")
    wide = _widened(conversion, data)
    rows = conversion.add("Reshape", [wide, conversion.ints([0, groups, -1], "groups")], "grouped")
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(conversion.dtype(wide)))
    ones = conversion.constant(np.ones(groups, kind), "ones")
    zeros = conversion.constant(np.zeros(groups, kind), "zeros")
    epsilon = float(conversion.node.attr("epsilon", DEFAULT_EPSILON))
    normal = conversion.add("InstanceNormalization", [rows, ones, zeros], "normalized", epsilon=epsilon)
    back = conversion.add("Reshape", [normal, _dims(conversion, data, shape)], "ungrouped")
    per_axis = [channels, *[1] * (len(shape) - 2)]
    scale, bias = (conversion.reshape(value, per_axis, "per_channel") for value in (scale, bias))
    _scaled(conversion, _narrowed(conversion, back, data), scale, bias)


@down("GroupNormalization", 18)
def group_of_groups(conversion: NodeConversion) -> None:
    """Decompose GroupNormalization 18, whose scale and bias belong to groups."""
    per_channel(conversion)
    group_of_channels(conversion)


def _dims(conversion: NodeConversion, data: ir.Value, shape: Sequence[int | str | None]) -> ir.Value:
    """Return the dims of the input for a Reshape back: a constant, unless more than one is open."""
    dims = [size if isinstance(size, int) and size > 0 else -1 for size in shape]
    if dims[0] == -1:
        dims[0] = 0
    if dims.count(-1) > 1:
        return conversion.add("Shape", [data], "shape")
    return conversion.ints(dims, "shape")


def _wanted(value: ir.Value | None) -> ir.Value | None:
    return None if value is None or value.is_unread else value


def _trailing_axes(conversion: NodeConversion, data: ir.Value) -> list[int]:
    """Return the axes from ``axis`` on, from the front if the rank is known."""
    axis, rank = int(conversion.node.attr("axis", -1)), conversion.context.types.rank(data)
    if rank is not None:
        if not -rank <= axis < rank:
            raise Inexpressible(f"has axis {axis}, over an input of rank {rank}")
        return list(range(axis % rank, rank))
    if axis >= 0:
        raise Inexpressible(f"has axis {axis}, and the rank of {data.name!r} is not known")
    return list(range(axis, 0))


def _widened(conversion: NodeConversion, data: ir.Value) -> ir.Value:
    """Return the input in the type that ``stash_type`` asks to compute in.

    A float64 input is computed in its own type: runtimes do so, and it is the more precise.
    """
    dtype, stash = conversion.dtype(data), int(conversion.node.attr("stash_type", TP.FLOAT))
    if stash == dtype or (stash == TP.FLOAT and dtype == TP.DOUBLE):
        return data
    if stash == TP.FLOAT and dtype in _HALVES:
        return conversion.add("Cast", [data], "wide", to=TP.FLOAT)
    raise Inexpressible(f"has stash_type={stash}, narrower than its input")


def _narrowed(conversion: NodeConversion, value: ir.Value, data: ir.Value) -> ir.Value:
    """Return a value in the type of the input."""
    dtype = conversion.dtype(data)
    return value if conversion.dtype(value) == dtype else conversion.add("Cast", [value], "narrow", to=dtype)


def _mean(conversion: NodeConversion, value: ir.Value, axes: list[int], output: ir.Value | None, hint: str) -> ir.Value:
    return conversion.reduce_mean(value, axes, hint if output is None else output, keepdims=1)


def _root_of_mean_square(conversion: NodeConversion, value: ir.Value, axes: list[int], epsilon: float) -> ir.Value:
    """Add ``√(mean(x²) + epsilon)``."""
    square = conversion.add("Mul", [value, value], "square")
    var = _mean(conversion, square, axes, None, "var")
    raised = conversion.add("Add", [var, conversion.scalar(epsilon, value, "epsilon")], "var_epsilon")
    return conversion.add("Sqrt", [raised], "deviation")


def _divided(conversion: NodeConversion, value: ir.Value, deviation: ir.Value, data: ir.Value) -> ir.Value:
    return _narrowed(conversion, conversion.add("Div", [value, deviation], "normalized"), data)


def _scaled(conversion: NodeConversion, value: ir.Value, scale: ir.Value, bias: ir.Value | None) -> None:
    if bias is None:
        conversion.become("Mul", [value, scale])
    else:
        conversion.become("Add", [conversion.add("Mul", [value, scale], "scaled"), bias])
