"""Statistics at run time: BatchNormalization in training mode, and InstanceNormalization.

All of it in float32, or float64 where a type is: averages in 16 bits would saturate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from bnfold import ir
from bnfold.decomposing.builder import Builder
from bnfold.decomposing.guard import widest
from bnfold.decomposing.layout import Layout
from bnfold.decomposing.moments import Moments
from bnfold.decomposing.runtime import parameter
from bnfold.decomposing.spec import Spec
from bnfold.ir.tensor import FLOATS


def is_used(value: ir.Value) -> bool:
    """Whether anybody reads it, or a graph returns it."""
    return bool(value.uses) or value.is_output


def operand(builder: Builder, spec: Spec, name: str, compute: int) -> ir.Value:
    """Scale or bias such that it broadcasts against the activation."""
    value = spec.inputs[name]
    tensor = ir.constant(value)
    if tensor is not None and tensor.dtype in FLOATS:
        return spec.layout.constant(builder, value, tensor.float64(), compute, name)
    return spec.layout.spread(builder, parameter(builder, spec, name, compute))


@dataclass(frozen=True, slots=True)
class Stage:
    """The activation as statistics are taken of it: in the type to compute in, and in a rank that is known.

    Where its own rank is not, or has no axis to average over, it is brought to (N, C, the rest) and back.
    """

    spec: Spec
    x: ir.Value
    compute: int
    is_reshaped: bool

    @classmethod
    def of(cls, builder: Builder, spec: Spec, *, reshape: bool) -> Stage:
        compute = widest(*spec.dtypes.values())
        x = builder.cast(spec.x, spec.dtypes["x"], compute)
        if not reshape:
            return cls(spec, x, compute, is_reshaped=False)
        x = builder.add("Reshape", [x, builder.three_axes(_channels(builder, spec))], "rank3", allowzero=1)
        return cls(replace(spec, layout=Layout(3)), x, compute, is_reshaped=True)

    def output(self, builder: Builder, moments: Moments) -> ir.Value:
        """y, in the type and dims of x."""
        scale, bias = (operand(builder, self.spec, name, self.compute) for name in ("scale", "bias"))
        y = moments.normalised(scale, bias)
        if self.is_reshaped:
            y = builder.add("Reshape", [y, builder.dims], "restored", allowzero=1)
        return builder.cast(y, self.compute, self.spec.dtypes["x"])


def _channels(builder: Builder, spec: Spec) -> ir.Value:
    """The number of channels as a (1,) of int64: there are as many scales."""
    dims = builder.shape(spec.inputs["scale"])
    static = [dim for dim in dims or () if isinstance(dim, int)]
    if dims is not None and len(static) == len(dims):
        return builder.ints([prod(static)], "channels")
    return builder.add("Shape", [parameter(builder, spec, "scale", spec.dtypes["scale"])], "channels")


@dataclass(frozen=True, slots=True)
class Training:
    """What is used of a BatchNormalization in training mode."""

    spec: Spec
    saved_var: str

    def emit(self, builder: Builder) -> dict[ir.Value, ir.Value]:
        stage = Stage.of(builder, self.spec, reshape=self.spec.layout.rank is None)
        moments = Moments(builder, stage.x, stage.spec.layout.axes, stage.spec.epsilon, stage.compute)
        made = _Statistics(builder, stage.spec, moments, stage.compute).used(self.saved_var)
        y = self.spec.node.output(0)
        if y is not None and is_used(y):
            made[y] = stage.output(builder, moments)
        return made


@dataclass(frozen=True, slots=True)
class Instance:
    """InstanceNormalization: statistics over the axes behind the channels."""

    spec: Spec

    def emit(self, builder: Builder) -> dict[ir.Value, ir.Value]:
        stage = Stage.of(builder, self.spec, reshape=self.spec.layout.rank in (None, 2))
        axes = range(2, stage.spec.layout.rank or 3)
        moments = Moments(builder, stage.x, axes, stage.spec.epsilon, stage.compute)
        output = self.spec.node.output(0)
        return {} if output is None else {output: stage.output(builder, moments)}


class _Statistics:
    """The outputs behind the first."""

    def __init__(self, builder: Builder, spec: Spec, moments: Moments, compute: int) -> None:
        self._builder = builder
        self._spec = spec
        self._moments = moments
        self._compute = compute

    def used(self, saved_var: str) -> dict[ir.Value, ir.Value]:
        """What is used of running mean and variance, saved mean and variance."""
        form = self._spec.form
        _, running_mean, running_var, mean, var = form.outputs if form is not None else (None,) * 5
        made = {}
        if running_mean is not None and is_used(running_mean):
            made[running_mean] = self._running("mean", self._moments.mean)
        if running_var is not None and is_used(running_var):
            made[running_var] = self._running("var", self._moments.var)
        if mean is not None and is_used(mean):
            made[mean] = self._saved(self._moments.mean)
        if var is not None and is_used(var):
            made[var] = self._saved(self._moments.var if saved_var == "variance" else self._inverse())
        return made

    def _inverse(self) -> ir.Value:
        self._builder.repair("saved-var", "output 5 holds 1/sqrt(variance + epsilon), as asked")
        return self._builder.add("Reciprocal", [self._moments.deviation], "inverse")

    def _saved(self, statistic: ir.Value) -> ir.Value:
        return self._builder.cast(self._vector(statistic, "mean"), self._compute, self._spec.dtypes["x"])

    def _running(self, name: str, current: ir.Value) -> ir.Value:
        """``input·momentum + current·(1 − momentum)``: the opposite sense of PyTorch's momentum."""
        builder, spec, momentum = self._builder, self._spec, self._spec.momentum
        old, new = builder.attribute("momentum", momentum, self._compute), None
        if isinstance(momentum, str):
            new = builder.add("Sub", [builder.number(1.0, self._compute, "one"), old], "remainder")
        else:
            new = builder.number(1.0 - momentum, self._compute, "remainder")
        kept = builder.add("Mul", [parameter(builder, spec, name, self._compute), old], f"kept_{name}")
        added = builder.add("Mul", [self._vector(current, name), new], f"added_{name}")
        return builder.cast(builder.add("Add", [kept, added], f"running_{name}"), self._compute, spec.dtypes[name])

    def _vector(self, statistic: ir.Value, like: str) -> ir.Value:
        dims = self._builder.shape(self._spec.inputs[like])
        return self._spec.layout.collapse(self._builder, statistic, dims)
