"""Outputs 4 and 5 of BatchNormalization up to version 9: the batch's own statistics, from primitive operators."""

from __future__ import annotations

import onnx

from bnfold import ir
from bnfold.converting.node_conversion import Site
from bnfold.semantics import Form
from bnfold.semantics.batchnorm import DEFAULT_EPSILON

TP = onnx.TensorProto


def saved_statistics(site: Site, form: Form) -> None:
    """Make what somebody reads of ``saved_mean`` and ``saved_var``, and take both off the node.

    The statistics go over all axes but the channels' (``spatial=0``: over axis 0 only), in float32 for the half types,
    as the operator text says.
    """
    mean, var = (None if value is None or value.is_unread else value for value in form.outputs[3:])
    site.node.trim_outputs(3)
    if mean is None and var is None:
        return
    wide, narrow = _widened(site)
    data, axes = _channels(site, wide, per_activation=form.per_activation)
    for output, make in ((var, _variance), (mean, Site.reduce_mean)):
        if output is None:
            continue
        made = make(site, data, axes, output if narrow is None else "statistic")
        if narrow is not None:
            site.add("Cast", [made], output, to=narrow)


def _widened(site: Site) -> tuple[ir.Value, int | None]:
    """The input in a type wide enough to average in, and the type to go back to, if that is another."""
    data = site.input(0)
    dtype = site.shared.types.dtype(data)
    if dtype not in (TP.FLOAT16, TP.BFLOAT16):
        return data, None
    return site.add("Cast", [data], "wide", to=TP.FLOAT), dtype


def _channels(site: Site, data: ir.Value, *, per_activation: bool) -> tuple[ir.Value, list[int]]:
    """The input, and the axes that leave a statistic for every channel; an unknown rank is brought to 3 first."""
    if per_activation:
        parameters = site.shape(site.input(3))
        flat = parameters is not None and len(parameters) == 1
        return site.add("Flatten", [data], "flat", axis=1) if flat else data, [0]
    shape = site.shape(site.input(0))
    if shape is None:
        return site.add("Reshape", [data, site.ints([0, 0, -1], "shape")], "rank3"), [0, 2]
    if len(shape) == 1:
        return site.add("Reshape", [data, site.ints([-1, 1], "shape")], "rank2"), [0]
    return data, [axis for axis in range(len(shape)) if axis != 1]


def _variance(site: Site, data: ir.Value, axes: list[int], output: str | ir.Value) -> ir.Value:
    """Population variance; or, as the policy asks, what onnxruntime returns in its place."""
    mean = site.reduce_mean(data, axes, "current_mean", keepdims=1)
    centred = site.add("Sub", [data, mean], "centred")
    squares = site.add("Mul", [centred, centred], "squares")
    if site.policy.saved_var == "variance":
        return site.reduce_mean(squares, axes, output)
    site.repair("saved-var", "output 5 holds 1/sqrt(variance + epsilon), as asked")
    var = site.reduce_mean(squares, axes, "current_var")
    epsilon = site.scalar(float(site.node.attr("epsilon", DEFAULT_EPSILON)), data, "epsilon")
    root = site.add("Sqrt", [site.add("Add", [var, epsilon], "var_epsilon")], "deviation")
    return site.add("Reciprocal", [root], output)
