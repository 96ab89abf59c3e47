"""BatchNormalization of any version to the target's, by its meaning: see :mod:`bnfold.semantics`."""

from __future__ import annotations

from typing import NamedTuple

from bnfold import ir
from bnfold.converting.adapters.statistics import saved_statistics
from bnfold.converting.context import Inexpressible
from bnfold.converting.node_conversion import Site
from bnfold.semantics import Form
from bnfold.semantics.batchnorm import Outputs, read

LEGACY = ("is_test", "spatial", "consumed_inputs", "training_mode")


def to_target(site: Site) -> None:
    """The whole way in one step; a node that is in the target's form already stays as it is."""
    node = site.node
    if _is_parameterised(node, site.target):
        site.finished = True
        return
    if node.has_attr("spatial"):
        for value in node.inputs:
            if value is not None:
                site.shape(value)  # what tells spatial=0 from the exporter bug
    form = read(node, site.policy)
    site.shared.repairs.extend(form.repairs)
    if form.mode == "training":
        site.shared.training.append(node.label)
    site.finished = True
    if _is_current(node, form, site.target):
        return
    site.touched = form.version < 14 or bool(form.repairs)
    if form.mode == "training":
        saved_statistics(site, form)
    if form.per_activation:
        _flatten(site, form)
    else:
        _flat_parameters(site)
    _write_mode(site, form)


def _is_current(node: ir.Node, form: Form, target: int) -> bool:
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
    """How the versions of one time say the mode: by attribute ``mode``, which set means ``means``, and by outputs."""

    attributes: frozenset[str]
    mode: str | None
    means: str
    training_outputs: int


_ERAS = {
    1: Era(frozenset({"is_test", "consumed_inputs"}), "is_test", "inference", 5),
    6: Era(frozenset({"is_test"}), "is_test", "inference", 5),
    7: Era(frozenset(), None, "training", 5),
    14: Era(frozenset({"training_mode"}), "training_mode", "training", 3),
}


def _era(version: int) -> Era:
    return _ERAS[max(since for since in _ERAS if since <= version)]


def _is_parameterised(node: ir.Node, target: int) -> bool:
    """A function that passes its mode on: where 14 and 15 say it alike there is nothing to read and nothing to do."""
    mode = node.attrs.get("training_mode")
    return bool(mode is not None and mode.ref_attr_name) and min(node.graph.opset(""), target) >= 14


def _write_mode(site: Site, form: Form) -> None:
    """Say the mode as the target does: an attribute, the number of outputs, or ``is_test``."""
    node = site.node
    written = node.attr("training_mode")
    for name in LEGACY:
        node.del_attr(name)
    if site.target < 6:
        node.set_attr("consumed_inputs", [0, 0, 0, 1, 1])  # no meaning, but demanded there
    if form.mode == "training":
        _write_training(site)
        return
    node.trim_outputs(1)
    if site.target >= 14 and written is not None:
        node.set_attr("training_mode", 0)
    if site.target < 7:
        node.set_attr("is_test", 1)


def _write_training(site: Site) -> None:
    """All outputs that the target's form has in training mode, read or not."""
    node = site.node
    node.trim_outputs(3)
    for index, what in ((1, "running_mean"), (2, "running_var")):
        if node.output(index) is None:
            site.divert(index, what)
    if site.target >= 14:
        node.set_attr("training_mode", 1)
        return
    for index, what in ((3, "saved_mean"), (4, "saved_var")):
        site.divert(index, what)
    if site.target < 7:
        node.set_attr("is_test", 0)


def _flat_parameters(site: Site) -> None:
    """Per-channel parameters of several axes, as spatial=0 stored them, become vectors."""
    node = site.node
    for index in range(1, 5):
        value = site.input(index)
        shape = site.shape(value)
        if shape is not None and len(shape) > 1:
            node.set_input(index, _vector(site, value, shape))


def _flatten(site: Site, form: Form) -> None:
    """Per-activation: Flatten, one channel for every activation, and back to the shape of x."""
    node, data = site.node, site.input(0)
    shapes = [site.shape(value) for value in node.inputs[3:5] if value is not None]
    for index in range(1, 5):
        value = site.input(index)
        node.set_input(index, _vector(site, value, site.shape(value)))
    node.set_input(0, site.add("Flatten", [data], "flat", axis=1))
    _restore_running(site, form.outputs, shapes)
    site.restore_shape(site.divert(0, "rows"), data, form.outputs[0])


def _restore_running(site: Site, outputs: Outputs, shapes: list[tuple[int | str | None, ...] | None]) -> None:
    """The running statistics keep the shape that the parameters had."""
    for index, shape, output in zip((1, 2), shapes, outputs[1:3], strict=True):
        if output is None or shape is None or len(shape) == 1:
            continue
        dims = [dim for dim in shape if isinstance(dim, int) and dim]
        if len(dims) != len(shape):
            raise Inexpressible(f"the shape of {output.name!r} is not known")
        site.append("Reshape", [site.divert(index, "running"), site.ints(dims, "shape")], output)


def _vector(site: Site, value: ir.Value, shape: tuple[int | str | None, ...] | None) -> ir.Value:
    if shape is not None and len(shape) == 1:
        return value
    size = 1
    for dim in shape or (-1,):
        size = size * dim if isinstance(dim, int) and size > 0 and dim > 0 else -1
    return site.reshape(value, [size], "vector")
