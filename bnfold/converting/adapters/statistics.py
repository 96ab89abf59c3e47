"""Outputs 4 and 5 of BatchNormalization up to version 9: the batch's own statistics, from primitive operators."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.converting.node_conversion import NodeConversion
from bnfold.semantics import BatchNormSpec
from bnfold.semantics.batchnorm import DEFAULT_EPSILON

TP = onnx.TensorProto


def saved_statistics(conversion: NodeConversion, form: BatchNormSpec) -> None:
    """Make the outputs ``saved_mean`` and ``saved_var`` that have consumers, and take both off the node.

    The statistics go over all axes but the channels' (``spatial=0``: over axis 0 only), in float32 for the half types,
    as the operator text says.
    """
    mean, var = (None if value is None or value.is_unread else value for value in form.outputs[3:])
    conversion.node.trim_outputs(3)
    if mean is None and var is None:
        return
    wide, narrow = _widened(conversion)
    data, axes = _channels(conversion, wide, per_activation=form.per_activation)
    for output, make in ((var, _variance), (mean, NodeConversion.reduce_mean)):
        if output is None:
            continue
        made = make(conversion, data, axes, output if narrow is None else "statistic")
        if narrow is not None:
            conversion.add("Cast", [made], output, to=narrow)


def _widened(conversion: NodeConversion) -> tuple[ir.Value, int | None]:
    """Return the input in a type wide enough to average in, and the type to go back to, if that is another."""
    data = conversion.input(0)
    dtype = conversion.context.types.dtype(data)
    if dtype not in (TP.FLOAT16, TP.BFLOAT16):
        return data, None
    return conversion.add("Cast", [data], "wide", to=TP.FLOAT), dtype


def _channels(conversion: NodeConversion, data: ir.Value, *, per_activation: bool) -> tuple[ir.Value, list[int]]:
    """Return the input, and the axes that leave a statistic for every channel.

    An unknown rank is brought to 3 first.
    """
    if per_activation:
        parameters = conversion.shape(conversion.input(3))
        flat = parameters is not None and len(parameters) == 1
        return conversion.add("Flatten", [data], "flat", axis=1) if flat else data, [0]
    shape = conversion.shape(conversion.input(0))
    if shape is None:
        return conversion.add("Reshape", [data, conversion.ints([0, 0, -1], "shape")], "rank3"), [0, 2]
    if len(shape) == 1:
        return conversion.add("Reshape", [data, conversion.ints([-1, 1], "shape")], "rank2"), [0]
    return data, [axis for axis in range(len(shape)) if axis != 1]


def _variance(conversion: NodeConversion, data: ir.Value, axes: list[int], output: str | ir.Value) -> ir.Value:
    """Return population variance; or, as the policy asks, what onnxruntime returns in its place."""
    mean = conversion.reduce_mean(data, axes, "current_mean", keepdims=1)
    centred = conversion.add("Sub", [data, mean], "centred")
    squares = conversion.add("Mul", [centred, centred], "squares")
    if conversion.policy.saved_var == "variance":
        return conversion.reduce_mean(squares, axes, output)
    conversion.repair("saved-var", "output 5 holds 1/sqrt(variance + epsilon), as asked")
    var = conversion.reduce_mean(squares, axes, "current_var")
    epsilon = conversion.scalar(float(conversion.node.attr("epsilon", DEFAULT_EPSILON)), data, "epsilon")
    root = conversion.add("Sqrt", [conversion.add("Add", [var, epsilon], "var_epsilon")], "deviation")
    return conversion.add("Reciprocal", [root], output)
