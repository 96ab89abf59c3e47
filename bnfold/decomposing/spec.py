"""A BatchNormalization or InstanceNormalization with the types and dims that writing it out depends on."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from bnfold import ir
from bnfold.decomposing.facts import Facts
from bnfold.decomposing.layout import Layout, per_activation
from bnfold.errors import ReferenceAttribute
from bnfold.ir.tensor import FLOATS
from bnfold.ir.value import Dim
from bnfold.report.reasons import Declined, Reason
from bnfold.semantics import BatchNormSpec, Policy, Repair, Unreadable
from bnfold.semantics import batchnorm as batchnorm_semantics
from bnfold.semantics import instancenorm as instancenorm_semantics
from bnfold.semantics.policy import literal


@dataclass(frozen=True, slots=True)
class Spec:
    """One node, read.

    Attributes:
        inputs: x and the parameters, by their names in the operator's text.
        dtypes: Element types of the same.
        epsilon: The number; or the name under which the enclosing function is given it.
        momentum: As ``epsilon``.
        form: Mode and outputs of a BatchNormalization; None for an InstanceNormalization.
        repairs: What had to be decided rather than read.
    """

    node: ir.Node
    inputs: dict[str, ir.Value]
    dtypes: dict[str, int]
    layout: Layout
    epsilon: float | str
    momentum: float | str = 0.0
    form: BatchNormSpec | None = None
    repairs: tuple[Repair, ...] = ()

    @property
    def x(self) -> ir.Value:
        return self.inputs["x"]


def batchnorm(node: ir.Node, facts: Facts, policy: Policy) -> Spec:
    """Read a BatchNormalization of any version. Raises Declined."""
    try:
        values = batchnorm_semantics.parameters(node)
        dims = [facts.dims(value) for value in values]  # this distinguishes spatial=0 from the exporter bug
        form = batchnorm_semantics.read_batchnorm(node, policy)
    except Unreadable as error:
        raise _declined(node, error) from error
    inputs = dict(zip(("x", "scale", "bias", "mean", "var"), values, strict=True))
    layout = per_activation(dims[0], dims[3]) if form.per_activation else _layout(dims[0])
    _check_sizes(layout, dims)
    return Spec(
        node=node,
        inputs=inputs,
        dtypes=_batchnorm_types(inputs, form, facts),
        layout=layout,
        epsilon=_number(node, "epsilon", batchnorm_semantics.DEFAULT_EPSILON, facts),
        momentum=_number(node, "momentum", batchnorm_semantics.DEFAULT_MOMENTUM, facts),
        form=form,
        repairs=form.repairs,
    )


def instancenorm(node: ir.Node, facts: Facts) -> Spec:
    """Read an InstanceNormalization of any version. Raises Declined."""
    try:
        x, scale, bias, output = instancenorm_semantics.slots(node)
    except Unreadable as error:
        raise _declined(node, error) from error
    dtype = _float(facts.dtype(x, output, scale, bias), x)
    layout = _layout(facts.dims(x))
    if layout.rank == 1:
        raise Declined(Reason.UNREADABLE, "an input of rank 1 has no channels")
    _check_sizes(layout, [facts.dims(value) for value in (x, scale, bias)])
    return Spec(
        node=node,
        inputs={"x": x, "scale": scale, "bias": bias},
        dtypes={"x": dtype, "scale": facts.dtype(scale) or dtype, "bias": facts.dtype(bias) or dtype},
        layout=layout,
        epsilon=_number(node, "epsilon", instancenorm_semantics.DEFAULT_EPSILON, facts),
        repairs=instancenorm_semantics.strays(node),
    )


def _declined(node: ir.Node, error: Unreadable) -> Declined:
    return Declined(Reason.REFERENCE_ATTRIBUTE if node.has_references else Reason.UNREADABLE, error.reason)


def _layout(dims: tuple[Dim, ...] | None) -> Layout:
    if dims is not None and not dims:
        raise Declined(Reason.UNREADABLE, "a scalar has no channels")
    return Layout(None if dims is None else len(dims))


def _check_sizes(layout: Layout, dims: list[tuple[Dim, ...] | None]) -> None:
    """Check that known sizes agree: broadcasting would expand shapes that the operator rejects."""
    counts = {
        prod(size for size in shape if isinstance(size, int))
        for shape in dims[1:]
        if shape is not None and all(isinstance(size, int) for size in shape)
    }
    if layout.activations is not None:
        counts.add(prod(layout.activations))
    elif layout.rank == 1:
        counts.add(1)
    elif dims[0] is not None and isinstance(dims[0][1], int):
        counts.add(dims[0][1])
    if len(counts) > 1:
        raise Declined(Reason.UNREADABLE, f"channels and parameters of different numbers: {sorted(counts)}")


def _batchnorm_types(inputs: dict[str, ir.Value], form: BatchNormSpec, facts: Facts) -> dict[str, int]:
    """Return every input's type: its own, or else by that of another which the operator's version types alike."""
    y, running_mean, running_var, *_ = form.outputs
    affine, statistics = (inputs["scale"], inputs["bias"]), (inputs["mean"], inputs["var"], running_mean, running_var)
    data = (inputs["x"], y, *(affine if form.version <= 14 else ()), *(statistics if form.version <= 9 else ()))
    groups: dict[str, tuple[ir.Value | None, ...]] = {
        "x": data,
        "scale": (*affine, *(data if form.version <= 14 else ())),
        "mean": (*statistics, *(data if form.version <= 9 else ())),
    }
    groups |= {"bias": groups["scale"], "var": groups["mean"]}
    return {name: _float(facts.dtype(value, *groups[name]), value) for name, value in inputs.items()}


def _float(dtype: int | None, value: ir.Value) -> int:
    if dtype is None:
        raise Declined(Reason.TYPE_UNKNOWN, f"value {value.name!r}")
    if dtype not in FLOATS:
        raise Declined(Reason.TYPE, f"value {value.name!r}")
    return dtype


def _number(node: ir.Node, name: str, default: float, facts: Facts) -> float | str:
    attribute = node.attrs.get(name)
    if attribute is not None and attribute.ref_attr_name:
        if node.graph.opset("") < 12 or not facts.calls.is_given(node.graph, attribute.ref_attr_name):
            raise Declined(Reason.REFERENCE_ATTRIBUTE, f"attribute {name}")
        return attribute.ref_attr_name
    try:
        value = literal(node, name)
    except (Unreadable, ReferenceAttribute) as error:
        raise Declined(Reason.UNREADABLE, f"attribute {name}") from error
    return default if value is None else float(value)
