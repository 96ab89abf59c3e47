"""BatchNormalization of any version to the target's, by its meaning: see :mod:`bnfold.semantics`."""

from __future__ import annotations

from typing import NamedTuple

from bnfold import ir
from bnfold.converting.adapters.statistics import saved_statistics
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import NodeConversion
from bnfold.converting.registry import by_meaning, up, up_unchanged
from bnfold.semantics import BatchNormSpec
from bnfold.semantics.batchnorm import Outputs, read_batchnorm

LEGACY = ("is_test", "spatial", "consumed_inputs", "training_mode")

up_unchanged("BatchNormalization", 15)  # scale and bias, mean and variance may have types of their own


@by_meaning("BatchNormalization")
@up("BatchNormalization", 6, 7, 9, 14)
def to_target(conversion: NodeConversion) -> None:
    """Convert the node in one step; a node that already has the form of the target stays as it is."""
    node = conversion.node
    if _is_parameterised(node, conversion.target):
        conversion.finished = True
        return
    if node.has_attr("spatial"):
        for value in node.inputs:
            if value is not None:
                conversion.shape(value)  # this distinguishes spatial=0 from the exporter bug
    form = read_batchnorm(node, conversion.policy)
    conversion.context.repairs.extend(form.repairs)
    if form.mode == "training":
        conversion.context.training.append(node.label)
    conversion.finished = True
    if _is_current(node, form, conversion.target):
        return
    conversion.touched = form.version < 14 or bool(form.repairs)
    if form.mode == "training":
        saved_statistics(conversion, form)
    if form.per_activation:
        _flatten(conversion, form)
    else:
        _flat_parameters(conversion)
    _write_mode(conversion, form)


def _is_current(node: ir.Node, form: BatchNormSpec, target: int) -> bool:
    """Whether the node already says what ``form`` says, in the way of ``target``."""
    era = _era(target)
    if _era(form.version) is not era or form.per_activation or form.repairs or None in node.outputs:
        return False
    if any(node.has_attr(name) for name in LEGACY if name not in era.attributes):
        return False
    if era.mode is not None and bool(node.attr(era.mode, 0)) != (form.mode == era.means):
        return False
    return len(node.outputs) == (era.training_outputs if form.mode == "training" else 1)


class Era(NamedTuple):
    """How the versions of one period state the mode: by attribute ``mode``, which means ``means``, and by outputs."""

    attributes: frozenset[str]
    mode: str | None
    means: str
    training_outputs: int

    def has(self, attribute: str) -> bool:
        """Whether these versions have an attribute."""
        return attribute in self.attributes


_ERAS = {
    1: Era(frozenset({"is_test", "consumed_inputs"}), "is_test", "inference", 5),
    6: Era(frozenset({"is_test"}), "is_test", "inference", 5),
    7: Era(frozenset(), None, "training", 5),
    14: Era(frozenset({"training_mode"}), "training_mode", "training", 3),
}


def _era(version: int) -> Era:
    return _ERAS[max(since for since in _ERAS if since <= version)]


def _is_parameterised(node: ir.Node, target: int) -> bool:
    """Whether it is a function's node that passes its mode on.

    Where 14 and 15 say it alike there is nothing to read and nothing to do.
    """
    mode = node.attrs.get("training_mode")
    era = _era(min(node.graph.opset(""), target))
    return mode is not None and bool(mode.ref_attr_name) and era.has("training_mode")


def _write_mode(conversion: NodeConversion, form: BatchNormSpec) -> None:
    """Say the mode as the target does: an attribute, the number of outputs, or ``is_test``."""
    node, era, is_training = conversion.node, _era(conversion.target), form.mode == "training"
    written = node.attr("training_mode")
    for name in LEGACY:
        node.del_attr(name)
    if era.has("consumed_inputs"):
        node.set_attr("consumed_inputs", [0, 0, 0, 1, 1])  # no meaning, but demanded there
    if era.has("is_test"):
        node.set_attr("is_test", int(not is_training))
    if era.has("training_mode") and (is_training or written is not None):
        node.set_attr("training_mode", int(is_training))
    node.trim_outputs(3 if is_training else 1)
    for index, what in enumerate(_TRAINING_OUTPUTS[: era.training_outputs - 1], 1) if is_training else ():
        if node.output(index) is None:
            conversion.divert(index, what)


_TRAINING_OUTPUTS = ("running_mean", "running_var", "saved_mean", "saved_var")
"""Outputs behind the first one that training mode demands, read or not."""


def _flat_parameters(conversion: NodeConversion) -> None:
    """Make vectors of per-channel parameters of several axes, as spatial=0 stored them."""
    node = conversion.node
    for index in range(1, 5):
        value = conversion.input(index)
        shape = conversion.shape(value)
        if shape is not None and len(shape) > 1:
            node.set_input(index, _vector(conversion, value, shape))


def _flatten(conversion: NodeConversion, form: BatchNormSpec) -> None:
    """Convert per-activation parameters: Flatten, one channel for every activation, and back to the shape of x."""
    node, data = conversion.node, conversion.input(0)
    shapes = [conversion.shape(value) for value in node.inputs[3:5] if value is not None]
    for index in range(1, 5):
        value = conversion.input(index)
        node.set_input(index, _vector(conversion, value, conversion.shape(value)))
    node.set_input(0, conversion.add("Flatten", [data], "flat", axis=1))
    _restore_running(conversion, form.outputs, shapes)
    conversion.restore_shape(conversion.divert(0, "rows"), data, form.outputs[0])


def _restore_running(
    conversion: NodeConversion, outputs: Outputs, shapes: list[tuple[int | str | None, ...] | None]
) -> None:
    """Let the running statistics keep the shape that the parameters had."""
    for index, shape, output in zip((1, 2), shapes, outputs[1:3], strict=True):
        if output is None or shape is None or len(shape) == 1:
            continue
        dims = [dim for dim in shape if isinstance(dim, int) and dim]
        if len(dims) != len(shape):
            raise Inexpressible(f"the shape of {output.name!r} is not known")
        conversion.append("Reshape", [conversion.divert(index, "running"), conversion.ints(dims, "shape")], output)


def _vector(conversion: NodeConversion, value: ir.Value, shape: tuple[int | str | None, ...] | None) -> ir.Value:
    if shape is not None and len(shape) == 1:
        return value
    size = 1
    for dim in shape or (-1,):
        size = size * dim if isinstance(dim, int) and size > 0 and dim > 0 else -1
    return conversion.reshape(value, [size], "vector")
